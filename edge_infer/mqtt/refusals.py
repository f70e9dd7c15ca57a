"""What the broker does not let this device say or hear."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 100
"""Topics that are remembered as refused; of others the log says nothing."""


class Refusals:
    """Topics of one connection, and why."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._why)

    @property
    def topics(self) -> Mapping[str, str]:
        """As of now, to keep."""
        return dict(self._why)

    def forget(self) -> None:
        """Another connection: it may be let now."""
        self._why.clear()

    def note(self, topic: str, why: str) -> bool:
        """True where it is news; beyond `MOST` topics nothing is."""
        full = topic not in self._why and len(self._why) >= MOST
        if full or self._why.get(topic) == why:
            return False
        self._why[topic] = why
        return True
