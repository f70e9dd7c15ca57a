"""One station: frames and triggers in, each inspection answered exactly once, in order."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from weakref import WeakSet

from edge_infer import clock
from edge_infer.engine import Engine, Work
from edge_infer.frame import Frame, PartTrigger
from edge_infer.network import Inference, Network
from edge_infer.result import new_result_id
from edge_infer.station.delivery import Delivery
from edge_infer.station.identity import Identity
from edge_infer.station.inspection import Inspection, Known, Unusable
from edge_infer.station.judging import age_s, distrust, glance, look, unhealthy
from edge_infer.station.meter import Meter
from edge_infer.station.settings import StationSettings
from edge_infer.station.setup import Setup
from edge_infer.station.telling import Telling
from edge_infer.triggers import PartTriggerSettings

log = logging.getLogger(__name__)

QUEUE = 8
"""Inspections that may wait for the network; on a live station a part beyond them is told `overload`."""
WAITING = 64
"""Parts that may wait for their frame (``delay_ms``)."""
STOPPED = "the service stopped before an answer"


class Station:
    """Thread-safe: a camera offers frames, the engine's threads take them, a clock keeps deadlines."""

    def __init__(
        self,
        setup: Setup,
        delivery: Delivery,
        *,
        recorded: bool,
        max_age_s: float,
        before: Station | None = None,
    ) -> None:
        """``recorded``: nothing is dropped, deadlines do not hold. ``before``: whose place it takes."""
        self.name = setup.identity.station
        self.camera = setup.settings.camera
        self.dropped: int = before.dropped if before is not None else 0
        """Frames that a newer one replaced before a request was free."""
        self.fire: Callable[[float], None] | None = None
        """Has a picture taken at that monotonic time, where the camera takes none unless it is asked."""
        self._telling: Telling = Telling(self.name, delivery, before._telling if before is not None else None)
        self.meter: Meter = self._telling.meter
        self.newest_frame: Frame | None = None
        """Of its camera, judged or not."""
        self._delivery = delivery
        self._recorded = recorded
        self._max_age_s = max_age_s
        trigger = setup.settings.trigger
        self._parts = trigger if isinstance(trigger, PartTriggerSettings) else None
        self._chooser = None if self._parts else trigger.choose()
        # one lock: inspections, order, setup and its memory change together
        self._changed = threading.Condition()
        self._setup = setup
        self._newest: Frame | None = None
        self._ahead: deque[Inspection] = deque()
        """A recording's frames that no request was free for yet."""
        self._open: deque[Inspection] = deque()
        """Not answered yet, in the order of their answers."""
        # an engine that was replaced ends by itself
        self._asked_by: WeakSet[Engine] = WeakSet()
        self._lost: Unusable | None = None
        """Why no frame comes; told once, then only to parts that ask."""
        self._ended: Unusable | None = None
        """The recording is over: told only to parts that ask."""
        self._stopping = False

    @property
    def setup(self) -> Setup:
        """What the next inspection will be judged by."""
        return self._setup

    @property
    def settings(self) -> StationSettings:
        """Those of the next inspection."""
        return self._setup.settings

    @property
    def identity(self) -> Identity:
        """What the next inspection's result will say of where it comes from."""
        return self._setup.identity

    def start(self) -> None:
        """Before the first frame; where nothing can be judged it is told once."""
        with self._changed:
            self._tell_trouble()
        if self._setup.engine is not None:
            self._be_asked_by(self._setup.engine)

    def configure(self, setup: Setup) -> None:
        """From the next inspection on: what is taken or asked already is judged and published as before.

        ``setup`` has the station's camera and trigger; a memory of its own, or the one in use.
        """
        if (setup.settings.camera, setup.settings.trigger) != (self.camera, self._setup.settings.trigger):
            raise AssertionError("a station keeps its camera and trigger")
        with self._changed:
            if self._stopping:
                return
            self._setup = setup
            self._telling.over()
            if setup.failed is not None:
                self._newest = None
            # what lasts is told anew: the standing decision must say by what
            self._tell_trouble()
        if setup.engine is not None:
            self._be_asked_by(setup.engine)
            setup.engine.wake()

    def _be_asked_by(self, engine: Engine) -> None:
        # not inside the lock: an engine asks for work while it holds its own
        self._asked_by.add(engine)
        engine.add(self)

    def uses(self, engine: Engine) -> bool:
        """Whether something that is not answered yet is to be judged by it, or the next inspection is."""
        with self._changed:
            waiting = (one for one in (*self._open, *self._ahead) if one.outcome is None)
            return self._setup.engine is engine or any(one.setup.engine is engine for one in waiting)

    # -- the camera's side

    def offer(self, frame: Frame) -> None:
        """A new frame; on a recording waits until there is room."""
        with self._changed:
            if self._stopping:
                # its camera has not heard yet; what is not settled is seen again
                return
            self.newest_frame = frame
            self._lost = self._ended = None
            if self._parts is not None:
                self._offer_to_parts(frame, self._parts)
            elif self._chooser is not None and not self._chooser.wants(frame):
                self._telling.settle(frame)
            elif self._setup.failed is None:
                self._offer_newest(frame)
            else:
                self._telling.settle(frame)
            waiting = [*self._open, *self._ahead]
            engines = {self._setup.engine, *(one.setup.engine for one in waiting if not one.taken)}
        # not inside the lock: an engine asks for work while it holds its own
        for engine in engines:
            if engine is not None:
                engine.wake()
        if self._recorded:
            with self._changed:
                while (len(self._ahead) >= QUEUE or self._in_network() >= QUEUE) and not self._stopping:
                    self._changed.wait(1.0)

    def trouble(self, trouble: Unusable) -> None:
        """No frame can be judged (camera lost, stalled): one UNDEFINED, and one for each part that waits."""
        with self._changed:
            told, self._lost = self.unusable is not None, trouble
            self._newest = None
            self._answer_frameless(trouble)
            if told:
                self._flush()
            else:
                self._tell_trouble()

    def recovered(self) -> None:
        """The camera is back; it need not have given a frame yet."""
        with self._changed:
            self._lost = None
            if self.unusable is None:
                self._telling.over()

    def ask(self, trigger: PartTrigger) -> None:
        """A part asks from outside (MQTT); answered once by the first frame at or after it."""
        with self._changed:
            waits = self._ask(trigger)
            self._flush()
        if waits and self.fire is not None and self._parts is not None:
            self.fire(trigger.time_s + self._parts.delay_ms / 1000)

    def accept(self, trigger: PartTrigger) -> None:
        """A part passed a light barrier of this machine: stored, then asked."""
        stored = replace(trigger, job_id=new_result_id())
        self._delivery.accept(self.name, stored)
        self.ask(stored)

    def restarted(self, trigger: PartTrigger) -> None:
        """A part asked before the service stopped and has no answer: it gets one now."""
        with self._changed:
            text = "the service was restarted before an answer"
            self._open.append(Inspection(self._setup, trigger, outcome=Unusable("restarted", text)))
            self._flush()

    def known(self, part_id: str) -> Known | None:
        """A part that waits, or was answered within its deadline; None where it may ask anew."""
        with self._changed:
            for inspection in self._open:
                if inspection.trigger is not None and inspection.trigger.part_id == part_id:
                    return Known(inspection.trigger.job_id, None)
            result = self._telling.told(part_id)
            return None if result is None else Known(result.job_id, result)

    def end_recording(self, broken_off: str | None = None) -> None:
        """No more frames come: wait until what was read is answered, or `stop`. ``broken_off``: why."""
        ended = Unusable("camera_lost", broken_off or "the recording has ended")
        with self._changed:
            self._answer_frameless(ended)
            self._flush()
            # first what was read: how far the network was must not change what is decided
            while (self._open or self._ahead) and not self._stopping:
                self._changed.wait(1.0)
        if broken_off is not None:
            self.trouble(ended)
        with self._changed:
            self._ended = ended

    # -- the engine's side

    def take_triggered(self, engine: Engine) -> Work | None:
        """The oldest part that has its frame."""
        with self._changed:
            for inspection in self._open if self._parts is not None else ():
                if inspection.setup.engine is not engine or inspection.frame is None:
                    continue
                if not inspection.taken and inspection.outcome is None:
                    return self._take(inspection, inspection.frame)
        return None

    def take_newest(self, engine: Engine) -> Work | None:
        """The newest frame of a live camera, the next one of a recording."""
        with self._changed:
            if not self._recorded and len(self._open) >= QUEUE:
                # a request hangs: behind it frames would pile up
                return None
            if self._ahead:
                if self._ahead[0].setup.engine is not engine:
                    return None
                inspection = self._ahead.popleft()
                self._changed.notify_all()
            elif self._newest is not None and self._setup.engine is engine:
                inspection = Inspection(self._setup, frame=self._newest, due_s=self._due(self._newest.time_s))
                self._newest = None
            else:
                return None
            self._open.append(inspection)
            return self._take(inspection, inspection.frame)

    def _inspect(self, inspection: Inspection, network: Network) -> None:
        frame = inspection.frame
        if frame is None:
            raise AssertionError("only an inspection with a frame is taken")
        inspection.started_at = clock.now()
        outcome: Inference | Unusable
        try:
            # looked at in any case: later frames wait for what it finds
            unwell = unhealthy(inspection.glance)
            distrusted = distrust(frame, None if self._recorded else self._max_age_s)
            outcome = distrusted or unwell or look(frame, inspection.setup, network)
        except Exception as error:  # a bug in one inspection is not the end of the line
            log.exception("station %s: frame %d failed", self.name, frame.seq)
            outcome = Unusable("backend_failed", f"a bug in edge-infer: {type(error).__name__}: {error}")
        with self._changed:
            # the clock may have answered `deadline` meanwhile: exactly one answer
            if inspection.outcome is None:
                if inspection.due_s is not None and time.monotonic() > inspection.due_s:
                    outcome = Unusable("deadline", "time was up before the network answered")
                inspection.outcome = outcome
                inspection.age_ms = age_s(frame, recorded=self._recorded) * 1000
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
            self._telling.say_again(now_s)

    def stop(self, why: str | None = None) -> None:
        """Answer what is open; take nothing more. ``why``: where it is not the whole service that stops."""
        with self._changed:
            self._stopping = True
            self._newest = self.newest_frame = None
            if why is not None:
                self.dropped += len(self._ahead)
            self._ahead.clear()
            for inspection in self._open:
                if inspection.outcome is None:
                    inspection.outcome = Unusable("restarted", why or STOPPED)
            self._flush()
            self._telling.over()
            self._changed.notify_all()
        # else they would keep it, and its frames, for as long as they run
        for engine in list(self._asked_by):
            engine.remove(self)

    # -- inside the lock

    def _take(self, inspection: Inspection, frame: Frame | None) -> Work:
        inspection.taken = True
        if frame is not None:
            inspection.glance = glance(frame, inspection.setup)
            if (why := inspection.setup.health.unused()) is not None:
                log.warning("station %s: %s", self.name, why)
                self._delivery.reference_unused(self.name, why)
        return partial(self._inspect, inspection)

    def _offer_newest(self, frame: Frame) -> None:
        if self._recorded:
            # each frame of a recording is an inspection: it belongs to what the station runs now
            self._ahead.append(Inspection(self._setup, frame=frame))
            return
        self.dropped += self._newest is not None
        self._newest = frame

    def _offer_to_parts(self, frame: Frame, parts: PartTriggerSettings) -> None:
        for trigger in frame.triggers if parts.from_camera else ():
            if self._recorded:
                # its own picture: settled once the answer is stored, also where nobody can judge it
                self._ask(trigger, None if parts.delay_ms else frame)
                continue
            stored = replace(trigger, job_id=trigger.job_id or new_result_id())
            self._delivery.accept(self.name, stored)
            self._ask(stored)
        for inspection in self._open:
            if inspection.frame is None and inspection.outcome is None and inspection.trigger is not None:
                # a message from outside has no place on a recording's clock: the next frame answers it
                outside = self._recorded and not parts.from_camera
                if outside or inspection.trigger.time_s + parts.delay_ms / 1000 <= frame.time_s:
                    inspection.frame = frame
        asked = frame.triggers if parts.from_camera else ()
        if not asked and not any(inspection.frame is frame for inspection in self._open):
            self._telling.settle(frame)
        self._flush()

    def _ask(self, trigger: PartTrigger, came_with: Frame | None = None) -> bool:
        """True where it now waits for its frame. ``came_with``: a picture that is the part's own."""
        self.meter.ask()
        inspection = Inspection(self._setup, trigger, due_s=self._due(trigger.time_s))
        if (why := self.unusable or self._ended) is not None:
            inspection.outcome, inspection.frame = why, came_with
        elif self._stopping:
            inspection.outcome = Unusable("restarted", "the service is stopping")
        elif not self._recorded and (self._in_network() >= QUEUE or len(self._open) >= WAITING):
            # at once, past those that wait: the line must know now
            inspection.outcome = Unusable("overload", f"{len(self._open)} parts wait already")
            self._publish(inspection)
            return False
        self._open.append(inspection)
        return inspection.outcome is None

    @property
    def unusable(self) -> Unusable | None:
        """Why no frame can be judged now."""
        return self._setup.failed or self._lost

    def _tell_trouble(self) -> None:
        if self.unusable is not None:
            self._open.append(Inspection(self._setup, outcome=self.unusable))
        self._flush()

    def _in_network(self) -> int:
        return sum(one.frame is not None and one.outcome is None for one in self._open)

    def _answer_frameless(self, outcome: Unusable) -> None:
        for inspection in self._open:
            if inspection.frame is None and inspection.outcome is None:
                inspection.outcome = outcome

    def _due(self, start_s: float) -> float | None:
        return None if self._recorded else start_s + self._setup.settings.answer_within_s

    def _flush(self) -> None:
        while self._open and self._open[0].outcome is not None:
            self._publish(self._open.popleft())
        self._changed.notify_all()

    def _publish(self, inspection: Inspection) -> None:
        self._telling.tell(inspection, lasts=inspection.outcome is self.unusable)
