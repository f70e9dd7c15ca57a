"""One station: frames and triggers in, each inspection answered exactly once, in order."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from edge_infer import clock
from edge_infer.engine import Engine, Work
from edge_infer.errors import EdgeInferError
from edge_infer.findings import Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.network import Inference, Network
from edge_infer.result import Decision, Result, new_result_id
from edge_infer.rules.decision import Judge, Verdict
from edge_infer.rules.line_stop import LineStopCounter
from edge_infer.rules.publish import PublishPolicy
from edge_infer.station.identity import Identity
from edge_infer.station.inspection import Inspection, Unusable
from edge_infer.station.meter import Meter
from edge_infer.station.settings import StationSettings
from edge_infer.triggers import PartTriggerSettings

log = logging.getLogger(__name__)

QUEUE = 8
"""Inspections that may wait for the network; on a live station a part beyond them is told `overload`."""
WAITING = 64
"""Parts that may wait for their frame (``delay_ms``)."""
ANSWERS = 64
"""Parts whose answer is kept for those who ask again."""
STANDING_S = 1.0
"""How often a trouble that lasts is said again."""


@dataclass(frozen=True, slots=True)
class Known:
    """What became of a part that asked before."""

    job_id: str | None
    result: Result | None
    """None while it waits."""


class Delivery(Protocol):
    """Where a station's answers go. Every method hands over at once."""

    def publish(self, result: Result, frame: Frame | None, findings: Findings | None) -> None:
        """A result for the outbox; ``frame`` and ``findings`` are what it was made from."""

    def decide(self, result: Result) -> None:
        """Each inspection's decision, published or not: the newest is the station's state."""

    def line_stop(self, station: str, decision: Decision) -> None:
        """So many in a row were not OK."""

    def accept(self, station: str, trigger: PartTrigger) -> None:
        """A part asked: stored, so that it is answered after a crash."""


class Station:
    """Thread-safe: a camera offers frames, the engine's threads take them, a clock keeps deadlines."""

    def __init__(
        self,
        settings: StationSettings,
        identity: Identity,
        delivery: Delivery,
        *,
        recorded: bool,
        max_age_s: float,
        failed: Unusable | None = None,
    ) -> None:
        """``recorded``: nothing is dropped, deadlines do not hold. ``failed``: why there is no network."""
        self.identity = identity
        self.settings = settings
        self.dropped = 0
        """Frames that a newer one replaced before a request was free."""
        self.meter = Meter()
        self._delivery = delivery
        self._recorded = recorded
        self._max_age_s = max_age_s
        self._failed = failed
        trigger = settings.trigger
        self._parts = trigger if isinstance(trigger, PartTriggerSettings) else None
        self._chooser = None if self._parts else trigger.choose()
        self._judge = Judge(settings.rules, settings.confirm, settings.hold_s)
        self._policy = PublishPolicy(settings.publish)
        self._line_stop = LineStopCounter(settings.line_stop) if settings.line_stop else None
        self._engine: Engine | None = None
        # one lock: inspections, order and rules' memory change together
        self._changed = threading.Condition()
        self._newest: Frame | None = None
        self._ahead: deque[Frame] = deque()
        self._open: deque[Inspection] = deque()
        """Not answered yet, in the order of their answers."""
        self._answers: OrderedDict[str, tuple[float, Result]] = OrderedDict()
        """By part: when it asked (monotonic), what it was told."""
        self._trouble: Unusable | None = None
        """Why no frame can be judged now; told once, then only to parts that ask."""
        self._standing: Result | None = None
        """The trouble's own result, as long as nothing came after it."""
        self._standing_s = 0.0
        self._time_s = 0.0
        """Of the newest frame that was answered."""
        self._stopping = False

    def start(self, engine: Engine | None) -> None:
        """Before the first frame. None where there is no network: says so once."""
        self._engine = engine
        if engine is not None:
            engine.add(self)
        elif self._failed:
            self.trouble(self._failed)

    # -- the camera's side

    def offer(self, frame: Frame) -> None:
        """A new frame; on a recording waits until there is room."""
        with self._changed:
            if self._failed is None:
                self._trouble = None
            if self._parts is not None:
                self._offer_to_parts(frame, self._parts)
            elif self._failed is None and self._chooser is not None and self._chooser.wants(frame):
                self._offer_newest(frame)
        if self._engine is None:
            return
        self._engine.wake()
        if self._recorded:
            with self._changed:
                while (len(self._ahead) >= QUEUE or self._in_network() >= QUEUE) and not self._stopping:
                    self._changed.wait(1.0)

    def trouble(self, trouble: Unusable) -> None:
        """No frame can be judged (camera lost, stalled): one UNDEFINED, and one for each part that waits."""
        with self._changed:
            told, self._trouble = self._trouble is not None, self._trouble if self._failed else trouble
            if told:
                return
            self._trouble = trouble
            self._newest = None
            self._answer_frameless(trouble)
            self._open.append(Inspection(outcome=trouble))
            self._flush()

    def ask(self, trigger: PartTrigger) -> None:
        """A part asks from outside (MQTT); answered once by the first frame at or after it."""
        with self._changed:
            self._ask(trigger)
            self._flush()

    def restarted(self, trigger: PartTrigger) -> None:
        """A part asked before the service stopped and has no answer: it gets one now."""
        with self._changed:
            text = "the service was restarted before an answer"
            self._open.append(Inspection(trigger=trigger, outcome=Unusable("restarted", text)))
            self._flush()

    def known(self, part_id: str) -> Known | None:
        """A part that waits, or was answered within its deadline; None where it may ask anew."""
        with self._changed:
            for inspection in self._open:
                if inspection.trigger is not None and inspection.trigger.part_id == part_id:
                    return Known(inspection.trigger.job_id, None)
            asked_s, result = self._answers.get(part_id, (float("-inf"), None))
            recent = time.monotonic() - asked_s <= self.settings.answer_within_s
            return Known(result.job_id, result) if result is not None and recent else None

    def end_recording(self, broken_off: str | None = None) -> None:
        """No more frames come: wait until what was read is answered, or `stop`. ``broken_off``: why."""
        ended = Unusable("camera_lost", broken_off or "the recording has ended")
        with self._changed:
            self._answer_frameless(ended)
            self._flush()
            # first what was read: how far the network was must not change what is decided
            while (self._open or self._ahead) and not self._stopping and self._engine is not None:
                self._changed.wait(1.0)
        if broken_off is not None:
            self.trouble(ended)
        with self._changed:
            self._trouble = self._trouble or ended

    # -- the engine's side

    def take_triggered(self) -> Work | None:
        """The oldest part that has its frame."""
        with self._changed:
            for inspection in self._open if self._parts is not None else ():
                if inspection.frame is not None and not inspection.taken and inspection.outcome is None:
                    inspection.taken = True
                    return partial(self._inspect, inspection)
        return None

    def take_newest(self) -> Work | None:
        """The newest frame of a live camera, the next one of a recording."""
        with self._changed:
            if not self._recorded and len(self._open) >= QUEUE:
                # a request hangs: behind it frames would pile up
                return None
            if self._ahead:
                frame: Frame | None = self._ahead.popleft()
                self._changed.notify_all()
            else:
                frame, self._newest = self._newest, None
            if frame is None:
                return None
            inspection = Inspection(frame=frame, taken=True, due_s=self._due(frame.time_s))
            self._open.append(inspection)
            return partial(self._inspect, inspection)

    def _inspect(self, inspection: Inspection, network: Network) -> None:
        frame = inspection.frame
        if frame is None:
            raise AssertionError("only an inspection with a frame is taken")
        inspection.started_at = clock.now()
        outcome: Inference | Unusable
        try:
            outcome = self._unusable(frame) or self._infer(frame, network)
        except Exception as error:  # a bug in one inspection is not the end of the line
            log.exception("station %s: frame %d failed", self.identity.station, frame.seq)
            outcome = Unusable("backend_failed", f"a bug in edge-infer: {type(error).__name__}: {error}")
        with self._changed:
            # the clock may have answered `deadline` meanwhile: exactly one answer
            if inspection.outcome is None:
                if inspection.due_s is not None and time.monotonic() > inspection.due_s:
                    outcome = Unusable("deadline", "time was up before the network answered")
                inspection.outcome = outcome
                inspection.age_ms = self._age_s(frame) * 1000
                self._flush()

    # -- the clock's and the service's side

    def check_deadlines(self) -> None:
        """Answer UNDEFINED `deadline` where time is up, whatever a camera or runtime does."""
        now_s = time.monotonic()
        with self._changed:
            late = [
                one
                for one in self._open
                if one.outcome is None and one.due_s is not None and one.due_s <= now_s
            ]
            for inspection in late:
                what = "a frame came" if inspection.frame is None else "the network answered"
                inspection.outcome = Unusable("deadline", f"time was up before {what}")
            if late:
                self._flush()
            if self._standing is not None and now_s - self._standing_s >= STANDING_S:
                self._standing_s = now_s
                self._delivery.decide(self._standing.model_copy(update={"creation_time": clock.now()}))

    def stop(self) -> None:
        """Answer what is open; take nothing more."""
        with self._changed:
            self._stopping = True
            self._newest = None
            self._ahead.clear()
            for inspection in self._open:
                if inspection.outcome is None:
                    inspection.outcome = Unusable("restarted", "the service stopped before an answer")
            self._flush()
            self._changed.notify_all()

    # -- inside the lock

    def _offer_newest(self, frame: Frame) -> None:
        if self._recorded:
            self._ahead.append(frame)
            return
        self.dropped += self._newest is not None
        self._newest = frame

    def _offer_to_parts(self, frame: Frame, parts: PartTriggerSettings) -> None:
        for trigger in frame.triggers if parts.from_camera else ():
            if self._recorded:
                self._ask(trigger)
                continue
            stored = replace(trigger, job_id=trigger.job_id or new_result_id())
            self._delivery.accept(self.identity.station, stored)
            self._ask(stored)
        for inspection in self._open:
            if inspection.frame is None and inspection.outcome is None and inspection.trigger is not None:
                # a message from outside has no place on a recording's clock: the next frame answers it
                outside = self._recorded and not parts.from_camera
                if outside or inspection.trigger.time_s + parts.delay_ms / 1000 <= frame.time_s:
                    inspection.frame = frame
        self._flush()

    def _ask(self, trigger: PartTrigger) -> None:
        inspection = Inspection(trigger=trigger, due_s=self._due(trigger.time_s))
        if self._trouble is not None:
            inspection.outcome = self._trouble
        elif self._stopping:
            inspection.outcome = Unusable("restarted", "the service is stopping")
        elif not self._recorded and (self._in_network() >= QUEUE or len(self._open) >= WAITING):
            # at once, past those that wait: the line must know now
            inspection.outcome = Unusable("overload", f"{len(self._open)} parts wait already")
            self._publish(inspection)
            return
        self._open.append(inspection)

    def _in_network(self) -> int:
        return sum(one.frame is not None and one.outcome is None for one in self._open)

    def _answer_frameless(self, outcome: Unusable) -> None:
        for inspection in self._open:
            if inspection.frame is None and inspection.outcome is None:
                inspection.outcome = outcome

    def _due(self, start_s: float) -> float | None:
        return None if self._recorded else start_s + self.settings.answer_within_s

    def _unusable(self, frame: Frame) -> Unusable | None:
        if frame.damaged is not None:
            return Unusable("damaged", frame.damaged)
        if not self._recorded and (age_s := self._age_s(frame)) > self._max_age_s:
            return Unusable(
                "stale", f"the frame is {age_s:.1f} s old, the camera allows {self._max_age_s:g} s"
            )
        return None

    def _infer(self, frame: Frame, network: Network) -> Inference | Unusable:
        region = None
        try:
            if self.settings.region is not None:
                region = self.settings.region.pixels(frame.width, frame.height)
        except EdgeInferError as error:
            return Unusable("rule_not_evaluable", str(error))
        try:
            return network.infer(frame.pixels, region)
        except EdgeInferError as error:
            return Unusable("backend_failed", str(error))

    def _age_s(self, frame: Frame) -> float:
        if self._recorded:
            # by the wall clock, which may be set back
            return max(0.0, (clock.now() - frame.captured_at).total_seconds())
        return time.monotonic() - frame.time_s

    def _flush(self) -> None:
        while self._open and self._open[0].outcome is not None:
            self._publish(self._open.popleft())
        self._changed.notify_all()

    def _publish(self, inspection: Inspection) -> None:
        verdict = self._verdict(inspection)
        asked = inspection.trigger
        result = inspection.result(
            verdict, self.identity, self.settings.trigger, clock.now(), synced=clock.synced()
        )
        if inspection.frame is not None:
            self._time_s = inspection.frame.time_s
        lasting = asked is None and inspection.outcome is self._trouble
        self._standing, self._standing_s = (result, time.monotonic()) if lasting else (None, 0.0)
        self.meter.count(result)
        self._delivery.decide(result)
        if asked is not None or self._policy.wants(verdict.decision, self._time_s):
            findings = inspection.outcome.findings if isinstance(inspection.outcome, Inference) else None
            self._delivery.publish(result, inspection.frame, findings)
        if self._line_stop and self._line_stop.add(verdict.decision):
            self._delivery.line_stop(self.identity.station, verdict.decision)
        if asked is not None and asked.part_id is not None:
            self._answers[asked.part_id] = (asked.time_s, result)
            self._answers.move_to_end(asked.part_id)
            if len(self._answers) > ANSWERS:
                self._answers.popitem(last=False)

    def _verdict(self, inspection: Inspection) -> Verdict:
        outcome, frame = inspection.outcome, inspection.frame
        if isinstance(outcome, Unusable):
            # a file name may hold bytes that are no text
            return self._judge.undefined(
                outcome.code, outcome.text.encode(errors="backslashreplace").decode()
            )
        if outcome is None or frame is None:
            raise AssertionError("only an answered inspection is published")
        return self._judge.judge(
            outcome.findings, width=frame.width, height=frame.height, time_s=frame.time_s, seen=outcome.seen
        )
