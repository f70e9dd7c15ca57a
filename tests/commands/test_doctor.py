"""``edge-infer doctor``: what scripts and people get of it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.runs import site

KEYS = ["check", "status", "found", "mend"]


def doctor(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_infer", "doctor", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False, cwd=cwd,
    )  # fmt: skip


def test_each_finding_is_an_object_with_the_promised_keys(tmp_path: Path, mosquitto: Mosquitto) -> None:
    done = doctor(site(tmp_path / "site", mosquitto), "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(one) == KEYS for one in found)
    assert {one["status"] for one in found} <= {"ok", "warn", "fail"}
    assert all(one["mend"] for one in found if one["status"] != "ok")
    assert all(isinstance(value, str) for one in found for value in one.values())
    names = [one["check"] for one in found]
    assert len(names) == len(set(names))
    assert {"cpu", "config", "runtimes.openvino", "cameras.scene", "mqtt.publish", "disk.state"} <= set(names)
    assert done.returncode == int(any(one["status"] == "fail" for one in found))
    assert [one for one in found if one["status"] == "fail"] == []
    assert not (tmp_path / "site/state").exists()


def test_exit_1_where_something_fails_which_it_names(tmp_path: Path) -> None:
    # nobody listens at port 9
    done = doctor(site(tmp_path / "site", None))
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert "mqtt" in line
    assert "1 failed" in done.stdout
    assert "correct horse" not in done.stdout + done.stderr


def test_exit_78_where_the_configuration_is_wrong_and_the_rest_is_told_all_the_same(tmp_path: Path) -> None:
    config = site(tmp_path / "site", None, camera={"typo": 1})
    done = doctor(config, "--json")
    found = {one["check"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 78
    assert f"{config}:" in found["config"]["found"]
    assert found["config"]["status"] == "fail"
    assert {"cpu", "runtimes.onnxruntime", "disk.state", "clock", "memory"} <= set(found)


def test_a_file_that_is_not_there_is_exit_78(tmp_path: Path) -> None:
    done = doctor(tmp_path / "absent.yaml", "--json")
    assert done.returncode == 78
    assert "absent.yaml" in done.stdout


def test_without_a_configuration_it_tells_of_the_machine_and_ends_with_0() -> None:
    done = doctor()
    assert done.returncode == 0, done.stdout
    assert "0 failed" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_terminal_gets_colours_and_columns() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "edge_infer", "doctor"], stdout=theirs, stderr=theirs, stdin=theirs,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    try:
        while block := os.read(ours, 4096):
            text += block
    except OSError:
        # the other end is closed
        pass
    process.wait(30)
    os.close(ours)
    assert b"\x1b[32mok" in text


@pytest.mark.slow
def test_it_ends_within_fifteen_seconds_when_everything_hangs(tmp_path: Path, mosquitto: Mosquitto) -> None:
    programs, packages = tmp_path / "programs", tmp_path / "packages"
    for name in ("onnxruntime", "openvino", "av"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("import signal\nwhile True: signal.pause()\n")
    programs.mkdir()
    for name in ("systemctl", "timedatectl"):
        (programs / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (programs / name).chmod(0o755)
    net = {"type": "rtsp", "url": "rtsp://127.0.0.1:9/s"}
    config = site(tmp_path / "site", mosquitto, cameras={"scene": net})
    mosquitto.freeze()
    began_s = time.monotonic()
    booted = 'mount -t tmpfs x /run && mkdir -p /run/systemd/system && exec "$@"'
    done = subprocess.run(
        # a machine with systemd
        ["unshare", "--mount", "sh", "-c", booted, "sh",
         sys.executable, "-m", "edge_infer", "doctor", str(config), "--json"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(packages), "PATH": f"{programs}:{os.environ['PATH']}"},
    )  # fmt: skip
    took_s = time.monotonic() - began_s
    mosquitto.thaw()
    found = {one["check"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert took_s < 15
    assert done.returncode == 1
    for name in ("runtimes.onnxruntime", "runtimes.openvino", "cameras.scene", "mqtt"):
        assert found[name]["status"] != "ok"
    assert "hangs" in found["runtimes.openvino"]["found"]
    assert "does not answer" in found["unit"]["found"]
    assert {"cpu", "disk.state", "heat", "memory", "limits"} <= set(found)
