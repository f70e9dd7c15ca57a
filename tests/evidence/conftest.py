"""What the tests of stored pictures share."""

from __future__ import annotations

import pytest

from edge_infer.evidence import records

HOLD_S = records.HOLD_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to encode: only what is about time uses the real limit."""
    monkeypatch.setattr(records, "HOLD_S", 5.0)


@pytest.fixture
def hold_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """The real limit of how long a record waits for its pictures."""
    monkeypatch.setattr(records, "HOLD_S", HOLD_S)
    return HOLD_S
