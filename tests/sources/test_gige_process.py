"""Industrial cameras and the process: its end, its rights, its memory."""

from __future__ import annotations

import time

import pytest

from tests.support.gige_camera import GigeCamera
from tests.support.gige_source import OTHER, camera, other, python

__all__ = ["camera", "other"]


@pytest.mark.parametrize("ending", ["sys.exit(0)", "source.close(); sys.exit(0)"])
@pytest.mark.usefixtures("other")
def test_a_process_may_end_in_the_middle_of_pictures(ending: str) -> None:
    process = python(f"source = open_it(address={OTHER!r}, frame_rate=100); source.read(5); {ending}")
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0


def test_a_process_may_end_while_a_dead_camera_is_let_go(other: GigeCamera) -> None:
    process = python(
        f"source = open_it(address={OTHER!r}, read_timeout_s=0.5); source.read(5); print('up', flush=True)\n"
        "try:\n    while True: source.read(5)\n"
        "except Exception as error: print(type(error).__name__)\nsource.close()"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    other.kill()
    started_s = time.monotonic()
    assert process.communicate(timeout=20) == ("SourceError\n", "")
    assert process.returncode == 0
    assert time.monotonic() - started_s < 5


UNPRIVILEGED = ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw")


@pytest.mark.usefixtures("camera")
def test_it_works_without_the_right_to_raw_sockets() -> None:
    code = (
        "source = open_it(frame_rate=50)\nfor _ in range(20): print(source.read(5).damaged)\nsource.close()"
    )
    out, err = python(code, *UNPRIVILEGED).communicate(timeout=30)
    assert (set(out.split()), err) == ({"None"}, "")


@pytest.mark.usefixtures("camera")
def test_where_the_kernel_drops_packets_the_log_says_what_to_do() -> None:
    """The socket's buffer holds a twentieth of a picture."""
    code = (
        "source = open_it(width=2048, height=2048, frame_rate=20, packet_size=1400, socket_buffer=65536)\n"
        "while not source.read(5).damaged: pass\nsource.close()"
    )
    _, err = python(code, *UNPRIVILEGED).communicate(timeout=30)
    assert "a picture is damaged" in err
    assert "give the service CAP_NET_RAW (AmbientCapabilities=CAP_NET_RAW)" in err


LEAKS = """
import gc
import psutil

def some(times):
    for _ in range(times):
        source = open_it(frame_rate=200, width=640, height=480)
        source.read(5.0)
        source.close()
    gc.collect()
    process = psutil.Process()
    return process.memory_info().rss, process.num_fds(), process.num_threads()

print(*some(4), *some(30))
"""


@pytest.mark.usefixtures("camera")
def test_thirty_times_open_and_close_leak_nothing() -> None:
    """In a process of its own: in this one other tests' memory comes and goes."""
    process = python(LEAKS)
    out, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    rss, handles, threads, rss_later, handles_later, threads_later = map(int, out.split())
    assert handles_later <= handles
    assert threads_later <= threads
    # eight buffers of 0.3 MB each time would be 74 MB
    assert rss_later - rss < 8e6
