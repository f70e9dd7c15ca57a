"""``status``: whether the device is there."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Part

SCHEMA = "status/1"


class StatusMessage(Part):
    """Retained; `offline` is said by the broker (will) when it no longer hears from the device."""

    state: Literal["online", "offline", "stopped"]
    boot_id: str
    """Of the machine's kernel: another one after each boot."""
    version: str
    """Of edge-infer."""
    since: AwareDatetime | None
    """Null for `offline`: the broker cannot know the time."""
    valid_until: AwareDatetime | None = Field(default=None, exclude_if=lambda value: value is None)
    """`online` only: not to be believed after this, by the device's clock; renewed before it is over."""

    def as_json(self) -> bytes:
        """The published text."""
        return self.model_dump_json(by_alias=True).encode()
