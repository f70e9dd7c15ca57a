from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import psutil

from edge_infer.result import json_schema

DEMO = [sys.executable, "-m", "edge_infer", "demo"]


def test_the_demo_ends_by_itself_and_agrees_with_the_scene() -> None:
    done = subprocess.run([*DEMO, "--seconds", "12"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    header, columns, *parts, empty, summary = done.stdout.splitlines()
    assert header.startswith("broker on 127.0.0.1:")
    assert columns.split()[:4] == ["part", "decision", "why", "latency"]
    assert empty == ""
    assert len(parts) >= 5
    assert all(part.startswith("P0000") and " ms  " in part for part in parts)
    assert summary.startswith(f"{len(parts)} parts: ")
    assert sum("DIFFERS" in part for part in parts) <= 1


def test_json_is_the_results_as_published_and_a_summary() -> None:
    done = subprocess.run(
        [*DEMO, "--seconds", "8", "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    *results, summary = (json.loads(line) for line in done.stdout.splitlines())
    validator = jsonschema.Draft202012Validator(json_schema())
    for result in results:
        validator.validate(result)
        assert result["isSimulated"]
    assert summary["summary"]["parts"] == len(results)
    assert set(summary["summary"]) == {"parts", "agreed", "ok", "nok", "undefined"}


def test_ctrl_c_ends_it_with_its_summary_and_leaves_no_broker_behind() -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, DEMO)
    shown = b""
    brokers: list[psutil.Process] = []
    interrupted = 0.0
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            # Linux says so when the other end has gone
            break
        if b"P000002" in shown and not interrupted:
            brokers = psutil.Process(process).children()
            interrupted = time.monotonic()
            os.write(terminal, b"\x03")
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert time.monotonic() - interrupted < 5
    assert b"decisions agreed" in shown
    assert b"Traceback" not in shown
    assert len(brokers) == 1
    assert not any(broker.is_running() for broker in brokers)


def test_a_killed_demo_leaves_no_broker_behind() -> None:
    with subprocess.Popen([*DEMO, "--seconds", "60"], stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        brokers = psutil.Process(demo.pid).children()
        demo.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(brokers, timeout=5)
    assert (len(gone), alive) == (1, [])


def test_without_its_broker_the_demo_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "iotcore.py").write_text("raise ImportError('not installed')\n")
    done = subprocess.run(
        DEMO, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'edge-infer[demo]'" in done.stderr
