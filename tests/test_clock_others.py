"""Whether the clock is kept, where the kernel may not be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_infer import clock


@pytest.fixture(autouse=True)
def _kernel_may_not_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_adjtimex", lambda: lambda _: -1)
    monkeypatch.setattr(clock, "_others", clock._Others())
    monkeypatch.setattr(clock, "_TIMESYNCD", tmp_path / "timesync")
    monkeypatch.setenv("PATH", str(tmp_path))


def answer(folder: Path, script: str) -> None:
    path = folder / "timedatectl"
    path.write_text(f"#!/bin/sh\necho asked >>{folder}/asked\n{script}\n")
    path.chmod(0o755)


def test_timesyncd_says_so_by_a_file(tmp_path: Path) -> None:
    assert clock.synced() is None
    (tmp_path / "timesync").mkdir()
    clock.ask_others()
    assert clock.synced() is False
    (tmp_path / "timesync/synchronized").touch()
    clock.ask_others()
    assert clock.synced() is True


@pytest.mark.parametrize(("said", "synced"), [("yes", True), ("no", False), ("perhaps", None)])
def test_without_timesyncd_timedated_is_asked_and_not_often(
    tmp_path: Path, said: str, *, synced: bool | None
) -> None:
    answer(tmp_path, f"echo {said}")
    for _ in range(3):
        clock.ask_others()
        assert clock.synced() is synced
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_nobody_knows_where_timedated_fails_hangs_or_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "OTHERS_S", 0.2)
    monkeypatch.setattr(clock, "OTHERS_AGAIN_S", 0.0)
    clock.ask_others()
    assert clock.synced() is None
    for script in ("exit 1", "exec /bin/sleep 60"):
        answer(tmp_path, script)
        clock.ask_others()
        assert clock.synced() is None
    assert (tmp_path / "asked").read_text() == "asked\nasked\n"
