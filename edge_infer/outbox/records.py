"""Records of the tables <-> what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from edge_infer.outbox.ledger import Tally
from edge_infer.outbox.row import Place, Row


def columns(tally: Tally) -> tuple[int, int, int, str | None]:
    """As `counts` stores it."""
    return tally.ok, tally.nok, tally.undefined, tally.since.isoformat() if tally.since else None


def instant(text: str | None) -> datetime | None:
    """As `columns` wrote it."""
    return datetime.fromisoformat(text) if text else None


def as_row(record: Sequence[Any], place: Place) -> Row:
    """A record of `outbox` or `dead`."""
    # the first columns of `outbox` and `dead` are the same
    id_, kind, topic, payload, station, stream_id, seq, decision, created_s = record[:9]
    return Row(kind, topic, payload, created_s, station, stream_id, seq, decision, id_, place)
