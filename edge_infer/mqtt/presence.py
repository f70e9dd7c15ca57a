"""``{prefix}/status``: online, stopped, or (said by the broker) offline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from edge_infer.mqtt.messages import Publication, encode

SCHEMA = "status/1"
USER = (("schema", SCHEMA),)


@dataclass(frozen=True, slots=True)
class Presence:
    """Who says it."""

    topic: str
    boot_id: str
    version: str

    def payload(self, state: Literal["online", "offline", "stopped"], since: datetime | None) -> bytes:
        """``since`` None: the broker says it for us and cannot know the time."""
        return encode(
            {
                "state": state,
                "bootId": self.boot_id,
                "version": self.version,
                "since": since.isoformat() if since else None,
            }
        )

    def will(self) -> Publication:
        """What the broker says when it no longer hears from us."""
        return Publication(self.topic, self.payload("offline", None), retain=True, user=USER)
