"""Topics that hold a state: the newest wins, nothing waits in a queue, nothing is sent after its time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta

from edge_infer import clock
from edge_infer.messages.topics import JSON
from edge_infer.mqtt.messages import Publication

User = tuple[tuple[str, str], ...]

REFUSED_S = 60.0
"""A topic that the broker refused is not tried again so long: some brokers close the connection each time."""
LATE_S = 1.0
"""An acknowledgement that takes longer means that the broker counts an expiry from later than we do."""
OVER_S = 5.0
"""How long what is said at such a state's end may be believed."""


@dataclass(slots=True)
class State:
    """One topic; times are monotonic seconds."""

    topic: str
    payload: bytes = b""
    content_type: str = JSON
    user: User = ()
    until_s: float | None = None
    """Not to be believed after this; None: true until replaced."""
    renew_s: float = 0.0
    """Sent again so long before what was sent expires, if it is still true."""
    pause_s: float = 0.0
    """At least so long between two of them."""
    retain: bool | None = None
    """Kept by the broker for later subscribers; None: only while it is to be believed."""
    over: bytes | None = None
    """Said at its end where the broker got it late and would let it hold longer."""
    due: bool = True
    """Something new is to be sent."""
    on_wire: bool = False
    sent: bytes = b""
    """What was sent last."""
    gone: bool = False
    """Nobody says anything there any more: what the broker keeps is to be cleared, then this is forgotten."""
    late: bool = False
    """That may have come to the broker long after it was sent."""
    sent_s: float = -1e9
    sent_until_s: float = -1e9
    refused_until_s: float = -1e9

    def due_s(self, now_s: float) -> float | None:
        """When to send it, None where there is nothing to send."""
        if self.on_wire:
            return None
        if self.until_s is not None and self.until_s - now_s < 1:
            return max(now_s, self.until_s, self.refused_until_s) if self.late else None
        if self.due:
            return max(now_s, self.sent_s + self.pause_s, self.refused_until_s)
        if self.until_s is not None and self.until_s > self.sent_until_s:
            return max(now_s, self.sent_until_s - self.renew_s, self.refused_until_s)
        if self.late and self.until_s is not None:
            return max(now_s, self.until_s, self.refused_until_s)
        return None

    def came_late(self) -> None:
        """What was sent, unless it says already that nothing is known."""
        self.late = self.over is not None and self.sent != self.over


@dataclass(slots=True)
class States:
    """Stations write, the pump sends."""

    retain_expiring: bool
    """MQTT 5: what expires may be retained; without expiry a subscriber would find a stale OK."""
    _states: dict[str, State] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(
        self,
        topic: str,
        payload: bytes,
        *,
        now_s: float,
        valid_s: float | None = None,
        renew_s: float = 0.0,
        pause_s: float = 0.0,
        retain: bool | None = None,
        content_type: str = JSON,
        user: User = (),
        over: bytes | None = None,
        again: bool = False,
    ) -> None:
        """The state is this now. Sent at once where it is new or ``again``, else when it must be renewed."""
        with self._lock:
            state = self._states.setdefault(topic, State(topic))
            if again or state.gone or state.payload != payload:
                state.due = True
            state.gone = False
            state.payload, state.content_type, state.user = payload, content_type, user
            state.renew_s, state.pause_s, state.retain, state.over = renew_s, pause_s, retain, over
            state.until_s = None if valid_s is None else now_s + valid_s

    def clear(self, topic: str, *, say: bytes = b"") -> None:
        """Nobody says anything there any more: the broker shall keep nothing. ``say``: once before that."""
        with self._lock:
            state = self._states.setdefault(topic, State(topic))
            state.payload, state.gone, state.due = say, True, True
            state.user, state.pause_s, state.until_s, state.over, state.late = (), 0.0, None, None, False
            state.retain = not say

    def extend(self, topic: str, *, now_s: float, valid_s: float) -> None:
        """What stands there is still true."""
        with self._lock:
            state = self._states.get(topic)
            if state is not None and not state.gone:
                state.until_s = now_s + valid_s

    def expire(self, topic: str) -> None:
        """What stands there is no longer known to be true: not renewed any more."""
        with self._lock:
            state = self._states.get(topic)
            if state is not None and not state.due and state.until_s is not None:
                state.until_s = min(state.until_s, state.sent_until_s)

    def take(self, now_s: float) -> Publication | None:
        """What is due, marked as on the wire."""
        with self._lock:
            for state in self._states.values():
                due_s = state.due_s(now_s)
                if due_s is not None and due_s <= now_s:
                    if state.over is not None and state.until_s is not None and state.until_s <= now_s:
                        state.payload, state.until_s = state.over, now_s + OVER_S
                    state.on_wire, state.due = True, False
                    state.sent, state.sent_s = state.payload, now_s
                    state.sent_until_s = state.until_s if state.until_s is not None else now_s
                    return self._publication(state, now_s)
        return None

    def hurry(self, now_s: float) -> bool:
        """The end is near: what waits for its pause is sent now. True while there is something to send."""
        with self._lock:
            for state in self._states.values():
                state.pause_s = 0.0
            return any(
                state.on_wire or ((due_s := state.due_s(now_s)) is not None and due_s <= now_s)
                for state in self._states.values()
            )

    def answered(self, topic: str, now_s: float) -> None:
        """The broker took it; the next one may go."""
        with self._lock:
            state = self._states.get(topic)
            if state is not None and state.gone and not state.due:
                if not state.payload:
                    del self._states[topic]
                    return
                # its last words are said
                state.payload, state.retain, state.due = b"", True, True
                state.on_wire = False
            elif state is not None:
                state.on_wire = state.late = False
                if now_s - state.sent_s > LATE_S:
                    state.came_late()

    def refused(self, topic: str, now_s: float) -> None:
        """The broker did not take it; later again."""
        with self._lock:
            if topic in self._states:
                self._states[topic].on_wire = False
                self._states[topic].refused_until_s = now_s + REFUSED_S

    def reconnected(self) -> None:
        """Everything that still holds is sent again."""
        with self._lock:
            for state in self._states.values():
                if state.on_wire:
                    # a broker that hung reads it from the old connection's buffer
                    state.came_late()
                state.on_wire, state.due = False, True
                state.sent_s = state.sent_until_s = -1e9

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until something is due, None where nothing will be by itself."""
        with self._lock:
            due = [due_s for state in self._states.values() if (due_s := state.due_s(now_s)) is not None]
        return max(0.0, min(due) - now_s) if due else None

    def told(self, topic: str) -> bool:
        """The broker took what stands there."""
        with self._lock:
            state = self._states.get(topic)
            return state is not None and not state.on_wire and not state.due

    def _publication(self, state: State, now_s: float) -> Publication:
        retain = state.retain
        if state.until_s is None:
            kept = True if retain is None else retain
            return Publication(state.topic, state.payload, kept, None, state.content_type, state.user)
        left_s = state.until_s - now_s
        if retain is False:
            # nobody finds it later, so it needs no word about how long it holds
            return Publication(state.topic, state.payload, False, int(left_s), state.content_type, state.user)
        # as pydantic writes the times beside it
        until = (clock.now() + timedelta(seconds=left_s)).isoformat().replace("+00:00", "Z")
        payload = state.payload
        if state.content_type == JSON:
            payload = payload[:-1] + f',"validUntil":"{until}"}}'.encode()
        return Publication(
            state.topic,
            payload,
            self.retain_expiring if retain is None else retain,
            int(left_s),
            state.content_type,
            (*state.user, ("validUntil", until)),
        )
