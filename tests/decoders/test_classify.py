"""Class scores become probabilities once, and never twice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from tests.support.tasks import card, decode

LABELS = ("good", "bad", "foreign object")
LOGITS = np.array([[1.0, 3.0, -2.0]], np.float32)


def _softmax(values: NDArray[Any]) -> NDArray[Any]:
    raised = np.exp(values - values.max())
    return np.asarray(raised / raised.sum(), np.float32)


def _told(findings: Findings) -> list[tuple[str, int, float]]:
    assert findings.classes is not None
    return [(one.label, one.class_id, round(one.score, 5)) for one in findings.classes]


EXPECTED = [("bad", 1, 0.8756), ("good", 0, 0.1185), ("foreign object", 2, 0.0059)]


def _near(findings: Findings) -> bool:
    told = _told(findings)
    named = [one[:2] for one in told] == [one[:2] for one in EXPECTED]
    return named and [one[2] for one in told] == pytest.approx([one[2] for one in EXPECTED], abs=1e-4)


def test_logits_become_probabilities() -> None:
    assert _near(decode(card("classify", "classify", LABELS, logits=True), {"o": LOGITS}))


def test_probabilities_stay_what_they_are() -> None:
    assert _near(decode(card("classify", "classify", LABELS, logits=False), {"o": _softmax(LOGITS)}))


def test_where_the_network_does_not_tell_the_values_do() -> None:
    model = card("classify", "classify", LABELS)
    assert _near(decode(model, {"o": LOGITS}))
    assert _near(decode(model, {"o": _softmax(LOGITS)}))


def test_logits_that_look_like_probabilities_are_still_logits() -> None:
    findings = decode(
        card("classify", "classify", ("a", "b"), logits=True), {"o": np.array([[0.3, 0.7]], np.float32)}
    )
    assert findings.classes is not None
    assert findings.classes[0].score == pytest.approx(0.59869, abs=1e-4)


def test_scores_of_several_sure_classes_are_kept_apart() -> None:
    answer = np.array([[0.9, 0.2, 0.8]], np.float32)
    told = _told(decode(card("classify", "classify", LABELS, logits=False), {"o": answer}))
    assert [one[2] for one in told] == pytest.approx([0.9, 0.8, 0.2])


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1), (2, 3)])
def test_of_any_shape_and_batch_the_first_picture_is_ours(shape: tuple[int, ...]) -> None:
    answer = np.zeros(shape, np.float32)
    answer.reshape(shape[0], 3)[0] = LOGITS
    assert _near(decode(card("classify", "classify", LABELS, logits=True), {"o": answer}))


def test_only_the_best_five_are_told_best_first() -> None:
    answer = np.linspace(0, 1, 1000, dtype=np.float32)[None]
    labels = tuple(f"class{i}" for i in range(1000))
    findings = decode(card("classify", "classify", labels, logits=True), {"o": answer})
    assert [one[1] for one in _told(findings)] == [999, 998, 997, 996, 995]


def test_a_background_column_is_no_class() -> None:
    model = card("classify", "classify", LABELS[:2], logits=False, background="first")
    findings = decode(model, {"o": np.array([[0.3, 0.1, 0.6]], np.float32)})
    assert [one[:2] for one in _told(findings)] == [("bad", 1), ("good", 0)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_undefined(bad: float) -> None:
    answer = LOGITS.copy()
    answer[0, 2] = bad
    findings = decode(card("classify", "classify", LABELS, logits=True), {"o": answer})
    assert (findings.undefined, findings.classes) == ("nan", None)
    assert "not finite" in findings.warnings[0]


def test_huge_logits_do_not_overflow() -> None:
    findings = decode(card("classify", "classify", LABELS, logits=True), {"o": LOGITS * np.float32(1.1e38)})
    assert _told(findings)[0] == ("bad", 1, 1.0)


def test_what_should_be_probable_and_is_not_is_refused() -> None:
    with pytest.raises(ModelError, match="no probabilities"):
        decode(card("classify", "classify", LABELS, logits=False), {"o": LOGITS})


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(ModelError, match="2 classes"):
        decode(card("classify", "classify", LABELS[:2]), {"o": LOGITS})


@pytest.mark.parametrize(
    ("background", "answer"), [("last", [0.02, 0.01, 0.97]), ("first", [0.97, 0.02, 0.01])]
)
def test_where_the_background_is_best_its_runner_up_is_no_answer(
    background: Any, answer: list[float]
) -> None:
    model = card("classify", "classify", LABELS[:2], logits=False, background=background)
    findings = decode(model, {"o": np.array([answer], np.float32)})
    assert findings.classes == ()
