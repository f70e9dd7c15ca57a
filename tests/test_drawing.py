"""Findings drawn onto a copy of a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.drawing import draw, drawable
from edge_infer.findings import Detections
from edge_infer.geometry import Polygon

Pixels = NDArray[np.uint8]


def _frame() -> Pixels:
    frame = np.full((240, 320, 3), 60, np.uint8)
    frame.flags.writeable = False
    return frame


def _found(labels: Sequence[str], boxes: Sequence[Sequence[float]] | None = None) -> Detections:
    count = len(labels)
    places = boxes or [[40, 60, 140, 160]] * count
    return Detections(
        np.array(places, np.float32).reshape(-1, 4),
        np.linspace(0.9, 0.5, count).astype(np.float32),
        np.arange(count, dtype=np.int32),
        tuple(labels),
    )


def test_the_frame_itself_is_never_drawn_on() -> None:
    frame = _frame()
    drawn = draw(frame, _found(["cap"]))
    assert not np.shares_memory(drawn, frame)
    assert (frame == 60).all()
    assert drawn.shape == frame.shape


def test_a_box_is_drawn_where_it_is_and_labelled_above() -> None:
    changed = (draw(_frame(), _found(["cap"])) != 60).any(axis=2)
    assert changed[60:160, 40].all()
    assert changed[159, 40:140].all()
    # inside nothing is covered
    assert not changed[64:156, 44:136].any()
    assert changed[44:58, 42:60].any()
    assert not changed[162:].any()


def test_a_label_stays_in_the_picture() -> None:
    for box in ([0, 0, 320, 240], [300, 0, 320, 20], [310, 230, 320, 240]):
        changed = (draw(_frame(), _found(["a rather long label"], [box])) != 60).any(axis=2)
        assert changed.sum() > 1000


def test_zones_and_the_region_are_drawn() -> None:
    zone = Polygon(((200, 20), (300, 20), (300, 120)))
    drawn = draw(_frame(), Detections.none(), [zone], (10, 20, 310, 220))
    assert (drawn[20, 205:295] == 255).all()
    assert (drawn[20:220, 10] == 255).all()
    assert (drawn[219, 10:310] == 255).all()


def test_a_grey_picture_is_drawn_on_in_colour() -> None:
    drawn = draw(_frame()[:, :, 0], _found(["cap"]))
    assert drawn.shape == (240, 320, 3)
    assert (drawn[100, 40] != drawn[100, 40, 0]).any()


@pytest.mark.parametrize("label", ["Flasche ß", "瓶子", "крышка", 'it\'s, a "cap"', "가"])
def test_a_label_is_shown_in_its_own_letters(label: str) -> None:
    assert drawable(label) == label


@pytest.mark.parametrize("label", ["ฝาขวด", "😀", "a\ud800b", "two\nlines", "\0", "", "\u202e"], ids=ascii)
def test_a_label_that_the_font_cannot_show_becomes_its_class_id(label: str) -> None:
    assert drawable(label) is None
    np.testing.assert_array_equal(draw(_frame(), _found([label])), draw(_frame(), _found(["0"])))


def test_a_question_mark_is_a_letter_like_any_other() -> None:
    assert drawable("cap?") == "cap?"


def test_a_very_long_label_is_cut() -> None:
    short = drawable("x" * 5000)
    assert short is not None
    assert len(short) == 40
