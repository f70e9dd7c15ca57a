from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from edge_infer.messages.command import Request
from edge_infer.mqtt.messages import Message
from edge_infer.remote.answer import RefusedError
from edge_infer.remote.freshness import LONGEST_S, require_fresh

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def ask(
    *,
    expiry_s: int | None = None,
    expires_at: datetime | None = None,
    waited_s: float = 0,
    actuating: bool = True,
    synced: bool | None = True,
) -> str:
    """The code it is refused with, or `fresh`."""
    received_s = time.monotonic()
    message = Message("t", b"", NOW, received_s, 1, expiry_s=expiry_s)
    try:
        require_fresh(
            message,
            Request(expiresAt=expires_at),  # type: ignore[call-arg]
            actuating=actuating,
            now_s=received_s + waited_s,
            now=NOW,
            synced=lambda: synced,
        )
    except RefusedError as error:
        return error.answer.code
    return "fresh"


def test_what_actuates_needs_to_say_how_long_it_holds_and_a_part_does_not() -> None:
    assert ask() == "no_expiry"
    assert ask(actuating=False) == "fresh"
    assert ask(expiry_s=30) == "fresh"
    assert ask(expires_at=NOW + timedelta(seconds=30)) == "fresh"


@pytest.mark.parametrize("actuating", [True, False])
def test_a_stale_request_is_not_carried_out_also_when_it_became_so_while_it_waited(actuating: bool) -> None:
    assert ask(expiry_s=30, waited_s=31, actuating=actuating) == "expired"
    assert ask(expiry_s=0, actuating=actuating) == "expired"
    assert ask(expires_at=NOW, actuating=actuating) == "expired"
    past = NOW - timedelta(days=1)
    assert ask(expires_at=past, expiry_s=30, actuating=actuating) == "expired"


@pytest.mark.parametrize("actuating", [True, False])
def test_a_clock_that_is_known_to_be_wrong_judges_no_request(actuating: bool) -> None:
    soon = NOW + timedelta(seconds=30)
    assert ask(expires_at=soon, synced=False, actuating=actuating) == "clock_not_synced"
    assert ask(expires_at=soon, synced=None, actuating=actuating) == "fresh"
    assert ask(expiry_s=30, synced=False, actuating=actuating) == "fresh"


def test_nothing_that_actuates_holds_longer_than_it_is_remembered() -> None:
    assert ask(expiry_s=LONGEST_S) == "fresh"
    assert ask(expiry_s=LONGEST_S + 1) == "expires_too_late"
    assert ask(expires_at=NOW + timedelta(days=365)) == "expires_too_late"
    assert ask(expiry_s=30, expires_at=NOW + timedelta(days=365)) == "fresh"
    assert ask(expiry_s=LONGEST_S + 1, actuating=False) == "fresh"
