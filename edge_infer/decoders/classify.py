"""Classifiers: one score a class for the whole picture."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from edge_infer.decoders.probabilities import probabilities
from edge_infer.errors import ModelError
from edge_infer.findings import ClassScore, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

TOLD = 5
"""So many of the best classes are told."""

_HIGHEST = 1.01


class Classify:
    """(1, classes), logits or probabilities."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._count = len(card.labels) + (card.background != "none")
        fitting = [spec for spec in outputs if _classes(spec) in (self._count, None)]
        if len(fitting) != 1:
            raise ModelError(
                f"{card.network}: {len(fitting)} of its outputs have {self._count} classes",
                hint="correct labels or task in the model card",
            )
        self._name = fitting[0].name

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:  # noqa: ARG002 - no place in it
        """The best classes, none where the background is best; not a number anywhere is no answer."""
        # a network with a fixed batch answers several pictures, ours is the first
        answer = np.asarray(outputs[self._name][:1], np.float32).reshape(-1)
        if len(answer) != self._count:
            raise ModelError(
                f"{self._card.network}: the network answered {len(answer)} classes, not {self._count}",
                hint="correct labels in the model card",
            )
        if not np.isfinite(answer).all():
            count = int(np.count_nonzero(~np.isfinite(answer)))
            warning = f"{count} of {len(answer)} scores of the network's output are not finite numbers"
            return Findings(nan_rows=count, undefined="nan", warnings=(warning,))
        if self._card.logits is False and not -_HIGHEST + 1 <= answer.min() <= answer.max() <= _HIGHEST:
            raise ModelError(f"{self._card.network}: the network gives scores that are no probabilities")
        scores = probabilities(answer, self._card.logits)
        if self._card.background != "none":
            nothing = scores[0 if self._card.background == "first" else -1]
            scores = scores[1:] if self._card.background == "first" else scores[:-1]
            if nothing > scores.max():
                # the runner-up is not what the picture shows
                return Findings(classes=())
        best = np.argsort(-scores, kind="stable")[:TOLD].tolist()
        return Findings(classes=tuple(ClassScore(self._card.labels[i], i, float(scores[i])) for i in best))


def _classes(spec: TensorSpec) -> int | None:
    """None where it may be any number; -1 where the output holds no classes."""
    if len(spec.shape) < 2 or not spec.dtype.startswith("float"):
        return -1
    rest = spec.shape[1:]
    return None if None in rest else math.prod(side or 1 for side in rest)
