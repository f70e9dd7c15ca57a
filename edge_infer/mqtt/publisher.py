"""What stations and service call to be heard at the broker. Nothing here waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edge_infer import clock
from edge_infer.messages.camera import SCHEMA as CAMERA_SCHEMA
from edge_infer.messages.camera import CameraMessage
from edge_infer.messages.command import SCHEMA as REPLY_SCHEMA
from edge_infer.messages.counts import SCHEMA as COUNTS_SCHEMA
from edge_infer.messages.event import EventMessage
from edge_infer.messages.info import SCHEMA as INFO_SCHEMA
from edge_infer.messages.info import InfoMessage
from edge_infer.messages.stats import SCHEMA as STATS_SCHEMA
from edge_infer.messages.stats import StatsMessage
from edge_infer.messages.topics import TEXT
from edge_infer.mqtt.identity import default_client_id
from edge_infer.mqtt.images import Images
from edge_infer.mqtt.inbox import Inbox
from edge_infer.mqtt.messages import Message, Publication, encode
from edge_infer.mqtt.presence import Presence
from edge_infer.mqtt.pump import Pump
from edge_infer.mqtt.reply_space import RESPONSES, answerable
from edge_infer.mqtt.retry import Timing
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.mqtt.states import States
from edge_infer.mqtt.stats import PumpStats
from edge_infer.mqtt.wake import Wake
from edge_infer.outbox import Counts, Outbox
from edge_infer.progress import Loop
from edge_infer.result import SCHEMA, Decision, Result
from edge_infer.settings import Secrets

__all__ = ["Message", "Publisher", "Timing"]

log = logging.getLogger(__name__)

COUNTS_S = 1.0
"""At least so long between two ``counts`` of a station."""


class Publisher:
    """Thread-safe. `start`, then anything, then `stop`."""

    def __init__(
        self,
        settings: MqttSettings,
        outbox: Outbox,
        *,
        prefix: str,
        secrets: Secrets,
        device: str,
        boot_id: str,
        version: str,
        timing: Timing | None = None,
    ) -> None:
        self._prefix = prefix
        self._valid_s = settings.valid_s
        self._boot_id = boot_id
        self._outbox = outbox
        self._lock = threading.Lock()
        self._decided: dict[str, Result] = {}
        """The inspection behind each station's decision."""
        self._last: dict[str, Decision] = {}
        """The decision in each station's last result."""
        self._gone: set[str] = set()
        """Stations that were removed: what comes late of them must not be kept by the broker."""
        self._wake = Wake()
        self._states = States(retain_expiring=settings.protocol == "5")
        self._inbox = Inbox(self._wake.set)
        self._images = Images(settings.max_image_bytes)
        self._pump = Pump(
            settings,
            outbox=outbox,
            states=self._states,
            inbox=self._inbox,
            images=self._images,
            presence=Presence(f"{prefix}/status", boot_id, version),
            wake=self._wake,
            secrets=secrets,
            client_id=settings.client_id or default_client_id(device, prefix),
            timing=timing or Timing(),
            alarm=self.event,
        )
        self.failure: Exception | None = None
        """Why nothing is sent any more (a bug); the service must be started again."""
        self._thread = threading.Thread(target=self._run, name="mqtt-pump", daemon=True)
        outbox.listen(self._wake.set, self.event)

    @property
    def connected(self) -> bool:
        """The broker let us in and the connection is not known to be lost."""
        return self._pump.stats.connected and self._thread.is_alive()

    @property
    def stats(self) -> PumpStats:
        """Right now."""
        return replace(
            self._pump.stats,
            images=self._images.sent,
            images_dropped=self._images.dropped,
            commands_dropped=self._inbox.dropped,
        )

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The check-points of its threads."""
        return self._pump.loop, self._inbox.loop

    def start(self) -> None:
        """Connect in the background and keep trying; never fails because a broker is away."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Deliver what can be delivered in that time, say `stopped`, disconnect. Bounded."""
        if not self._thread.is_alive():
            return
        end = time.monotonic() + timeout_s
        self._pump.stop(timeout_s * 0.9)
        self._thread.join(timeout_s)
        self._inbox.close(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            log.warning("the connection to the broker hangs and is left behind")
        else:
            self._wake.close()

    def _run(self) -> None:
        try:
            self._pump.run()
        except Exception as error:
            # the service looks at it, ends and is started again
            log.exception("a bug ended the thread that talks to the broker")
            self.failure = error
        finally:
            self._pump.loop.rest()

    # -- state

    def decision(self, station: str, result: Result) -> None:
        """The newest inspection's decision, whether it becomes a published result or not.

        Sent at once when it is another one (and for each part), else renewed while it is true. It may be
        believed ``valid_s`` after the result was created.
        """
        left_s = self._left_s(result)
        if left_s is None:
            return
        now_s = time.monotonic()
        # inside the lock to the end: the writer's thread calls `last` meanwhile
        with self._lock:
            if station in self._gone:
                return
            before = self._decided.get(station)
            new_inspection = before is None or before.result_id != result.result_id
            again = result.trigger.part_id is not None and new_inspection
            self._decided[station] = result
            self._states.put(
                f"{self._prefix}/{station}/decision",
                result.decision.encode(),
                now_s=now_s,
                valid_s=left_s,
                renew_s=self._valid_s / 2,
                content_type=TEXT,
                over=b"UNDEFINED",
                again=again,
            )
            if self._last.get(station) == result.decision:
                self._states.extend(f"{self._prefix}/{station}/last", now_s=now_s, valid_s=left_s)
            else:
                self._states.expire(f"{self._prefix}/{station}/last")
        self._wake.set()

    def last(self, station: str, result: Result) -> None:
        """The newest committed result (it has its number); renewed while `decision` says the same."""
        left_s = self._left_s(result)
        if left_s is None:
            return
        payload = result.as_json().encode()
        with self._lock:
            if station in self._gone:
                return
            self._last[station] = result.decision
            newest = self._decided.get(station)
            if newest is not None and newest.decision != result.decision:
                # the disk was slow: what this says is over already
                return
            self._states.put(
                f"{self._prefix}/{station}/last",
                payload,
                now_s=time.monotonic(),
                valid_s=left_s,
                renew_s=self._valid_s / 2,
                user=(("schema", SCHEMA), ("seq", str(result.seq)), ("streamId", result.stream_id)),
            )
        self._wake.set()

    def counts(self, station: str, counts: Counts) -> None:
        """Decisions since the reset and in this shift; at most one message a second, the newest wins."""
        with self._lock:
            if station in self._gone:
                return
            self._states.put(
                f"{self._prefix}/{station}/counts",
                counts.message().as_json(),
                now_s=time.monotonic(),
                pause_s=COUNTS_S,
                user=(("schema", COUNTS_SCHEMA),),
            )
        self._wake.set()

    def forget(self, station: str) -> None:
        """The station is no more: its last word is UNDEFINED, then the broker keeps nothing of it."""
        with self._lock:
            self._gone.add(station)
            self._decided.pop(station, None)
            self._last.pop(station, None)
            self._states.clear(f"{self._prefix}/{station}/decision", say=b"UNDEFINED")
            for kept in ("last", "counts"):
                self._states.clear(f"{self._prefix}/{station}/{kept}")
        self._wake.set()

    def expect(self, station: str) -> None:
        """The station is there, perhaps again."""
        with self._lock:
            self._gone.discard(station)

    def forget_camera(self, camera: str) -> None:
        """The camera is no more: the broker keeps nothing of it."""
        self._states.clear(f"{self._prefix}/camera/{camera}")
        self._wake.set()

    def info(self, info: InfoMessage) -> None:
        """What the device is; retained, told again at each connection."""
        self._states.put(
            f"{self._prefix}/info",
            encode(info),
            now_s=time.monotonic(),
            user=(("schema", INFO_SCHEMA),),
        )
        self._wake.set()

    def camera(self, camera: CameraMessage) -> None:
        """How a camera is; retained, the newest wins."""
        self._states.put(
            f"{self._prefix}/camera/{camera.camera}",
            encode(camera),
            now_s=time.monotonic(),
            user=(("schema", CAMERA_SCHEMA),),
        )
        self._wake.set()

    def report(self, stats: StatsMessage, *, valid_s: float) -> None:
        """How the device is doing; the newest wins, and is not sent later than ``valid_s`` from now."""
        self._states.put(
            f"{self._prefix}/stats",
            encode(stats),
            now_s=time.monotonic(),
            valid_s=valid_s,
            retain=False,
            user=(("schema", STATS_SCHEMA),),
        )
        self._wake.set()

    def _left_s(self, result: Result) -> float | None:
        """How long a decision may still be believed; None where it is too old to be sent."""
        age_s = max(0.0, (clock.now() - result.creation_time).total_seconds()) + (result.age_ms or 0) / 1000
        left_s = self._valid_s - age_s
        return left_s if left_s >= 1 else None

    # -- pictures

    @property
    def image_limit(self) -> int:
        """Bytes that a picture may have at most: `mqtt.max_image_bytes` or what the broker takes."""
        return self._images.limit

    def image(
        self, topic: str, payload: bytes, *, content_type: str, user: tuple[tuple[str, str], ...]
    ) -> bool:
        """A picture, sent when nothing else is to be sent; it is not repeated after a lost connection.

        False where it is not taken: larger than `image_limit`, or no broker is connected. While others wait
        the oldest gives way. Not retained, QoS 1, binary. ValueError where nothing can be published on
        ``topic``.
        """
        if not topic or any(sign in topic for sign in "+#\0"):
            raise ValueError(f"nothing can be published on {topic!r}")
        taken = self._images.put(Publication(topic, payload, False, None, content_type, user, text=False))
        self._wake.set()
        return taken

    # -- events and commands

    def event(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        """Something happened; kept in the outbox until the broker takes it."""
        self._outbox.put_event(*self.event_message(kind, data, station))

    def event_message(
        self, kind: str, data: Mapping[str, Any], station: str | None = None
    ) -> tuple[str, bytes]:
        """Topic and payload of an event, for whoever stores it with something else."""
        event = EventMessage(
            kind=kind, station=station, time=clock.now(), boot_id=self._boot_id, data=dict(data)
        )
        return f"{self._prefix}/event", encode(event)

    def subscribe(self, topic: str, handler: Callable[[Message], None]) -> None:
        """Messages on that topic, at each connection anew; retained ones are ignored.

        The handler runs on one thread for all topics; a message is acknowledged when it returns.
        """
        self._inbox.handle(topic, handler)

    def unsubscribe(self, topic: str) -> None:
        """Its messages are not asked for any more; those that come all the same are ignored."""
        self._inbox.ignore(topic)

    def respond(self, message: Message, payload: bytes) -> bool:
        """Answer the sender where it asked for it; False where it did not, or may not be answered there."""
        topic = message.response_topic
        if topic is None:
            return False
        if not answerable(topic):
            log.warning(
                "a command on %s wants its answer on %.100a: only topics below %s are answered",
                message.topic,
                topic,
                RESPONSES,
            )
            return False
        user = (("schema", REPLY_SCHEMA),)
        self._pump.reply(Publication(topic, payload, user=user, correlation=message.correlation))
        return True
