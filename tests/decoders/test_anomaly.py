"""A score is normalised once, its threshold belongs to what is not normal, and a NaN is never normal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders.anomaly import AnomalyDecoder
from edge_infer.errors import ModelError
from edge_infer.findings import Anomaly, Findings
from edge_infer.geometry import Transform, center_crop, letterbox, stretch
from edge_infer.model.card import AnomalyCard, InputCard
from edge_infer.tensor import TensorSpec
from tests.support.tasks import SIZE, card, decode, decoder_of

V1 = AnomalyCard(5, 2, 12)


def _stretched(width: int, height: int) -> Transform:
    return stretch(SIZE[1], SIZE[0]).transform((0, 0, width, height), width, height)


def _map(low: float = 0.2, high: float = 0.9, shape: tuple[int, int] = SIZE) -> NDArray[np.float32]:
    """Hot in a box at 3/8..5/8 of the width, 1/4..1/2 of the height."""
    heat = np.full(shape, low, np.float32)
    height, width = shape
    heat[height // 4 : height // 2, width * 3 // 8 : width * 5 // 8] = high
    return heat


def _anomaly(findings: Findings) -> Anomaly:
    assert findings.anomaly is not None
    return findings.anomaly


def _decode(raw: float, **more: Any) -> Anomaly:
    return _anomaly(
        decode(card("anomaly", "anomaly", (), **more), {"pred_score": np.array([raw], np.float32)})
    )


@pytest.mark.parametrize(("raw", "score"), [(2, 0.2), (5, 0.5), (7.0196, 0.702), (12, 1), (99, 1), (-50, 0)])
def test_a_raw_score_is_normalised_with_the_cards_numbers(raw: float, score: float) -> None:
    found = _decode(raw, anomaly=V1)
    assert found.score == pytest.approx(score, abs=1e-4)
    assert found.is_anomalous == (raw >= 5)


def test_at_the_threshold_a_part_is_not_normal() -> None:
    assert _decode(0.5).is_anomalous
    assert not _decode(math.nextafter(0.5, 0) - 1e-7).is_anomalous
    # no float32 lies at 5.1, and the network computes in them
    assert _decode(5.1, anomaly=AnomalyCard(5.1, 0.3, 11.7)).is_anomalous
    below = float(np.nextafter(np.float32(5.1), np.float32(0)))
    assert not _decode(below, anomaly=AnomalyCard(5.1, 0.3, 11.7)).is_anomalous


@pytest.mark.parametrize("raw", [1.2, -0.5, 40])
def test_a_score_that_nobody_normalised_is_refused_and_not_clipped_to_one(raw: float) -> None:
    with pytest.raises(ModelError, match="does not lie in 0"):
        _decode(raw)
    assert _decode(1.005).score == 1


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2,), (2, 1)])
def test_of_a_fixed_batch_the_first_picture_is_ours(shape: tuple[int, ...]) -> None:
    batch = shape[0]
    scores = np.linspace(0.7, 0.1, batch, dtype=np.float32).reshape(shape)
    maps = np.stack([_map()] + [_map(0, 0)] * (batch - 1))[:, None]
    labels = np.zeros(shape, np.bool_)
    answers = {"pred_score": scores, "pred_label": labels, "anomaly_map": maps, "pred_mask": maps > 0.5}
    found = _anomaly(decode(card("anomaly", "anomaly", ()), answers, _stretched(320, 192)))
    assert found.score == pytest.approx(0.7)
    assert found.hot_box == pytest.approx((120, 48, 200, 96), abs=1)


@pytest.mark.parametrize("shape", [(1, 1, *SIZE), (1, *SIZE), (1, 1, 24, 40)])
def test_of_a_lone_map_the_highest_value_is_the_score(shape: tuple[int, ...]) -> None:
    raw = _map(2, 9, shape[-2:]).reshape(shape)  # type: ignore[arg-type]  # two sides
    found = _anomaly(
        decode(card("anomaly", "anomaly", (), anomaly=V1), {"output": raw}, _stretched(1280, 320))
    )
    assert found.score == pytest.approx(0.9)
    assert found.hot_box == pytest.approx((480, 80, 800, 160), abs=8)
    assert found.heat_map is not None
    assert found.heat_map.values.max() == pytest.approx(0.9)


def test_a_map_may_be_normalised_apart_from_the_score() -> None:
    model = card("anomaly", "anomaly", (), anomaly=AnomalyCard(5, 2, 12, own_map=(8, 0, 20)))
    found = _anomaly(decode(model, {"output": _map(2, 9)[None, None]}))
    assert found.score == pytest.approx(0.9)
    assert found.heat_map is not None
    assert found.heat_map.values.max() == pytest.approx(0.55)


@pytest.mark.parametrize(("width", "height"), [(1280, 320), (321, 777), (160, 96), (4000, 3000), (41, 37)])
@pytest.mark.parametrize("shape", [SIZE, (24, 40)])
def test_the_hot_box_is_right_on_a_frame_of_any_shape(
    width: int, height: int, shape: tuple[int, int]
) -> None:
    found = _anomaly(
        decode(
            card("anomaly", "anomaly", (), anomaly=AnomalyCard()),
            {"output": _map(shape=shape)[None, None]},
            _stretched(width, height),
        )
    )
    assert found.hot_box is not None
    right = (width * 3 / 8, height / 4, width * 5 / 8, height / 2)
    assert found.hot_box == pytest.approx(right, abs=max(width, height) / shape[0] / 2)
    # as drawing shows it
    assert found.heat_map is not None
    ys, xs = np.nonzero(found.heat_map.on_frame(width, height) >= 0.5)
    drawn = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
    assert found.hot_box == pytest.approx(drawn, abs=1.01)


def test_the_hot_box_reaches_between_the_values_to_where_the_threshold_is_crossed() -> None:
    heat = np.zeros((1, 1, 4, 8), np.float32)
    heat[0, 0, 1, 3] = 1.0
    heat[0, 0, 1, 4] = 0.6
    model = card("anomaly", "anomaly", (), anomaly=AnomalyCard(), input=InputCard((4, 8)))
    transform = stretch(8, 4).transform((0, 0, 800, 400), 800, 400)
    found = _anomaly(decode(model, {"output": heat}, transform))
    # half way from the middle of the value 1 to its neighbours, a sixth from the 0.6
    assert found.hot_box == pytest.approx((300, 100, 450 + 100 / 6, 200), abs=0.01)


def test_where_nothing_is_hot_there_is_no_box() -> None:
    answers = {"pred_score": np.array([0.9], np.float32), "anomaly_map": _map(0.1, 0.4)[None, None]}
    found = _anomaly(decode(card("anomaly", "anomaly", ()), answers))
    assert found.hot_box is None
    assert found.is_anomalous


def test_a_map_of_the_middle_only_lies_in_the_middle() -> None:
    model = card("anomaly", "anomaly", (), anomaly=AnomalyCard(), input=InputCard(SIZE, graph_crop=(48, 80)))
    found = _anomaly(
        decode(model, {"output": np.full((1, 1, 48, 80), 0.9, np.float32)}, _stretched(320, 384))
    )
    assert found.hot_box == pytest.approx((80, 96, 240, 288))
    assert found.heat_map is not None
    spread = found.heat_map.on_frame(320, 384)
    assert (spread[96:288, 80:240] > 0.8).all()
    assert np.count_nonzero(spread) == 192 * 160


def test_a_picture_cut_to_its_middle_has_its_heat_there() -> None:
    fit = center_crop(640, 192, SIZE, SIZE[1], SIZE[0])
    transform = fit.transform((0, 0, 640, 192), 640, 192)
    model = card("anomaly", "anomaly", (), anomaly=AnomalyCard(), input=InputCard(SIZE, resize="center_crop"))
    found = _anomaly(decode(model, {"output": np.full((1, 1, 96, 160), 0.9, np.float32)}, transform))
    assert found.hot_box == pytest.approx((160, 0, 480, 192))


def test_heat_in_the_padding_is_not_in_the_frame() -> None:
    heat = np.zeros((1, 1, *SIZE), np.float32)
    heat[..., :10] = 1
    transform = letterbox(100, 300, SIZE[1], SIZE[0], "center").transform((0, 0, 100, 300), 100, 300)
    found = _anomaly(
        decode(card("anomaly", "anomaly", (), anomaly=AnomalyCard()), {"output": heat}, transform)
    )
    assert found.hot_box is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_undefined_and_never_normal(bad: float) -> None:
    for answers in (
        {"pred_score": np.array([bad], np.float32)},
        {"pred_score": np.array([bad], np.float32), "anomaly_map": _map()[None, None]},
        {"pred_score": np.array([0.1], np.float32), "anomaly_map": _map(0.1, bad)[None, None]},
    ):
        findings = decode(card("anomaly", "anomaly", ()), answers)
        assert (findings.undefined, findings.anomaly) == ("nan", None)
        assert "not finite" in findings.warnings[0]
    findings = decode(card("anomaly", "anomaly", (), anomaly=V1), {"output": _map(2, bad)[None, None]})
    assert findings.undefined == "nan"
    with pytest.raises(ValueError, match="never normal"):
        Anomaly(bad)


def test_a_network_without_score_and_map_is_refused() -> None:
    with pytest.raises(ModelError, match="none of its outputs"):
        decode(card("anomaly", "anomaly", ()), {"label": np.zeros((1,), np.bool_)})


SEVERAL = [
    {"output": (1, 2, *SIZE)}, {"output": (2, *SIZE)}, {"score": (1, 2)}, {"score": (2,)},
    {"output": (1, *SIZE, 1)}, {"pred_score": (1, 2), "anomaly_map": (1, 1, *SIZE)},
    {"pred_score": (1, 1), "anomaly_map": (1, 2, *SIZE)}, {"pred_score": (2,), "anomaly_map": (2, *SIZE)},
]  # fmt: skip


@pytest.mark.parametrize("shapes", SEVERAL)
def test_how_normal_a_picture_is_is_never_taken_for_how_anomalous(
    shapes: dict[str, tuple[int, ...]],
) -> None:
    answers = {name: np.full(shape, 0.1, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ModelError, match="must give one score"):
        decoder_of(card("anomaly", "anomaly", ()), answers)
    # sides that are free tell it with the first picture
    free = tuple(TensorSpec(name, (None,) * len(shape), "float32") for name, shape in shapes.items())
    decoder = AnomalyDecoder(card("anomaly", "anomaly", ()), free)
    with pytest.raises(ModelError, match="must give one score"):
        decoder.decode(answers, _stretched(320, 192))
