"""A judged picture is moved whole or not at all, and overwrites nothing."""

from __future__ import annotations

import ctypes
import errno
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge_infer.sources import _put_away
from edge_infer.sources._put_away import move

MOVES = """
import sys
from pathlib import Path
from edge_infer.sources._put_away import move
for one in sorted(Path(sys.argv[1]).iterdir()):
    move(one, Path(sys.argv[2]))
"""


def test_killed_in_the_middle_each_picture_is_in_one_place_under_its_own_name(tmp_path: Path) -> None:
    left, done = tmp_path / "in", tmp_path / "done"
    left.mkdir()
    done.mkdir()
    names = {f"{number:04}.png" for number in range(3000)}
    for name in names:
        (left / name).write_text(name)
    kills = 0
    while any(left.iterdir()):
        process = subprocess.Popen([sys.executable, "-c", MOVES, left, done])
        before = len(list(done.iterdir()))
        while len(list(done.iterdir())) < min(before + 150, len(names)) and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        kills += process.wait(5) == -9
    assert kills > 2
    assert {one.name for one in done.iterdir()} == names
    assert all(one.read_text() == one.name for one in done.iterdir())


class OldFileSystem:
    """Some on a network: no rename that must not replace."""

    def renameat2(self, *_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1


@pytest.mark.parametrize("old", [False, True])
def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
    if old:
        monkeypatch.setattr(_put_away, "_libc", OldFileSystem)
    done = tmp_path / "done"
    done.mkdir()
    for text in "abc":
        (tmp_path / "1.png").write_text(text)
        move(tmp_path / "1.png", done)
    assert {one.name: one.read_text() for one in done.iterdir()} == {
        "1.png": "a",
        "1-2.png": "b",
        "1-3.png": "c",
    }
    with pytest.raises(FileNotFoundError, match=r"2\.png"):
        move(tmp_path / "2.png", done)
    assert len(list(done.iterdir())) == 3
