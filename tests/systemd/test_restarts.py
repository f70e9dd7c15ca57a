"""What starts the service again, what does not, and that nothing is lost over it."""

from __future__ import annotations

import socket
import time

import pytest

from tests.support.runs import RULE, whole
from tests.support.systemd.service import PYTHON, Service


@pytest.mark.slow
def test_a_process_that_hangs_is_told_where_and_started_again(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    process = service.pid
    service.machine.run(f"kill -STOP {process}")
    service.until_restarted()
    assert service.pid != process
    assert "Watchdog timeout" in service.journal
    # the stack of each thread
    assert "Fatal Python error: Aborted" in service.journal
    service.goes_on(heard)


def test_a_killed_service_comes_back_and_nothing_is_lost(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 10, "/result")
    process = service.pid
    service.machine.run(f"kill -KILL {process}")
    service.until_restarted()
    assert service.pid != process
    service.goes_on(heard)


@pytest.mark.slow
def test_a_service_that_ends_again_and_again_is_left_stopped_with_the_reason(service: Service) -> None:
    service.configure()
    # a damaged installation; the unit's own limit of starts, without its pause between them
    service.drop_in("[Service]\nRestartSec=50ms\nInaccessiblePaths=/opt/edge-infer/venv/lib\n")
    assert service.systemctl("start").returncode != 0
    service.until(
        lambda: "Start request repeated too quickly" in service.journal, what="the end of the restarts"
    )
    assert service.show("ActiveState") == "failed"
    assert int(service.show("NRestarts")) == 10
    assert "Start request repeated too quickly" in service.systemctl("status").stdout
    # what each of them said is in the journal, not in the status of a start that was refused
    assert service.journal.count("No module named edge_infer") == 10


@pytest.mark.slow
def test_cameras_that_are_gone_for_ten_watchdog_times_cost_no_restart_and_the_other_station_nothing(
    service: Service,
) -> None:
    with service.machine.network(), socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        cameras = {
            "scene": {"type": "synthetic", "fps": 10},
            "unplugged": {"type": "rtsp", "url": "rtsp://127.0.0.1:9/x"},
            "silent": {"type": "rtsp", "url": f"rtsp://127.0.0.1:{port}/x", "open_timeout_s": 1},
            "usb": {"type": "v4l2", "path": "/dev/video7"},
        }
        stations = {name: {"camera": name, "model": "m", "rules": [RULE]} for name in cameras}
        service.configure(cameras=cameras, stations=stations)
        service.drop_in("[Service]\nWatchdogSec=2\n")
        heard = service.subscribe()
        service.start()
        process = service.pid
        assert service.show("WatchdogUSec") == "2s"
        before = len(heard.messages("scene/result"))
        time.sleep(20.0)  # ten times
        judged = len(heard.messages("scene/result")) - before
        assert (service.pid, service.show("NRestarts")) == (process, "0"), service.journal
        service.stop()
    assert judged > 100
    whole(heard.messages("scene/result"))
    for name in ("unplugged", "silent", "usb"):
        results = [one.json for one in heard.messages(f"{name}/result")]
        assert {one["decision"] for one in results} == {"UNDEFINED"}


def test_the_report_of_a_bug_is_still_there_when_the_process_is_not(service: Service) -> None:
    service.configure()
    part = service.machine.run(f"{PYTHON} -I -c 'import edge_infer.vitals as v; print(v.__file__)'").strip()
    service.drop_in(f"[Service]\nRestart=no\nInaccessiblePaths={part}\n")
    assert service.systemctl("start").returncode != 0
    assert service.show("ExecMainStatus") == "3"
    (report,) = service.machine.run("ls /var/log/edge-infer/*.txt").split()
    assert report in service.journal
    assert "PermissionError" in service.machine.run(f"cat {report}")
