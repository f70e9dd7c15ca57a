from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from edge_infer.remote import audit
from edge_infer.remote.audit import COMMANDS, FOLDER, PARTS, REFUSALS, Audit


def _note(one: Audit, status: str = "ok", code: str = "done", **more: Any) -> None:
    given: dict[str, Any] = {"claimed_by": "mes", "part": False, "detail": {"request": {}}, **more}
    one.note("p/cap/cmd/set_threshold", status, code, **given)


def _lines(folder: Path, name: str = COMMANDS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FOLDER / name).read_text(encoding="ascii").splitlines()]


def test_accepted_and_refused_are_written_with_who_claims_to_have_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = Audit(tmp_path)
    with caplog.at_level(logging.INFO):
        _note(one, detail={"request": {"value": 0.5}})
        _note(one, "rejected", "expired", claimed_by=None)
    one.close(5)
    first, second = _lines(tmp_path)
    assert (first["claimedBy"], first["request"], first["code"]) == ("mes", {"value": 0.5}, "done")
    assert (second["claimedBy"], second["status"], second["code"]) == (None, "rejected", "expired")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_nothing_that_a_stranger_writes_starts_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = Audit(tmp_path)
    _note(one, "rejected", claimed_by='x\n{"forged": 1}\x1b[31m\u2028\r', detail={"message": "a\nb\x00"})
    one.close(5)
    assert len(_lines(tmp_path)) == 1
    (record,) = caplog.records
    assert record.getMessage().isascii()
    assert record.getMessage().isprintable()


def test_a_flood_of_refusals_does_not_push_out_what_was_done(tmp_path: Path) -> None:
    one = Audit(tmp_path)
    _note(one)
    for _ in range(1000):
        _note(one, "rejected", "bad_request")
    one._minute -= 1
    _note(one)
    _note(one, "rejected", "bad_request")
    one.close(5)
    lines = _lines(tmp_path)
    assert sum(line.get("status") == "ok" for line in lines) == 2
    assert sum(line.get("status") == "rejected" for line in lines) == REFUSALS + 1
    assert [line["more"] for line in lines if "more" in line] == [1000 - REFUSALS]


def test_the_files_are_bounded_and_parts_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "LARGEST", 2000)
    one = Audit(tmp_path)
    _note(one)
    for _ in range(100):
        _note(one, part=True)
    one.close(5)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / FOLDER).iterdir()}
    assert sizes.keys() == {COMMANDS, PARTS, f"{PARTS}.1"}
    assert max(sizes.values()) <= 2000
    assert len(_lines(tmp_path)) == 1


def test_a_disk_that_cannot_be_written_is_said_once_and_the_log_still_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    one = Audit(tmp_path)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            _note(one)
        one.close(5)
    assert caplog.text.count("cannot be written") == 1
    assert caplog.text.count("set_threshold") == 3


def test_a_line_that_cannot_be_written_for_a_bug_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = Audit(tmp_path)
    write = one._append
    broken: list[Path] = []

    def once(path: Path, text: str) -> None:
        if not broken:
            broken.append(path)
            raise RuntimeError("a bug")
        write(path, text)

    monkeypatch.setattr(one, "_append", once)
    _note(one)
    _note(one)
    one.close(5)
    assert [line["linesLostBefore"] for line in _lines(tmp_path)] == [1]
    assert "a bug" in caplog.text
