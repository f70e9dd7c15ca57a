"""What systemd hears of the real service, and when its watchdog is right to act."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge_infer import supervision
from edge_infer.mqtt.publisher import Publisher
from edge_infer.sdnotify import Notifier
from edge_infer.supervision import Supervision
from tests.support.fake_systemd import FakeSystemd
from tests.support.http_camera import HttpCamera
from tests.support.mosquitto import Mosquitto
from tests.support.runs import RULE, Subscribe, site, whole
from tests.test_run import broken

ALL = "vision/v1/plant1/l3/ipc7/#"
SOON = """
import edge_infer.camera, edge_infer.engine, edge_infer.mqtt.pump, edge_infer.outbox.writer
edge_infer.engine.REQUEST_S, edge_infer.engine.PATIENCE_S = 2.0, 0.5
edge_infer.camera.HANG_S, edge_infer.camera.PATIENCE_S = 2.0, 0.5
edge_infer.mqtt.pump.HANG_S, edge_infer.mqtt.pump.PATIENCE_S = 2.0, 60.0
edge_infer.outbox.writer.HANG_S, edge_infer.outbox.writer.PATIENCE_S = 2.0, 60.0
"""
"""Limits that a test can wait for."""
TWO: dict[str, Any] = {
    "cameras": {
        "scene": {"type": "synthetic", "fps": 10},
        "side": {"type": "synthetic", "fps": 10, "seed": 2},
    },
    "stations": {
        "cap": {"camera": "scene", "model": "m", "rules": [RULE]},
        "other": {"camera": "side", "model": "m", "rules": [RULE]},
    },
}
SIDE_HANGS = """
import time
from edge_infer.scene import Scene
import edge_infer.sources.synthetic as synthetic
settings_open = synthetic.Synthetic.open
def open_(self, camera, secrets):
    source = settings_open(self, camera, secrets)
    read, count = source.read, 0
    def hang(timeout_s):
        nonlocal count
        count += 1
        if camera == 'side' and count > 10:
            time.sleep(3600)
        return read(timeout_s)
    source.read = hang
    return source
synthetic.Synthetic.open = open_
"""


def kinds(events: list[Any]) -> list[str]:
    return [one.json["kind"] for one in events]


def test_ready_comes_once_each_station_judges_or_has_said_why_not(
    tmp_path: Path, mosquitto: Mosquitto, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, ALL)
    cameras: dict[str, Any] = {
        "scene": {"type": "synthetic", "fps": 10},
        # nobody answers there: it takes a moment until that is known
        "gone": {"type": "rtsp", "url": "rtsp://127.0.0.1:9/x"},
    }
    stations: dict[str, Any] = {
        "cap": {"camera": "scene", "model": "m", "rules": [RULE]},
        "asked": {"camera": "scene", "model": "m", "rules": [RULE], "trigger": {"type": "mqtt"}},
        "other": {"camera": "gone", "model": "m", "rules": [RULE]},
    }
    slow = (
        "import time, edge_infer.sources.rtsp as rtsp\n"
        "before = rtsp.Rtsp.open\n"
        "def open_(*args): time.sleep(2.5); return before(*args)\n"
        "rtsp.Rtsp.open = open_\n"
    )
    path = site(tmp_path / "a", mosquitto, cameras=cameras, stations=stations)
    with FakeSystemd(tmp_path, path, environment=broken(tmp_path / "slow", slow)) as systemd:
        ready = systemd.ready()
        heard.wait(lambda got: len(got) >= 1, "other/result")
        opened = next(word.at for word in systemd.heard("STATUS") if "waits for" in word.fields["STATUS"])
        assert ready.at - opened > 1
        assert any("waits for the first frame of other (camera gone)" in one for one in systemd.statuses)
        assert not any("waits for the first frame of cap" in one for one in systemd.statuses[-1:])
        assert "2 of 3 stations judge; other UNDEFINED: " in ready.fields["STATUS"]
        assert systemd.running.stop() == 0
        systemd.wait(lambda: systemd.heard("STOPPING"))


def test_a_camera_that_neither_gives_a_frame_nor_is_lost_delays_the_start_for_a_while_only(
    tmp_path: Path, mosquitto: Mosquitto, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, ALL)
    # its first frame comes after a hundred seconds
    cameras = {"scene": {"type": "synthetic", "fps": 0.01, "max_age_s": 200}}
    short = "import edge_infer.supervision as supervision\nsupervision.FIRST_FRAME_S = 1.0\n"
    path = site(tmp_path / "a", mosquitto, cameras=cameras)
    with FakeSystemd(tmp_path, path, environment=broken(tmp_path / "short", short)) as systemd:
        why = "camera scene gave no frame within 1 s of the start"
        assert f"cap UNDEFINED: {why}" in systemd.ready().fields["STATUS"]
        heard.wait(lambda got: len(got) == 1, "cap/result")
        (reason,) = heard.messages("cap/result")[0].json["reasons"]
        assert reason == {"code": "camera_lost", "text": why}


def test_a_model_that_cannot_run_is_a_reason_and_no_obstacle(tmp_path: Path, mosquitto: Mosquitto) -> None:
    path = site(
        tmp_path / "a",
        mosquitto,
        models={"m": {"path": "bad.onnx"}},
        stations={"cap": {"camera": "scene", "model": "m", "rules": [RULE]}},
    )
    (tmp_path / "a/bad.onnx").write_bytes(b"no network")
    with FakeSystemd(tmp_path, path) as systemd:
        assert "0 of 1 stations judge; cap UNDEFINED: " in systemd.ready().fields["STATUS"]


def test_more_time_is_asked_for_while_a_model_is_compiled_but_not_for_ever(tmp_path: Path) -> None:
    slow = (
        "import time, edge_infer.network, edge_infer.supervision as supervision\n"
        "supervision.EXTEND_S, supervision.LOADING_S, supervision.LOADING_PATIENCE_S = 0.9, 1.0, 1.0\n"
        "def load(*_): time.sleep(60)\n"
        "edge_infer.network.Network.open = load\n"
    )
    with FakeSystemd(
        tmp_path, site(tmp_path / "a", None), environment=broken(tmp_path / "slow", slow)
    ) as systemd:
        systemd.wait(lambda: "loading of a model HANGS" in "".join(systemd.statuses))
        assert any("starting: model m is loaded" in one for one in systemd.statuses)
        asked = systemd.heard("EXTEND_TIMEOUT_USEC")
        assert {word.fields["EXTEND_TIMEOUT_USEC"] for word in asked} == {"900000"}
        assert len(asked) >= 3
        time.sleep(1.5)
        asked = systemd.heard("EXTEND_TIMEOUT_USEC")
        time.sleep(1.0)
        assert systemd.heard("EXTEND_TIMEOUT_USEC") == asked
        assert not systemd.heard("READY")


def test_an_unplugged_camera_a_trigger_that_never_comes_and_a_pause_are_no_hang(
    tmp_path: Path, mosquitto: Mosquitto, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, ALL)
    with HttpCamera() as camera:
        cameras: dict[str, Any] = {
            "scene": {"type": "synthetic", "fps": 10},
            "plugged": {"type": "http", "url": camera.url()},
        }
        stations: dict[str, Any] = {
            "cap": {"camera": "scene", "model": "m", "rules": [RULE]},
            "other": {"camera": "plugged", "model": "m", "rules": [RULE]},
            # their engine has one frame to judge, then it waits
            "asked": {"camera": "scene", "model": "waits", "rules": [RULE], "trigger": {"type": "mqtt"}},
            "seldom": {
                "camera": "scene", "model": "waits", "rules": [RULE],
                "trigger": {"type": "every", "every_s": 900},
            },
        }  # fmt: skip
        models: dict[str, Any] = {"m": {"path": "model"}, "waits": {"path": "model"}}
        path = site(tmp_path / "a", mosquitto, cameras=cameras, stations=stations, models=models)
        with FakeSystemd(
            tmp_path, path, watchdog_s=0.6, environment=broken(tmp_path / "soon", SOON)
        ) as systemd:
            systemd.ready()
            heard.wait(lambda got: len(got) > 3, "other/result")
            camera.kill()
            unplugged_s = time.monotonic()
            systemd.wait(lambda: "other UNDEFINED" in systemd.statuses[-1])
            before = len(heard.messages("cap/result"))
            time.sleep(10 * systemd.watchdog_s)
            assert systemd.longest_silence_s(unplugged_s) < 2 * systemd.watchdog_s
            heard.wait(lambda got: len(got) > before + 40, "cap/result")
            camera.start()
            systemd.wait(lambda: "4 of 4 stations judge" in systemd.statuses[-1])
            # longer than any limit
            systemd.running.process.send_signal(signal.SIGSTOP)
            time.sleep(3.0)
            systemd.running.process.send_signal(signal.SIGCONT)
            went_on_s = time.monotonic()
            systemd.wait(lambda: systemd.heard("WATCHDOG")[-1].at > went_on_s + 2)
            assert systemd.running.stop() == 0
            log = systemd.running.log
    assert "does not come on" not in log
    assert not {"loop_hangs", "loop_resumed"} & {*kinds(heard.messages("/event"))}
    numbers = whole([one for one in heard.messages("/result") if one.json["station"] == "cap"])
    assert len(numbers) == 1


def test_a_runtime_that_never_returns_is_told_then_restarted_and_nothing_of_the_other_station_is_lost(
    tmp_path: Path, mosquitto: Mosquitto, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, ALL)
    once = tmp_path / "hung"
    hangs = f"""
import pathlib, time, edge_infer.network
once, look, seen = pathlib.Path({str(once)!r}), edge_infer.network.Network.look, 0
def hang(self, *args, **more):
    global seen
    seen += 'bad' in str(self.card.network)
    if seen > 20 and not once.exists():
        once.touch()
        time.sleep(3600)
    return look(self, *args, **more)
edge_infer.network.Network.look = hang
"""
    stations: dict[str, Any] = {
        "cap": {"camera": "scene", "model": "m", "rules": [RULE]},
        "other": {"camera": "scene", "model": "bad", "rules": [RULE]},
    }
    models: dict[str, Any] = {"m": {"path": "model"}, "bad": {"path": "bad"}}
    path = site(tmp_path / "a", mosquitto, stations=stations, models=models)
    (tmp_path / "a/model").rename(tmp_path / "a/bad")
    path = site(tmp_path / "a", mosquitto, stations=stations, models=models)
    with FakeSystemd(
        tmp_path, path, acts=True, environment=broken(tmp_path / "soon", SOON + hangs)
    ) as systemd:
        systemd.wait(lambda: systemd.restarts, 60)
        assert any(one.startswith("model bad (request ") and "HANGS" in one for one in systemd.statuses)
        (event,) = (one.json for one in heard.messages("/event") if b"loop_hangs" in one.payload)
        assert event["data"]["restart"] is True
        # meanwhile it was said of each frame that nobody judged it
        late = [one.json for one in heard.messages("other/result") if one.json["decision"] == "UNDEFINED"]
        assert any(one["reasons"][0]["code"] == "deadline" for one in late)
        before = len(heard.messages("other/result"))
        heard.wait(lambda got: len(got) > before + 10, "other/result")
        assert systemd.restarts == 1
        assert systemd.running.stop() == 0
        assert "watchdog is not fed any more" in systemd.running.log
    assert len(whole(heard.messages("cap/result"))) == 1


def test_a_driver_that_never_returns_costs_its_own_stations_only(
    tmp_path: Path, mosquitto: Mosquitto, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, ALL)
    path = site(tmp_path / "a", mosquitto, **TWO)
    with FakeSystemd(tmp_path, path, environment=broken(tmp_path / "soon", SOON + SIDE_HANGS)) as systemd:
        began_s = systemd.ready().at
        systemd.wait(lambda: "camera side HANGS" in systemd.statuses[-1])
        assert (
            "1 of 2 stations judge; other UNDEFINED: camera side: its driver does not come back"
            in (systemd.statuses[-1])
        )
        heard.wait(lambda got: got[-1].json["decision"] == "UNDEFINED", "other/result")
        assert heard.messages("other/result")[-1].json["reasons"][0]["code"] == "stale"
        before = len(heard.messages("cap/result"))
        time.sleep(2.0)
        heard.wait(lambda got: len(got) > before + 10, "cap/result")
        assert systemd.longest_silence_s(began_s) < 2 * systemd.watchdog_s
        assert kinds(heard.messages("/event")).count("loop_hangs") == 1


def test_where_no_camera_comes_on_a_restart_may_help(tmp_path: Path, mosquitto: Mosquitto) -> None:
    only: dict[str, Any] = {
        "cameras": {"side": {"type": "synthetic", "fps": 10}},
        "stations": {"cap": {"camera": "side", "model": "m", "rules": [RULE]}},
    }
    path = site(tmp_path / "a", mosquitto, **only)
    environment = broken(tmp_path / "soon", SOON + SIDE_HANGS)
    with FakeSystemd(tmp_path, path, acts=True, environment=environment) as systemd:
        systemd.wait(lambda: systemd.restarts)


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[socket.socket]:
    """systemd's socket, full."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        filler = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        while filler.send(STATUS="full"):
            pass
        yield sock


def heard_now(sock: socket.socket) -> list[bytes]:
    """All that waits there."""
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(sock.recv(4096))
    return found


def test_ready_and_the_watchdogs_food_are_said_again_until_systemd_took_them(
    tmp_path: Path, deaf: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "LOOK_S", 0.0)
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1200000000"})
    publisher = cast(Publisher, SimpleNamespace(connected=True))
    one = Supervision(notifier, publisher, stations={}, cameras={}, loops=list)
    one.opened()
    for _ in range(3):
        one.look()
    heard_now(deaf)
    one.look()
    words = heard_now(deaf)
    assert b"READY=1" in words
    assert b"WATCHDOG=1" in words
    one.look()
    assert heard_now(deaf) == [], "and then no more"


HANGING_DISK = """
import time, edge_infer.evidence.folder, edge_infer.evidence.writer
edge_infer.evidence.writer.LOOP_S = 1.0
def hang(*_): time.sleep(3600)
edge_infer.evidence.folder.Folder.write = hang
"""
HANGING_STATE = """
import time, edge_infer.outbox.writer
def hang(*_): time.sleep(3600)
edge_infer.outbox.writer.Writer._write = hang
"""
HANGING_NAMES = """
import socket, time
def hang(*_, **__): time.sleep(3600)
socket.getaddrinfo = hang
"""


@pytest.mark.parametrize(
    ("what", "code", "restart"),
    [
        ("pictures' disk", HANGING_DISK, False),
        ("outbox (the state disk)", HANGING_STATE, True),
        ("connection to the broker", HANGING_NAMES, True),
    ],
    ids=["pictures", "state", "names"],
)
def test_disks_and_a_name_server_that_hang_are_told_and_cost_no_restart_soon(
    tmp_path: Path, mosquitto: Mosquitto, what: str, code: str, *, restart: bool
) -> None:
    path = site(tmp_path / "a", mosquitto, evidence={"max_bytes": "10MB", "min_free_bytes": 0, "ok_every": 1})
    with FakeSystemd(tmp_path, path, environment=broken(tmp_path / "soon", SOON + code)) as systemd:
        began_s = systemd.ready().at
        systemd.wait(lambda: f"{what} HANGS" in systemd.statuses[-1])
        time.sleep(2.0)
        assert systemd.longest_silence_s(began_s) < 2 * systemd.watchdog_s
        assert "1 of 1 stations judge" in systemd.statuses[-1]
        assert ("the others go on" in systemd.running.log) is not restart
        assert systemd.running.stop() == 0
