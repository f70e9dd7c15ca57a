from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_infer.client import Event, Gap, Result, Status, Unreadable
from edge_infer.client.messages import prefix_of, read
from tests.support.results import result

DOC = Path(__file__).parents[2] / "docs" / "mqtt.md"


def _raw(**changes: Any) -> dict[str, Any]:
    text = result("cap", "NOK", part_id="P1").model_copy(update={"seq": 3, "stream_id": "s1"}).as_json()
    return {**json.loads(text), **changes}


def _read(raw: dict[str, Any], **user: str) -> Any:
    return read("v/ipc7/cap/result", json.dumps(raw).encode(), user)


def test_a_result_has_what_a_reader_needs_and_the_rest_in_raw() -> None:
    raw = _raw(newKeyOfTheFuture={"x": 1})
    told = _read(raw, delayed="true")
    assert isinstance(told, Result)
    assert (told.device, told.station, told.stream_id, told.seq) == ("ipc7", "cap", "s1", 3)
    assert (told.decision, told.part_id, told.delayed) == ("NOK", "P1", True)
    assert told.created_at == datetime.fromisoformat(raw["creationTime"]).astimezone(UTC)
    assert told.raw == raw
    assert prefix_of(told) == "v/ipc7"


def test_every_example_of_the_documentation_can_be_read() -> None:
    topics = {"result": "cap/result", "gap": "cap/gap", "event": "event", "status": "status"}
    kinds = {"result": Result, "gap": Gap, "event": Event, "status": Status}
    for name, topic in topics.items():
        found = re.search(rf"<!-- example: {name} -->\n```json\n(.*?)```", DOC.read_text(), re.DOTALL)
        assert found
        told = read(f"v/ipc7/{topic}", found[1].encode(), {})
        assert isinstance(told, kinds[name]), told
        assert prefix_of(told) == "v/ipc7"


def test_a_newer_schema_is_said_and_never_taken_for_a_verdict() -> None:
    told = _read(_raw(schema="result/2"))
    assert isinstance(told, Unreadable)
    assert told.why == "schema result/2 is newer than this edge_infer.client; update it"


@pytest.mark.parametrize(
    "changes",
    [
        {"decision": "GOOD"},
        {"decision": None},
        {"seq": 0},
        {"seq": True},
        {"seq": "3"},
        {"streamId": None},
        {"source": None},
        {"source": {}},
        {"reasons": [{"code": 1}]},
        {"creationTime": "yesterday"},
        {"creationTime": "2026-11-30T12:00:00"},
        {"creationTime": None},
        {"capturedAt": 7},
    ],
)
def test_what_is_no_result_is_told_as_unreadable(changes: dict[str, Any]) -> None:
    assert isinstance(_read(_raw(**changes)), Unreadable)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff\xfe", b"{", b"[]", b"null", b'"OK"', b"7", b"[" * 100_000, b'{"seq": NaN}', b"{}"],
)
@pytest.mark.parametrize("topic", ["cap/result", "cap/gap", "event", "status"])
def test_nothing_that_comes_from_outside_raises(topic: str, payload: bytes) -> None:
    told = read(f"v/ipc7/{topic}", payload, {})
    assert isinstance(told, Unreadable)
    assert told.why
    assert told.payload == payload


def test_a_missing_key_is_unreadable() -> None:
    for key in ("decision", "seq", "streamId", "station", "source", "creationTime", "reasons", "capturedAt"):
        raw = _raw()
        del raw[key]
        assert isinstance(_read(raw), Unreadable), key
