"""From findings to a decision. Order: unusable -> UNDEFINED, broken -> NOK, unknown -> UNDEFINED, else OK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_infer.findings import Anomaly, Findings
from edge_infer.geometry import PixelBox
from edge_infer.result import Decision, Reason, ReasonCode, RuleOutcome
from edge_infer.rules.confirm import Confirm, ConfirmMemory
from edge_infer.rules.count import CountRule

ANOMALY = "anomaly"
"""What the rule is called that an anomaly model brings along."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One inspection's decision and why."""

    decision: Decision
    reasons: tuple[Reason, ...] = ()
    rules: tuple[RuleOutcome, ...] = ()


class Judge:
    """One station's rules and their memory. Time comes in with the frame, so a replay decides the same."""

    def __init__(
        self, rules: Sequence[CountRule], confirm: Confirm | None = None, hold_s: float = 0.0
    ) -> None:
        self._rules = tuple(rules)
        self._memory = ConfirmMemory(confirm) if confirm else None
        self._hold_s = hold_s
        self._held_until: float | None = None

    def undefined(self, code: ReasonCode, text: str) -> Verdict:
        """Nobody looked, or not at something that may be judged: rules are not asked."""
        if self._memory:
            self._memory.clear()
        return Verdict("UNDEFINED", (Reason(code=code, text=text),))

    def judge(
        self, findings: Findings, *, width: int, height: int, time_s: float, seen: PixelBox | None = None
    ) -> Verdict:
        """``width`` and ``height`` of the camera's frame in pixels; ``time_s`` as in the frame.

        ``seen``: the part of the frame that the network looked at, None for all of it.
        """
        if findings.undefined is not None:
            return self.undefined("nan", "nothing in the network's output is a finite number")
        if findings.nan_rows:
            # whatever they would have been, nobody saw it
            return self.undefined("nan", f"{findings.nan_rows} rows of the network's output are not finite")
        outcomes = tuple(rule.judge(findings, width, height, seen) for rule in self._rules)
        if findings.anomaly is not None:
            outcomes = (_threshold(findings.anomaly), *outcomes)
        if any(outcome.decision == "NOK" for outcome in outcomes):
            return self._remember(outcomes, time_s, broken=True)
        unknown = [outcome.name for outcome in outcomes if outcome.decision == "UNDEFINED"]
        if unknown or not outcomes:
            text = f"the network gives nothing to evaluate {', '.join(unknown)}" if unknown else "no rules"
            return Verdict("UNDEFINED", (Reason(code="rule_not_evaluable", text=text),), outcomes)
        return self._remember(outcomes, time_s, broken=False)

    def _remember(self, outcomes: tuple[RuleOutcome, ...], time_s: float, *, broken: bool) -> Verdict:
        confirmed = self._memory.add(broken=broken) if self._memory else broken
        if confirmed is None:
            return Verdict(
                "UNDEFINED", (Reason(code="settling", text="too few inspections to confirm"),), outcomes
            )
        if confirmed:
            self._held_until = time_s + self._hold_s
            return Verdict("NOK", (), outcomes)
        held = self._hold_s > 0 and self._held_until is not None and time_s < self._held_until
        return Verdict("NOK" if held else "OK", (), outcomes)


def _threshold(anomaly: Anomaly) -> RuleOutcome:
    """The model's own threshold is a rule that nobody has to write."""
    return RuleOutcome(
        name=ANOMALY, decision="NOK" if anomaly.is_anomalous else "OK", seen=round(anomaly.score, 6)
    )
