"""What an answered inspection becomes: decision, record, numbers, and what its part is told once more."""

from __future__ import annotations

from edge_infer import clock
from edge_infer.frame import Frame
from edge_infer.result import Result
from edge_infer.station.answers import Answers
from edge_infer.station.delivery import Delivery
from edge_infer.station.inspection import Inspection
from edge_infer.station.judging import decide
from edge_infer.station.meter import Meter
from edge_infer.station.standing import Standing


class Telling:
    """One station's, in the order of its answers. Used inside the station's lock."""

    def __init__(self, station: str, delivery: Delivery, before: Telling | None = None) -> None:
        """``before``: of the station whose place it takes; numbers and answers go on."""
        self.meter: Meter = before.meter if before is not None else Meter()
        self._station = station
        self._delivery = delivery
        # a part that asks once more is told the same
        self._answers: Answers = before._answers if before is not None else Answers()
        self._standing = Standing()
        self._time_s = 0.0
        """Of the newest frame that was answered."""

    def tell(self, inspection: Inspection, *, lasts: bool) -> None:
        """It is answered; ``lasts``: by a trouble that goes on and is said again until something else is."""
        memory, asked, frame = inspection.setup.memory, inspection.trigger, inspection.frame
        verdict = decide(memory.judge, inspection.outcome, frame)
        result = inspection.result(verdict, clock.now(), synced=clock.synced())
        if frame is not None:
            self._time_s = frame.time_s
        self._standing.decided(result, lasts=lasts and asked is None)
        self.meter.count(result, inspection.inference)
        self._delivery.decide(result)
        if asked is not None or memory.policy.wants(verdict.decision, self._time_s):
            self._delivery.publish(result, frame, inspection.findings, inspection.setup.settings)
        elif frame is not None and not result.cut_short:
            self.settle(frame)
        if memory.line_stop and memory.line_stop.add(verdict.decision):
            self._delivery.line_stop(self._station, verdict.decision)
        if asked is not None and asked.part_id is not None:
            until_s = asked.time_s + inspection.setup.settings.answer_within_s
            self._answers.keep(asked.part_id, result, until_s)

    def settle(self, frame: Frame) -> None:
        """There will be no result of it."""
        if frame.settled is not None:
            frame.settled(self._station)

    def told(self, part_id: str) -> Result | None:
        """What the part was told; None where nothing, or where it may ask anew."""
        return self._answers.of(part_id)

    def over(self) -> None:
        """What lasted is gone, though nothing was judged yet."""
        self._standing.over()

    def say_again(self, now_s: float) -> None:
        """Where a trouble lasts and it is time, monotonic ``now_s``."""
        if (again := self._standing.due(now_s)) is not None:
            self._delivery.decide(again)
