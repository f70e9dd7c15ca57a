"""What was selected by command on real file systems: it is there after everything, or the command failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edge_infer.changeover.choices import KEPT_ASIDE, Choice, Choices, ChoicesFile
from edge_infer.errors import EdgeInferError
from tests.support.filesystems import SmallDisk

SMALL: Choices = {
    "cap": Choice(recipe="small", min_scores={"has-cap": 0.7}),
    "film": Choice(anomaly_threshold=0.4),
}


def stored(file: ChoicesFile) -> Choices:
    choices, aside = file.load()
    assert aside is None
    return choices


def test_what_was_stored_is_read_again(tmp_path: Path) -> None:
    file = ChoicesFile(tmp_path)
    assert stored(file) == {}
    file.store(SMALL)
    assert stored(ChoicesFile(tmp_path)) == SMALL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["choices.json"]


def test_it_survives_a_power_cut(small_disk: SmallDisk) -> None:
    small = small_disk("ext4")
    file = ChoicesFile(small.path)
    file.store({"cap": Choice(recipe="large")})
    file.store(SMALL)
    small.cut()
    small.power_on()
    assert stored(file) == SMALL


def test_a_full_disk_refuses_and_what_was_stored_before_is_still_there(small_disk: SmallDisk) -> None:
    small = small_disk("1m")
    file = ChoicesFile(small.path)
    file.store(SMALL)
    small.fill()
    with pytest.raises(EdgeInferError, match=r"No space left.*nothing was changed"):
        file.store({"cap": Choice(recipe="large")})
    assert stored(file) == SMALL
    assert sorted(path.name for path in small.path.iterdir()) == ["choices.json", "filler"]
    small.make_room()
    file.store({})
    assert stored(file) == {}


def test_a_read_only_disk_refuses_and_what_was_stored_before_is_still_there(small_disk: SmallDisk) -> None:
    small = small_disk("1m")
    file = ChoicesFile(small.path)
    file.store(SMALL)
    small.read_only()
    with pytest.raises(EdgeInferError, match="Read-only file system"):
        file.store({})
    assert stored(file) == SMALL


def test_kill_9_at_any_instant_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from edge_infer.changeover.choices import Choice, ChoicesFile\n"
        f"file = ChoicesFile(Path({str(tmp_path)!r}))\n"
        "for i in range(10**9):\n"
        "    file.store({'cap': Choice(recipe=f'r{i}')})\n"
        "    print(i, flush=True)\n"
    )
    last = -1
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(20):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        told = [int(line) for line in process.stdout.read().split("\n")[:-1]]
        process.wait(5)
        process.stdout.close()
        last = told[-1] if told else last
        recipe = stored(ChoicesFile(tmp_path))["cap"].recipe
        # stored before it was told, never half
        assert recipe in {f"r{last}", f"r{last + 1}"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b'{"format": 1, "stations": {"cap": {"recipe": "sma',
        b"\xff\xfe\x00",
        b"[]",
        b'{"format": 2, "stations": {}}',
        b'{"format": 1, "stations": {"cap": {"colour": "red"}}}',
        b'{"format": 1, "stations": {"cap": {"min_scores": {"a": NaN}}}}',
        b'{"format": 1, "stations": {"cap": {"recipe": 7}}}',
    ],
)
def test_an_unreadable_or_foreign_file_is_set_aside_as_it_was(tmp_path: Path, content: bytes) -> None:
    file = ChoicesFile(tmp_path)
    file.path.write_bytes(content)
    choices, aside = file.load()
    assert choices == {}
    assert aside is not None
    assert aside.path.read_bytes() == content
    assert aside.path != file.path
    assert aside.why
    assert not file.path.exists()


def test_a_folder_in_its_place_is_set_aside_too(tmp_path: Path) -> None:
    file = ChoicesFile(tmp_path)
    file.path.mkdir()
    _, aside = file.load()
    assert aside is not None
    assert "directory" in aside.why
    file.store(SMALL)
    assert stored(file) == SMALL


def test_only_the_newest_unreadable_files_are_kept(tmp_path: Path) -> None:
    file = ChoicesFile(tmp_path)
    for i in range(5):
        file.path.write_text(str(i))
        file.load()
    kept = sorted(path.read_text() for path in tmp_path.iterdir())
    assert kept == ["3", "4"]
    assert len(kept) == KEPT_ASIDE


def test_what_cannot_even_be_set_aside_is_said(
    small_disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    small = small_disk("1m")
    file = ChoicesFile(small.path)
    file.path.write_text("not json")
    small.read_only()
    choices, aside = file.load()
    assert choices == {}
    assert aside is not None
    assert "cannot be set aside" in caplog.text


def test_only_the_services_user_reads_it(tmp_path: Path) -> None:
    file = ChoicesFile(tmp_path)
    old = os.umask(0o077)
    try:
        file.store(SMALL)
    finally:
        os.umask(old)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.path.read_text()) == {
        "format": 1,
        "stations": {
            "cap": {"recipe": "small", "min_scores": {"has-cap": 0.7}},
            "film": {"anomaly_threshold": 0.4},
        },
    }
