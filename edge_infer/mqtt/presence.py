"""``{prefix}/status``: online, stopped, or (said by the broker) offline."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Literal

from edge_infer.messages.status import SCHEMA, StatusMessage
from edge_infer.mqtt.messages import Publication
from edge_infer.mqtt.states import States

VALID_S = 60.0
"""`online` may be believed so long; broker and device may lose their power together, and then nobody says
`offline`."""


class Presence:
    """Who says it. Used by the pump's thread."""

    def __init__(self, topic: str, boot_id: str, version: str) -> None:
        self.topic = topic
        self._boot_id = boot_id
        self._version = version
        self._online = False

    def will(self) -> Publication:
        """What the broker says when it no longer hears from us; it cannot know the time."""
        return Publication(
            self.topic, self._payload("offline", None), retain=True, user=(("schema", SCHEMA),)
        )

    def say(self, state: Literal["online", "stopped"], states: States, since: datetime) -> None:
        """From now on it is so."""
        self._online = state == "online"
        states.put(
            self.topic,
            self._payload(state, since),
            now_s=time.monotonic(),
            valid_s=VALID_S if self._online else None,
            renew_s=VALID_S / 2,
            retain=True,
            user=(("schema", SCHEMA),),
        )

    def renew(self, states: States) -> None:
        """Still there."""
        if self._online:
            states.extend(self.topic, now_s=time.monotonic(), valid_s=VALID_S)

    def _payload(self, state: Literal["online", "offline", "stopped"], since: datetime | None) -> bytes:
        return StatusMessage(state=state, boot_id=self._boot_id, version=self._version, since=since).as_json()
