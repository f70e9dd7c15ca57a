from __future__ import annotations

import gc
import logging
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_infer import logs
from tests.support.runs import Run, site
from tests.test_run import broken


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger("edge_infer")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def test_the_journal_gets_one_line_with_its_priority(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(journal=True)
    logging.getLogger("edge_infer.camera").warning("lost\nbad")
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "<4>edge_infer.camera: lost\\nbad\n")


def test_below_the_level_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(journal=False, level=logging.WARNING)
    logging.getLogger("edge_infer.camera").info("connected")
    assert capsys.readouterr().err == ""


LOG = logging.getLogger("edge_infer.somewhere")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    # the log is started by the test itself: pytest has another standard error before it
    return lambda: capsys.readouterr().err.splitlines()  # noqa: PLW0108 - read anew at each call


def end() -> None:
    for handler in logging.getLogger("edge_infer").handlers:
        handler.close()


def test_a_fault_that_repeats_each_frame_is_one_line_and_its_count_at_the_end(
    lines: Callable[[], list[str]],
) -> None:
    logs.start(journal=True)
    for _ in range(313):
        LOG.error("camera %s: %s", "top", "no light")
    end()
    assert lines() == [
        "<3>edge_infer.somewhere: camera top: no light",
        "<3>edge_infer.somewhere: camera top: no light (repeated 312 times in 0 s)",
    ]


def test_a_fault_with_another_text_each_time_is_limited_too(lines: Callable[[], list[str]]) -> None:
    logs.start(journal=True)
    for frame in range(1000):
        LOG.error("station %s: frame %d failed", "cap", frame)
    end()
    first, *_, last = out = lines()
    assert len(out) == logs.TEXTS + 1
    assert first.endswith("frame 0 failed")
    assert last.endswith("frame 999 failed (the last of 980 more like it in 0 s)")


def test_other_faults_other_cameras_and_other_exceptions_are_not_hidden_by_one_that_repeats(
    lines: Callable[[], list[str]],
) -> None:
    logs.start(journal=True)

    def failed(error: Exception) -> None:
        try:
            raise error
        except Exception:
            LOG.exception("a frame failed")

    for _ in range(50):
        LOG.error("camera %s: %s", "top", "no light")
        failed(ValueError("a"))
    LOG.error("camera %s: %s", "side", "no light")
    LOG.error("the disk is full")
    failed(ZeroDivisionError("b"))
    out = "\n".join(lines())
    assert out.count("camera side: no light") == out.count("the disk is full") == 1
    assert "ZeroDivisionError" in out
    assert out.count("ValueError") == 1


def test_a_state_that_comes_and_goes_is_told_as_it_is_in_the_end(lines: Callable[[], list[str]]) -> None:
    logs.start(journal=True)
    for _ in range(4):
        LOG.warning("camera %s: %s", "top", "lost")
        LOG.info("camera %s: %s", "top", "connected")
    end()
    assert lines() == [
        "<4>edge_infer.somewhere: camera top: lost",
        "<6>edge_infer.somewhere: camera top: connected",
        "<4>edge_infer.somewhere: camera top: lost (repeated 3 times in 0 s)",
        "<6>edge_infer.somewhere: camera top: connected (repeated 3 times in 0 s)",
    ]


def test_the_count_of_a_fault_that_is_over_is_told_while_nothing_else_is_said(
    lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.start(journal=True)
    monkeypatch.setattr(logs, "WINDOW_S", 0.05)
    LOG.error("bad")
    LOG.error("bad")
    time.sleep(0.06)
    logs.tell_repeats()
    assert lines()[-1].endswith("bad (repeated once in 0 s)")
    LOG.error("bad")
    assert lines() == ["<3>edge_infer.somewhere: bad"]


def test_what_is_remembered_holds_no_picture() -> None:
    class Picture:
        pass

    picture = Picture()
    gone = weakref.ref(picture)

    def fail(_picture: Picture) -> None:
        raise ValueError("a")

    logs.start(journal=True)
    for _ in range(2):
        try:
            fail(picture)
        except ValueError:
            LOG.exception("failed")
    del picture
    gc.collect()
    assert gone() is None


def test_what_is_remembered_of_repeats_is_bounded() -> None:
    repeats = logs.Repeats()
    for i in range(3 * logs.PLACES):
        record = logging.LogRecord("child", logging.ERROR, "", 0, f"line {i}", None, None)
        assert repeats.shows(record, 0.0)
    assert len(repeats._windows) == logs.PLACES


@pytest.mark.parametrize("journal", [True, False])
def test_text_from_outside_makes_no_lines_and_no_colours(
    capsys: pytest.CaptureFixture[str], *, journal: bool
) -> None:
    logs.start(journal=journal)
    LOG.warning("topic %s", "a\n<0>edge_infer: all is well\r\x1b[31m\u2028\u202e\udc80")
    (line,) = capsys.readouterr().err.split("\n")[:-1]
    assert line.endswith(r"topic a\n<0>edge_infer: all is well\r\x1b[31m\u2028\u202e\udc80")


def test_a_traceback_keeps_its_lines_for_people_and_is_one_in_the_journal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = []
    for journal in (True, False):
        logs.start(journal=journal)
        try:
            raise ValueError("a\x1b[31m")
        except ValueError:
            LOG.exception("failed")
        text = capsys.readouterr().err
        assert r"ValueError: a\x1b[31m" in text
        counts.append(len(text.splitlines()))
    assert counts[0] == 1 < counts[1]


def test_a_line_is_never_longer_than_the_journal_takes(lines: Callable[[], list[str]]) -> None:
    logs.start(journal=True)
    LOG.error("%s", "x" * 100_000)
    (line,) = lines()
    assert len(line) < 17_000
    assert line.endswith("characters)")


def test_a_line_that_cannot_be_made_ends_nobodys_work(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(journal=True)
    LOG.error("%d", "no number")
    LOG.error("next")
    assert "<3>edge_infer.somewhere: next\n" in capsys.readouterr().err


def test_a_bug_in_each_frame_of_the_running_service_is_two_messages(tmp_path: Path, run: Run) -> None:
    bug = (
        "import pathlib, edge_infer.station.station as station\n"
        "frames = 0\n"
        "def offer(self, frame):\n"
        "    global frames\n"
        "    frames += 1\n"
        f"    if frames == 100: pathlib.Path({str(tmp_path / 'enough')!r}).touch()\n"
        "    raise ZeroDivisionError('boom')\n"
        "station.Station.offer = offer\n"
    )
    running = run(site(tmp_path / "a", None, fps=100), **broken(tmp_path / "bug", bug))
    end_s = time.monotonic() + 30
    while not (tmp_path / "enough").exists():
        assert time.monotonic() < end_s
        time.sleep(0.02)  # a file, which tells of nothing
    assert running.stop() == 0
    first, count = (line for line in running.log.splitlines() if "a bug in one of its stations" in line)
    assert "repeated" not in first
    assert int(count.split("repeated ")[1].split(" times")[0]) >= 99
