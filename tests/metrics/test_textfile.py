from __future__ import annotations

import itertools
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

from edge_infer.metrics.textfile import Textfile
from tests.support.filesystems import ext4, tmpfs


def _wait(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_it_is_replaced_whole_again_and_again_for_everybody_to_read(tmp_path: Path) -> None:
    path, count = tmp_path / "edge-infer.prom", [0]

    def text() -> bytes:
        count[0] += 1
        return b"edge_infer_count %d\n" % count[0] * 20_000

    textfile = Textfile(path, text, 0.01, lambda _: None)
    textfile.start()
    _wait(path.exists)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    seen: set[bytes] = set()
    until_s, enough_s = time.monotonic() + 10, time.monotonic() + 0.5
    while len(seen) < 5 or time.monotonic() < enough_s:
        assert time.monotonic() < until_s
        lines = set(path.read_bytes().splitlines())
        # never half of one, never two of them
        assert len(lines) == 1
        seen |= lines
    textfile.stop()
    _wait(lambda: not path.exists())
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_by_a_kill_is_no_prom_file(tmp_path: Path) -> None:
    path = tmp_path / "edge-infer.prom"
    writing, go_on = threading.Event(), threading.Event()
    textfile = Textfile(path, lambda: b"x 1\n", 60, lambda _: None)
    original = textfile._write

    def write() -> None:
        writing.set()
        go_on.wait(5)
        original()

    textfile._write = write  # type: ignore[method-assign] # stops it where a kill would
    textfile.start()
    assert writing.wait(5)
    (tmp_path / ".edge-infer.prom.part").write_bytes(b"half")
    assert not list(tmp_path.glob("*.prom"))
    go_on.set()
    _wait(path.exists)
    assert not list(tmp_path.glob("*.part"))
    textfile.stop()
    _wait(lambda: not path.exists())


def test_a_folder_that_is_not_there_is_said_once_and_written_to_once_it_is(tmp_path: Path) -> None:
    path = tmp_path / "later/edge-infer.prom"
    said: list[str | None] = []
    textfile = Textfile(path, lambda: b"x 1\n", 0.05, said.append)
    textfile.start()
    _wait(lambda: len(said) == 1)
    time.sleep(0.2)
    assert said == [f"{path}: No such file or directory"]
    path.parent.mkdir()
    _wait(path.exists)
    _wait(lambda: said[1:] == [None])
    textfile.stop()


def test_a_bug_in_a_number_is_said_once_and_does_not_end_it(tmp_path: Path) -> None:
    path, broken = tmp_path / "edge-infer.prom", threading.Event()
    said: list[str | None] = []
    broken.set()

    def text() -> bytes:
        if broken.is_set():
            raise RuntimeError("a bug")
        return b"x 1\n"

    textfile = Textfile(path, text, 0.05, said.append)
    textfile.start()
    _wait(lambda: len(said) == 1)
    time.sleep(0.2)
    broken.clear()
    _wait(path.exists)
    _wait(lambda: said == ["a bug in edge-infer: RuntimeError: a bug", None])
    textfile.stop()


def test_a_full_disk_leaves_the_old_one_whole_is_said_once_and_written_again_once_there_is_room(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    said: list[str | None] = []
    count = itertools.count()
    with tmpfs(tmp_path / "disk", "200k") as disk:
        path = disk.path / "edge-infer.prom"
        textfile = Textfile(path, lambda: b"x %d\n" % next(count) * 10_000, 0.02, said.append)
        textfile.start()
        _wait(path.exists)
        disk.fill()
        _wait(lambda: len(said) == 1)
        assert "No space left on device" in str(said[0])
        assert len(set(path.read_bytes().splitlines())) == 1
        old = path.read_bytes()
        disk.make_room()
        _wait(lambda: said[1:] == [None])
        assert path.read_bytes() != old
        textfile.stop()
        textfile._thread.join(5)


def test_a_folder_that_became_read_only_is_no_bug_at_the_stop(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with tmpfs(tmp_path / "disk", "200k") as disk:
        path = disk.path / "edge-infer.prom"
        textfile = Textfile(path, lambda: b"x 1\n", 60, lambda _: None)
        textfile.start()
        _wait(path.exists)
        disk.read_only()
        textfile.stop()
        textfile._thread.join(5)
        assert path.exists()


def test_a_disk_that_hangs_holds_up_no_stop(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with ext4(tmp_path / "disk") as disk:
        path = disk.path / "edge-infer.prom"
        textfile = Textfile(path, lambda: b"x 1\n", 0.02, lambda _: None)
        textfile.start()
        _wait(path.exists)
        disk.freeze()
        began_s = time.monotonic()
        textfile.stop()
        # as long as it is frozen, whoever waits for it waits
        assert time.monotonic() - began_s < 2
        disk.thaw()
        textfile._thread.join(5)
        assert not textfile._thread.is_alive()
