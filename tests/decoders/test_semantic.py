"""Every connected region of a class is an object with a mask."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.findings import Detections, Findings
from edge_infer.geometry import letterbox, stretch
from edge_infer.model.card import InputCard
from tests.support.tasks import FRAME, SIZE, TRANSFORM, card, decode

STRETCHED = stretch(SIZE[1], SIZE[0]).transform((0, 0, 320, 192), 320, 192)
LABELS = ("nothing", "cap", "tear")


def _map() -> NDArray[np.intp]:
    """At a quarter of the network's size: two caps and a tear."""
    classes = np.zeros((SIZE[0] // 4, SIZE[1] // 4), np.intp)
    classes[2:6, 3:10] = 1
    classes[10:14, 20:24] = 1
    classes[12:20, 30:33] = 2
    return classes


def _logits(classes: NDArray[np.intp]) -> NDArray[np.float32]:
    return (np.eye(3, dtype=np.float32)[classes] * 4).transpose(2, 0, 1)[None]


def _detections(findings: Findings) -> Detections:
    assert findings.detections is not None
    return findings.detections


def _objects(findings: Findings) -> list[tuple[str, tuple[float, ...]]]:
    return sorted((one.label, one.box) for one in _detections(findings))


EXPECTED = [("cap", (24, 16, 80, 48)), ("cap", (160, 80, 192, 112)), ("tear", (240, 96, 264, 160))]


def test_regions_are_objects_in_the_pixels_of_the_frame() -> None:
    model = card("semantic", "semantic", LABELS[1:], background="first", logits=True)
    findings = decode(model, {"o": _logits(_map())}, STRETCHED)
    assert _objects(findings) == EXPECTED
    found = _detections(findings)
    probability = math.exp(4) / (math.exp(4) + 2)
    np.testing.assert_allclose(found.scores, probability, atol=1e-5)
    for one in found:
        assert one.mask is not None
        mask = one.mask.on_frame(320, 192, outside=-1) > 0
        x1, y1, x2, y2 = map(int, one.box)
        assert mask[y1:y2, x1:x2].all()
        assert mask.sum() == (x2 - x1) * (y2 - y1)


def test_probabilities_are_not_softened_again() -> None:
    raised = np.exp(_logits(_map()))
    answer = (raised / raised.sum(axis=1, keepdims=True)).astype(np.float32)
    model = card("semantic", "semantic", LABELS[1:], background="first", logits=False)
    assert _detections(decode(model, {"o": answer}, STRETCHED)).scores[0] == pytest.approx(0.9647, abs=1e-3)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
@pytest.mark.parametrize("batch", [1, 2])
def test_class_ids_are_read_as_they_are(dtype: type[np.integer], batch: int) -> None:
    answer = np.repeat(_map()[None].astype(dtype), batch, axis=0)
    model = card("semantic", "semantic", LABELS[1:], background="first")
    findings = decode(model, {"o": answer}, STRETCHED)
    assert _objects(findings) == EXPECTED
    assert (_detections(findings).scores == 1).all()


def test_ids_of_a_single_class_say_whether_it_is_there() -> None:
    answer = (_map() == 2).astype(np.uint8)[None]
    findings = decode(card("semantic", "semantic", ("tear",)), {"o": answer}, STRETCHED)
    assert (_objects(findings), findings.warnings) == (EXPECTED[2:], ())


def test_without_a_background_every_place_belongs_to_an_object() -> None:
    findings = decode(card("semantic", "semantic", LABELS, logits=True), {"o": _logits(_map())}, STRETCHED)
    assert ("nothing", (0, 0, 320, 192)) in _objects(findings)
    assert len(_detections(findings)) == 4


def test_one_channel_says_where_the_one_class_is() -> None:
    plane = np.where(_map() == 2, 3.0, -3.0).astype(np.float32)[None, None]
    for logits in (True, None):
        findings = decode(card("semantic", "semantic", ("tear",), logits=logits), {"o": plane}, STRETCHED)
        assert _objects(findings) == EXPECTED[2:]
    findings = decode(
        card("semantic", "semantic", ("tear",), logits=False),
        {"o": (plane > 0).astype(np.float32)},
        STRETCHED,
    )
    assert _objects(findings) == EXPECTED[2:]


def test_what_lies_in_the_padding_is_no_object_and_what_reaches_into_it_ends_at_the_frame() -> None:
    classes = np.zeros((SIZE[0], SIZE[1]), np.intp)
    classes[:, 0:20] = 1
    model = card("semantic", "semantic", LABELS[1:], background="first", logits=True)
    [one] = _detections(decode(model, {"o": _logits(classes)}))
    assert one.box == pytest.approx((0, 0, 20 / TRANSFORM.scale_x, FRAME[1]), abs=0.5)
    tall = letterbox(100, 300, SIZE[1], SIZE[0], "center").transform((0, 0, 100, 300), 100, 300)
    assert len(_detections(decode(model, {"o": _logits(classes)}, tall))) == 0


def test_weak_regions_are_dropped_and_only_the_best_are_kept() -> None:
    logits = _logits(_map())
    logits[0, :, 2:6, 3:10] /= 8
    model = card("semantic", "semantic", LABELS[1:], background="first", logits=True, score_threshold=0.6)
    assert _objects(decode(model, {"o": logits}, STRETCHED)) == EXPECTED[1:]
    few = card("semantic", "semantic", LABELS[1:], background="first", logits=True, max_detections=1)
    logits[0, :, 12:20, 30:33] *= 2
    assert _objects(decode(few, {"o": logits}, STRETCHED)) == EXPECTED[2:]


def test_ids_beyond_the_labels_are_dropped_and_said() -> None:
    classes = _map()
    classes[0, 0] = 77
    findings = decode(
        card("semantic", "semantic", LABELS[1:], background="first"), {"o": classes[None]}, STRETCHED
    )
    assert _objects(findings) == EXPECTED
    assert findings.warnings == ("1 places of the map name classes beyond the 2 labels",)


def test_a_value_that_is_no_number_is_undefined() -> None:
    logits = _logits(_map())
    logits[0, 1, 4, 4] = math.nan
    findings = decode(card("semantic", "semantic", LABELS, logits=True), {"o": logits}, STRETCHED)
    assert (findings.undefined, findings.detections) == ("nan", None)


def test_a_map_of_the_middle_only_lies_in_the_middle() -> None:
    model = card("semantic", "semantic", ("tear",), logits=True, input=InputCard(SIZE, graph_crop=(48, 80)))
    answer = np.full((1, 1, 48, 80), 3, np.float32)
    [one] = _detections(decode(model, {"o": answer}, STRETCHED))
    assert one.box == (80, 48, 240, 144)


@pytest.mark.parametrize("float_scores", [False, True])
def test_what_is_cut_off_is_the_small_whatever_its_class_and_is_said(*, float_scores: bool) -> None:
    classes = np.zeros((SIZE[0] // 4, SIZE[1] // 4), np.intp)
    classes[::2, ::2] = 1
    classes[8:20, 12:30] = 2
    answer = _logits(classes) * 50 if float_scores else classes[None]
    model = card(
        "semantic", "semantic", LABELS[1:], background="first", max_detections=7,
        logits=True if float_scores else None,
    )  # fmt: skip
    findings = decode(model, {"o": answer}, STRETCHED)
    assert [one.label for one in _detections(findings)] == ["tear"] + ["cap"] * 6
    assert "more than 7 regions" in " ".join(findings.warnings)


def test_regions_in_the_padding_push_none_out_and_are_not_said_to_be_left_out() -> None:
    classes = np.zeros(SIZE, np.intp)
    classes[:, :8] = classes[:, 10:20] = classes[:, 150:] = 1
    classes[40:50, 75:85] = 2
    tall = letterbox(100, 300, SIZE[1], SIZE[0], "center").transform((0, 0, 100, 300), 100, 300)
    model = card("semantic", "semantic", LABELS[1:], background="first", max_detections=1)
    findings = decode(model, {"o": classes[None]}, tall)
    assert ([one.label for one in _detections(findings)], findings.warnings) == (["tear"], ())
