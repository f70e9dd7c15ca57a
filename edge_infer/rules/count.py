"""How many objects must, or may, be there."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from edge_infer.errors import EdgeInferError
from edge_infer.findings import Findings
from edge_infer.geometry import PixelBox
from edge_infer.result import RuleOutcome
from edge_infer.rules.zone import Zone
from edge_infer.settings import Id, Settings


class Count(Settings):
    """``count: {labels: [bottle], min_score: 0.3, at_least: 3}``."""

    labels: Annotated[tuple[str, ...], Field(min_length=1)]
    """Labels of the model's card that are counted together."""
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Objects below this score are not counted."""
    at_least: Annotated[int, Field(ge=0)] | None = None
    at_most: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> Count:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a count needs at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least} is above at_most {self.at_most}: no part could be OK")
        return self


class CountRule(Settings):
    """A rule says what must hold for OK."""

    name: Id
    """Published with each result."""
    count: Count
    zone: Zone | None = None
    """Only objects whose centre lies in it."""
    min_area_px: Annotated[float, Field(ge=0)] = 0.0
    """Only objects of at least this many square pixels of the camera's frame: of their mask where the model
    gives one, else of their box."""

    def judge(self, findings: Findings, width: int, height: int, seen: PixelBox | None = None) -> RuleOutcome:
        """OK, NOK, or UNDEFINED where there is nothing to count in; sizes in pixels of the frame.

        ``seen``: the part of the frame that the network looked at, None for all of it.
        """
        found = findings.detections
        if found is None:
            return self._judge_class(findings)
        labels = self.count.labels
        counted = np.fromiter((label in labels for label in found.labels), np.bool_, len(found))
        counted &= found.scores >= np.float32(self.count.min_score)
        if self.min_area_px:
            counted &= found.areas >= self.min_area_px
        if self.zone is not None:
            try:
                counted &= self.zone.contains(found.boxes, width, height, seen)
            except EdgeInferError:
                # where nobody looks nothing can be seen: "at most 0" would always hold
                return RuleOutcome(name=self.name, decision="UNDEFINED", seen=None)
        return self._limited(int(counted.sum()))

    def _judge_class(self, findings: Findings) -> RuleOutcome:
        """A classifier's best class is one object that fills the picture, if its score is high enough."""
        if findings.classes is None or self.zone is not None or self.min_area_px:
            # it says nothing of where
            return RuleOutcome(name=self.name, decision="UNDEFINED", seen=None)
        if not findings.classes:
            # the background was best
            return self._limited(0)
        best = findings.classes[0]
        sure = np.float32(best.score) >= np.float32(self.count.min_score)
        return self._limited(int(best.label in self.count.labels and sure))

    def _limited(self, seen: int) -> RuleOutcome:
        enough = self.count.at_least is None or seen >= self.count.at_least
        few = self.count.at_most is None or seen <= self.count.at_most
        return RuleOutcome(name=self.name, decision="OK" if enough and few else "NOK", seen=seen)
