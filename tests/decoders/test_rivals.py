"""Which boxes can suppress which, against a slow loop."""

from __future__ import annotations

import numpy as np
import pytest

from edge_infer.decoders.rivals import MOST_PAIRS, rivals


@pytest.mark.parametrize(("count", "side", "classes"), [(0, 9, 1), (1, 9, 1), (300, 40, 4), (400, 600, 2)])
def test_every_two_that_share_columns_and_rows_are_found_once(count: int, side: float, classes: int) -> None:
    draw = np.random.default_rng(count)
    corner = draw.uniform(0, 640, (count, 2))
    boxes = np.concatenate([corner, corner + draw.uniform(0, side, (count, 2))], axis=1)
    class_ids = draw.integers(0, classes, count)
    found = rivals(boxes, class_ids)
    assert found is not None
    pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    expected = {
        (i, j)
        for i in range(count)
        for j in range(i + 1, count)
        if class_ids[i] == class_ids[j]
        and (boxes[i, :2] < boxes[j, 2:]).all()
        and (boxes[j, :2] < boxes[i, 2:]).all()
    }
    assert set(pairs) == expected
    assert len(pairs) == len(expected)


def test_too_many_are_not_listed() -> None:
    boxes = np.tile(np.array([0.0, 0.0, 9.0, 9.0]), (1000, 1))
    assert MOST_PAIRS < 1000 * 999 // 2
    assert rivals(boxes, np.zeros(1000, np.intp)) is None
