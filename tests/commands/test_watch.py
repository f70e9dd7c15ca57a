from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edge_infer.client import Broker, Subscriber
from edge_infer.commands.watch import _Watcher
from tests.support.foreign_publisher import foreign_publisher
from tests.support.mosquitto import PASSWORD, Mosquitto, free_port
from tests.support.publishers import device
from tests.support.results import result
from tests.support.site_broker import SiteBroker
from tests.support.sites import write_model

PREFIX = "vision/v1/plant1/l3/ipc7"
SITE = """\
format: 1
site: plant1
line: l3
device: ipc7
mqtt: {mqtt}
cameras:
  top: {{type: synthetic}}
models:
  seals: {{path: seals, backend: {{type: onnxruntime}}}}
stations:
  cap: {{camera: top, model: seals, rules: [{{name: cap, count: {{labels: [bottle], at_least: 1}}}}]}}
"""


class Watching:
    """The command as a process of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edge_infer", "watch", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment},
        )  # fmt: skip

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out.decode(), err.decode()


def write_site(folder: Path, **mqtt: Any) -> Path:
    write_model(folder / "seals")
    path = folder / "site.yaml"
    path.write_text(SITE.format(mqtt=json.dumps(mqtt)))
    return path


@contextmanager
def watching(broker: Mosquitto, folder: Path, *arguments: str) -> Iterator[Watching]:
    """With a site's YAML; the broker knows that it listens."""
    settings = {
        "host": broker.host,
        "port": broker.port,
        "user": broker.user,
        "password": {"env": "PASSWORD"},
    }
    one = Watching(str(write_site(folder, **settings)), *arguments, PASSWORD=PASSWORD)
    try:
        until(lambda: "Sending SUBACK" in broker.log)
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def until(done: Callable[[], bool], timeout_s: float = 15) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def lines(watcher: Watching, last: str) -> list[str]:
    """Up to the line that holds that text."""
    assert watcher.process.stdout is not None
    shown: list[str] = []
    while True:
        line = watcher.process.stdout.readline().decode()
        assert line, shown
        shown.append(line.rstrip("\n"))
        if last in line:
            return shown


def test_results_gaps_events_and_the_state_of_the_device_are_shown(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with watching(mosquitto, tmp_path) as watcher, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        foreign.result(1, partId="P1")
        foreign.result(2, decision="NOK")
        foreign.result(2, decision="NOK")
        foreign.result(5, decision="UNDEFINED")
        foreign.gap((3, 4))
        foreign.event("line_stop", {"decision": "NOK"}, "cap")
        foreign.result(6, schema="result/2")
        foreign.status("offline")
        shown = lines(watcher, "the device is offline")
        code, rest, errors = watcher.end()
    assert (code, errors) == (0, "")
    texts = [" ".join(line.split()[1:]) for line in shown]
    assert texts[0] == "l3/ipc7 -- the device is online"
    assert texts[1].startswith("ipc7/cap 1 P1 OK all rules hold")
    assert texts[1].endswith(" ms")
    assert texts[2].startswith("ipc7/cap 2 - NOK enough (3 seen)")
    assert texts[3].startswith("ipc7/cap 5 - UNDEFINED settling")
    assert texts[4] == "ipc7/cap -- the device gave up results 3 to 4 (full)"
    assert texts[5] == 'l3/ipc7 -- line_stop {"decision": "NOK"}'
    assert "schema result/2 is newer" in texts[6]
    assert len(texts) == 8
    assert rest.splitlines()[-1] == (
        "3 results: 1 OK, 1 NOK, 1 UNDEFINED; 1 repetitions dropped, 2 given up, 0 missing"
    )


def test_json_is_one_object_a_message_and_a_summary(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with watching(mosquitto, tmp_path, "--json") as watcher, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        foreign.result(1)
        foreign.gap((2, 3))
        foreign.event("x", {})
        foreign.say("cap/result", "no JSON")
        shown = lines(watcher, "unreadable")
        code, rest, errors = watcher.end(signal.SIGTERM)
    assert (code, errors) == (0, "")
    told = [json.loads(line) for line in (*shown, *rest.splitlines())]
    assert [one["type"] for one in told] == ["status", "result", "gap", "event", "unreadable", "summary"]
    assert told[1]["topic"] == f"{PREFIX}/cap/result"
    assert told[1]["result"]["seq"] == 1
    assert told[2]["gap"]["ranges"] == [{"fromSeq": 2, "toSeq": 3}]
    assert told[5] == {
        "type": "summary", "results": 1, "ok": 1, "nok": 0, "undefined": 0, "duplicates": 0, "givenUp": 2,
        "missing": 0,
    }  # fmt: skip


def test_a_missing_number_is_told_and_makes_the_exit_one(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with watching(mosquitto, tmp_path) as watcher, foreign_publisher(mosquitto) as foreign:
        foreign.result(7)
        foreign.result(9)
        foreign.result(12)
        shown = lines(watcher, "results 10 to 11 did not come yet")
        assert "ipc7/cap" in shown[-1]
        code, rest, errors = watcher.end()
    assert code == 1
    assert rest.splitlines()[-1].endswith("0 given up, 3 missing")
    assert errors == (
        "missing: ipc7/cap result 8, ipc7/cap results 10 to 11; "
        "they are late or were lost at a broker; docs/subscribers.md says how to tell\n"
    )


def test_a_result_from_an_outage_says_so(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with watching(mosquitto, tmp_path) as watcher, foreign_publisher(mosquitto) as foreign:
        raw = json.loads(result("cap").model_copy(update={"seq": 1, "stream_id": "s"}).as_json())
        raw["capturedAt"] = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
        foreign.say("cap/result", raw, delayed="true")
        assert "90 s, sent after an outage" in lines(watcher, "ipc7/cap")[0]
        assert watcher.end()[0] == 0


def test_only_the_stations_that_were_asked_for(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        # with --prefix it may be a device with other stations than CONFIG's
        watching(mosquitto, tmp_path, "--station", "label", "--prefix", PREFIX, "--json") as watcher,
        foreign_publisher(mosquitto) as foreign,
    ):
        foreign.result(1, station="cap")
        foreign.result(1, "s2", station="label")
        assert json.loads(lines(watcher, "label")[0])["result"]["station"] == "label"
        assert watcher.end()[0] == 0


def test_a_station_that_the_configuration_does_not_have_is_said_at_once(tmp_path: Path) -> None:
    watcher = Watching(str(write_site(tmp_path, host="127.0.0.1", port=free_port())), "--station", "cpa")
    out, err = watcher.process.communicate(timeout=20)
    assert (watcher.process.returncode, out) == (1, b"")
    assert err.decode().endswith('site.yaml has no station cpa; did you mean "cap"?\n')


def test_what_a_stranger_wrote_does_not_command_the_terminal(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with watching(mosquitto, tmp_path) as watcher, foreign_publisher(mosquitto) as foreign:
        foreign.result(1, partId="\x1b[2J\x07", rules=[{"decision": "NOK", "name": "\x1b]0;x"}, 7])
        foreign.event("\x1b[2J", {"x": "\x1b"})
        shown = "".join(lines(watcher, "-- "))
        assert watcher.end()[0] == 0
    assert "\x07" not in shown
    # the colour of the decision is ours
    assert "\x1b" not in shown.replace("\x1b[32m", "").replace("\x1b[0m", "")


def test_all_devices_of_a_broker_without_a_configuration(mosquitto: Mosquitto, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{mosquitto.password}\n")
    watcher = Watching(
        "--host", mosquitto.host, "--port", str(mosquitto.port), "--user", mosquitto.user,
        "--password-file", str(tmp_path / "password"), "--seconds", "4", "--json", "--protocol", "3.1.1",
    )  # fmt: skip
    until(lambda: "Sending SUBACK" in mosquitto.log)
    with device(mosquitto, tmp_path / "outbox") as one:
        one.put(result())
        out, err = watcher.process.communicate(timeout=20)
    assert (watcher.process.returncode, err) == (0, b"")
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["status", "result", "summary"]


def test_ctrl_c_in_a_terminal_ends_it_with_its_summary(mosquitto: Mosquitto, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(mosquitto.password)
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [
            sys.executable, "-m", "edge_infer", "watch", "--host", mosquitto.host, "--port",
            str(mosquitto.port), "--user", mosquitto.user, "--password-file", str(tmp_path / "password"),
        ])  # fmt: skip
    until(lambda: "Sending SUBACK" in mosquitto.log)
    with foreign_publisher(mosquitto) as foreign:
        foreign.result(1, partId="P1")
        shown, interrupted = b"", False
        while True:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                # Linux says so when the other end has gone
                break
            if b" ms" in shown and not interrupted:
                interrupted = True
                os.write(terminal, b"\x03")
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"\x1b[32mOK" in shown
    assert b"1 results: 1 OK" in shown
    assert b"Traceback" not in shown


def test_what_was_shown_last_is_in_the_summary(
    mosquitto: Mosquitto, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Broker(mosquitto.host, mosquitto.port, user=mosquitto.user, password=mosquitto.password)
    with Subscriber(reader, PREFIX, keep_s=0) as subscriber, foreign_publisher(mosquitto) as foreign:
        until(lambda: subscriber.connected)
        foreign.result(1)
        watcher, shown = _Watcher(subscriber, as_json=False), ""
        while "ipc7/cap" not in shown:
            watcher.step()
            shown += capsys.readouterr().out
        watcher.summary()
    assert "1 results: 1 OK" in capsys.readouterr().out


def test_a_broker_that_is_away_to_the_end_is_said_and_makes_the_exit_one() -> None:
    # else a test of a delivery would be passed by a wrong address
    watcher = Watching("--host", "127.0.0.1", "--port", str(free_port()), "--seconds", "1.5")
    out, err = watcher.process.communicate(timeout=20)
    assert watcher.process.returncode == 1
    assert b"0 results" in out
    assert err.splitlines()[-1] == (
        b"ended without a connection to the broker (no connection: Connection refused); "
        b"what was published meanwhile was not seen"
    )


def test_a_broker_where_no_device_says_anything_makes_the_exit_one(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with watching(mosquitto, tmp_path, "--seconds", "1.5") as watcher:
        out, err = watcher.process.communicate(timeout=20)
        assert watcher.process.returncode == 1
    assert b"0 results" in out
    assert err.splitlines()[-1].startswith(b"nothing came, not even the status of a device; is a device")


def test_the_certificate_of_the_device_itself_is_not_used(tmp_path: Path) -> None:
    broker = SiteBroker(tmp_path / "broker")
    for role, name in (("device", "ipc7"), ("reader", "mes")):
        broker.make(role, name)
    tls = broker.files("ipc7")
    site = write_site(tmp_path, host=broker.host, port=broker.port, tls=tls)
    with broker:
        refused = Watching(str(site))
        out, err = refused.process.communicate(timeout=20)
        assert (refused.process.returncode, out) == (1, b"")
        assert b"would throw the running service out; watch as a reader: --cert and --key" in err
        mes = broker.files("mes")
        with device(broker, tmp_path / "outbox", tls=tls) as one:
            one.connected()
            watcher = Watching(str(site), "--cert", mes["cert"], "--key", mes["key"])
            lines(watcher, "the device is online")
            one.put(result())
            lines(watcher, "ipc7/cap")
            assert watcher.end()[0] == 0
            assert one.publisher.stats.connections == 1


def test_a_reader_that_is_thrown_out_ends_and_says_how_to_be_another(tmp_path: Path) -> None:
    broker = SiteBroker(tmp_path / "broker")
    broker.make("reader", "mes")
    mes = broker.files("mes")
    arguments = ["--host", broker.host, "--port", str(broker.port), "--ca", mes["ca"], "--cert", mes["cert"],
                 "--key", mes["key"]]  # fmt: skip
    with broker:
        both = [Watching(*arguments) for _ in range(2)]
        until(lambda: any(one.process.poll() is not None for one in both), 40)
        ended = next(one for one in both if one.process.poll() is not None)
        _, err = ended.process.communicate()
        assert ended.process.returncode == 1
        assert b"watch as a reader of its own" in err
        for one in both:
            if one is not ended:
                one.process.kill()
                one.process.communicate()


def test_a_reader_that_was_revoked_is_told_what_to_look_for(tmp_path: Path) -> None:
    broker = SiteBroker(tmp_path / "broker")
    broker.make("reader", "mes")
    files = {key: tmp_path / Path(file).name for key, file in broker.files("mes").items()}
    for key, file in broker.files("mes").items():
        files[key].write_bytes(Path(file).read_bytes())
    broker.make("revoke", "mes")
    with broker:
        watcher = Watching(
            "--host", broker.host, "--port", str(broker.port), "--ca", str(files["ca"]),
            "--cert", str(files["cert"]), "--key", str(files["key"]), "--seconds", "3",
        )  # fmt: skip
        _, err = watcher.process.communicate(timeout=20)
    assert watcher.process.returncode == 1
    assert b"closed the connection without a word; was our certificate revoked" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a site's YAML, or --host"),
        (["--host", "h", "--cert", "c"], "--cert and --key belong together"),
    ],
)
def test_a_wrong_command_line_is_exit_two(arguments: list[str], said: str) -> None:
    watcher = Watching(*arguments)
    _, err = watcher.process.communicate(timeout=20)
    assert watcher.process.returncode == 2
    assert said in err.decode()
