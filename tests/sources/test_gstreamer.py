"""GStreamer pipelines as real child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source
from edge_infer.sources.gstreamer import Gstreamer

BALL = "videotestsrc is-live=true pattern=ball ! video/x-raw,width=322,height=240,framerate=30/1"


@contextmanager
def opened(pipeline: str = BALL, **options: Any) -> Iterator[Source]:
    settings = Gstreamer(type="gstreamer", pipeline=pipeline, **{"width": 322, "height": 240, **options})
    with closing(settings.open("top", Secrets({}))) as source:
        yield source


def read(source: Source) -> Frame:
    frame = source.read(5.0)
    assert frame is not None
    return frame


def refused(pipeline: str, **options: Any) -> str:
    with pytest.raises(SourceError) as caught, opened(pipeline, **options):
        pass
    assert "\n" not in str(caught.value)
    assert children() == []
    return str(caught.value)


def lost(source: Source, within_s: float = 5.0) -> str:
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        try:
            source.read(0.1)
        except SourceStalledError:
            continue
        except SourceError as error:
            return str(error)
    raise AssertionError(f"not lost within {within_s} s")


def children(process: int | None = None) -> list[psutil.Process]:
    return [one for one in psutil.Process(process).children(recursive=True) if "gst-launch" in one.name()]


def test_pictures_have_the_right_colours_whatever_the_width() -> None:
    """Rows of BGR are padded."""
    for width in (321, 322, 323, 324):
        bars = f"videotestsrc is-live=true pattern=smpte ! video/x-raw,width={width},height=90"
        with opened(bars, width=width, height=90) as source:
            pixels = read(source).pixels
        assert pixels.shape == (90, width, 3)
        bar = width / 7
        named = {"white": 0, "yellow": 1, "cyan": 2, "green": 3, "magenta": 4, "red": 5, "blue": 6}
        bgr = {
            name: tuple(bool(v > 128) for v in pixels[:40, int(bar * at + bar / 2)].mean(axis=0))
            for name, at in named.items()
        }
        assert bgr["yellow"] == (False, True, True)
        assert bgr["cyan"] == (True, True, False)
        assert bgr["red"] == (False, False, True)
        assert bgr["blue"] == (True, False, False)


def test_frames_are_new_and_the_newest_for_a_slow_reader() -> None:
    with opened() as source:
        first = read(source)
        before = first.pixels.copy()
        time.sleep(1.0)
        frame = read(source)
        assert time.monotonic() - frame.time_s < 0.4
        assert frame.seq - first.seq > 20
        assert np.array_equal(first.pixels, before)
        assert not np.array_equal(first.pixels, frame.pixels)


@pytest.mark.parametrize(("fps", "expected"), [(7.5, 7.5), (29.97, 29.97)])
def test_odd_frame_rates_are_kept(fps: float, expected: float) -> None:
    with opened(BALL.replace("30/1", "60/1"), fps=fps) as source:
        read(source)
        seen = [read(source) for _ in range(16)]
    rate = (seen[-1].seq - seen[0].seq) / (seen[-1].time_s - seen[0].time_s)
    assert rate == pytest.approx(expected, rel=0.25)


def test_a_pipeline_that_hangs_is_stalled_then_lost_and_no_child_is_left() -> None:
    with opened(read_timeout_s=0.8) as source:
        read(source)
        (child,) = children()
        child.send_signal(signal.SIGSTOP)
        stalled_s = time.monotonic()
        assert "is lost: it gave no picture for" in lost(source)
        assert time.monotonic() - stalled_s < 2
    assert children() == []


def test_a_pipeline_that_ends_or_is_killed_is_lost_at_once_with_its_last_words() -> None:
    with opened(BALL.replace("is-live=true", "is-live=true num-buffers=5")) as source:
        assert "ended (exit code 0)" in lost(source, 2)
    with opened() as source:
        read(source)
        children()[0].kill()
        assert "was killed" in lost(source, 1)
    assert children() == []


@pytest.mark.parametrize(
    ("pipeline", "options", "text"),
    [
        ("nosuchelement ! videoscale", {}, 'no element "nosuchelement"'),
        ("filesrc location=/absent.mp4 ! decodebin", {}, "/absent.mp4"),
        (BALL, {"width": 640}, "ended (exit code"),
        ("videotestsrc is-live=true ! valve drop=true", {"open_timeout_s": 0.8}, "no picture within"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_pipeline_is_told_in_one_line(
    pipeline: str, options: dict[str, Any], text: str
) -> None:
    message = refused(pipeline, **options)
    assert message.startswith("camera top: its pipeline ")
    assert text in message


def test_a_missing_program_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gst-launch-1.0 is not installed; `sudo apt-get install gstreamer1.0-tools" in refused(BALL)


def test_no_shell_reads_the_pipeline(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    refused(f"videotestsrc ; touch {mark} ! identity")
    refused(f"videotestsrc ! identity name=$(touch {mark})")
    assert not mark.exists()


def test_secrets_of_the_environment_and_of_addresses_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAM_PASSWORD", "sesame-1234")
    with opened() as source:
        read(source)
        environment = Path(f"/proc/{children()[0].pid}/environ").read_bytes()
    assert b"sesame" not in environment
    assert b"PATH=" in environment
    message = refused("filesrc location=rtsp://u:geheim@127.0.0.1:9/x?token=tok-8c2f ! decodebin")
    assert "127.0.0.1:9/x" in message
    assert "geheim" not in message
    assert "tok-8c2f" not in message


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_pipeline_dies_with_us_however_we_end(number: signal.Signals) -> None:
    code = (
        "import sys, time\nfrom edge_infer.settings import Secrets\n"
        "from edge_infer.sources.gstreamer import Gstreamer\n"
        "s = Gstreamer(type='gstreamer', pipeline=sys.argv[1], width=322, height=240)\n"
        "s = s.open('top', Secrets({}))\ns.read(5.0)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, BALL], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (child,) = children(process.pid)
        process.send_signal(number)
        process.wait(5)
    child.wait(5)
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_pipeline_that_writes_nothing_dies_with_us_too(number: signal.Signals) -> None:
    """It never notices that nobody reads what it writes."""
    code = (
        "import sys\nfrom edge_infer.settings import Secrets\n"
        "from edge_infer.sources.gstreamer import Gstreamer\n"
        "Gstreamer(type='gstreamer', pipeline=sys.argv[1], width=322, height=240, open_timeout_s=60)"
        ".open('top', Secrets({}))\n"
    )
    silent = "videotestsrc is-live=true ! valve drop=true"
    with subprocess.Popen([sys.executable, "-c", code, silent]) as process:
        end_s = time.monotonic() + 20
        while not (found := children(process.pid)):
            assert time.monotonic() < end_s
            time.sleep(0.02)
        (child,) = found
        process.send_signal(number)
        process.wait(5)
    try:
        child.wait(5)
    finally:
        with suppress(psutil.NoSuchProcess):
            child.kill()


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        ("", "is elements with ! between them"),
        ("videotestsrc !", "is elements with ! between them"),
        ("videotestsrc name='a", "a quote that does not end"),
        ("--gst-plugin-load=/tmp/x.so videotestsrc", "an option of gst-launch-1.0"),
    ],
)
def test_what_is_no_pipeline_is_refused(pipeline: str, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Gstreamer(type="gstreamer", pipeline=pipeline, width=64, height=48)


def test_no_handle_is_left_open() -> None:
    with opened() as source:
        read(source)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number
    for _ in range(3):
        with opened() as source:
            read(source)
        refused("nosuchelement ! videoscale")
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
