"""Where answers may go: they are published with this device's rights, whatever the asker wrote."""

from __future__ import annotations

RESPONSES = "vision/v1/rsp/"
LONGEST = 256
"""Bytes of a topic."""


def answerable(topic: str) -> bool:
    """Whether a stranger may have an answer there."""
    # mosquitto closes the connection of whoever publishes on control characters
    return (
        topic.startswith(RESPONSES)
        and len(topic) > len(RESPONSES)
        and topic.isprintable()
        and len(topic.encode(errors="replace")) <= LONGEST
        and not any(sign in topic for sign in "+#")
    )
