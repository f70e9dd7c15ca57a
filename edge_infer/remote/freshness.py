"""Whether a request still holds: what moves something must not move it long after it was asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from edge_infer.messages.command import Request
from edge_infer.mqtt.messages import Message
from edge_infer.remote.answer import RefusedError

LONGEST_S = 600
"""A request that holds longer could come again when nobody remembers that it was carried out."""


def require_fresh(
    message: Message,
    request: Request,
    *,
    actuating: bool,
    now_s: float,
    now: datetime,
    synced: Callable[[], bool | None],
) -> None:
    """RefusedError where it is too old, or actuating and could be of any age.

    ``now_s``: time.monotonic(). ``now``: wall clock, which counts only while it is not known to be wrong.
    """
    if message.expiry_s is None and request.expires_at is None:
        if actuating:
            text = "it needs a message expiry interval (MQTT 5) or expiresAt: it must not be obeyed late"
            raise RefusedError("no_expiry", text)
        return
    left_s = []
    if message.expiry_s is not None:
        left_s.append(message.expiry_s - (now_s - message.received_s))
    if request.expires_at is not None:
        if synced() is False:
            raise RefusedError("clock_not_synced", "the device's clock is not set: it cannot judge expiresAt")
        left_s.append((request.expires_at - now).total_seconds())
    if min(left_s) <= 0:
        raise RefusedError("expired", "it came too late")
    if actuating and min(left_s) > LONGEST_S:
        raise RefusedError("expires_too_late", f"it may hold for at most {LONGEST_S} s")
