"""A camera's and the broker's password, marked, and everything that the running service leaves behind."""

from __future__ import annotations

import base64
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.support.http_camera import HttpCamera
from tests.support.mosquitto import Mosquitto
from tests.support.rtsp_camera import RtspCamera
from tests.support.running import Running
from tests.support.runs import RULE, Run, Subscribe, site
from tests.test_run import broken

MARK = "zq9Marked7f"
PASSWORD = f"a#@%/?: {MARK}"
BASIC = base64.b64encode(f"u:{PASSWORD}".encode()).decode()
IN_PROCESSES = "import edge_infer.sources.rtsp as rtsp\nrtsp.Rtsp.isolated = True\n"
BUG = (
    "import edge_infer.delivery\n"
    "def publish(*_): raise ZeroDivisionError('boom')\n"
    "edge_infer.delivery.Delivery.publish = publish\n"
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path / "broker", users={"edge-infer": f"{MARK}-broker"}) as one:
        one.user, one.password = "edge-infer", f"{MARK}-broker"
        yield one


def write(
    folder: Path, broker: Mosquitto, addresses: dict[str, str], pipelines: dict[str, str] | None = None
) -> Path:
    """A camera for each thing that can go wrong with a password; all have the same."""
    cameras: dict[str, Any] = {
        name: {
            "type": url.partition(":")[0], "url": url, "user": "u", "password": {"env": "CAMERA_PASSWORD"},
            "open_timeout_s": 1.0, "read_timeout_s": 1.0,
        }
        for name, url in addresses.items()
    } | {
        name: {"type": "gstreamer", "pipeline": pipeline, "width": 64, "height": 48}
        for name, pipeline in (pipelines or {}).items()
    }  # fmt: skip
    stations = {name: {"camera": name, "model": "m", "rules": [RULE]} for name in cameras}
    evidence = {"min_free_bytes": 0, "ok_every": 1, "publish": ["drawn"]}
    commands = {"allow": ["get_status", "ping"]}
    path = site(folder, broker, cameras=cameras, stations=stations, evidence=evidence, commands=commands)
    (folder / "password").write_text(broker.password)
    return path


def processes(running: Running) -> list[psutil.Process]:
    service = psutil.Process(running.process.pid)
    return [service, *service.children(recursive=True)]


def shown(running: Running, but: str | None = None) -> str:
    """What every user of this machine sees of the service's processes, and its user of its children.

    ``but``: a pipeline whose own words hold a secret; whoever writes it there is told that all see it.
    """
    texts = []
    for one in processes(running):
        with suppress(psutil.NoSuchProcess):
            words = " ".join(one.cmdline())
            if but is None or but not in words:
                texts.append(words)
            if one.pid != running.process.pid:
                texts.append(str(one.environ()))
    return "\n".join(texts)


def left_behind(folder: Path) -> dict[str, str]:
    """All files below the folder, but for the one that holds the password."""
    return {
        str(path): path.read_bytes().decode(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("password", "passwords", "mosquitto.conf")
    }


def as_written(path: Path) -> bool:
    """The user's own file, or what is kept of it, which nobody else may read."""
    kept = path.parent.name == "configurations" and path.parent.stat().st_mode & 0o077 == 0
    return path.name == "site.yaml" or (kept and path.suffix == ".yaml")


def holds(text: str) -> bool:
    return MARK in text or BASIC in text or BASIC[8:24] in text


@pytest.mark.parametrize("where", ["thread", "process"])
def test_no_password_is_in_a_log_a_message_a_file_or_the_process_list(
    tmp_path: Path, broker: Mosquitto, run: Run, subscribe: Subscribe, where: str
) -> None:
    environment = broken(tmp_path / "known", IN_PROCESSES if where == "process" else "")
    with (
        RtspCamera(user="u", password=PASSWORD) as good,
        RtspCamera(user="u", password="another") as wrong,
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        addresses = {
            "good": good.url,
            "wrong": wrong.url,
            "absent": f"{good.url}-absent",
            "silent": f"rtsp://127.0.0.1:{silent.getsockname()[1]}/s?token={MARK}",
            "refused": f"rtsp://127.0.0.1:{closed.getsockname()[1]}/s",
        }
        closed.close()
        path = write(tmp_path / "a", broker, addresses)
        heard = subscribe(broker, "#")
        running = run(path, CAMERA_PASSWORD=PASSWORD, **environment)
        heard.wait(lambda got: len(got) > 2, "/good/result", timeout_s=40)
        for name in ("wrong", "absent", "silent", "refused"):
            heard.wait(lambda got: any(one.json["state"] == "lost" for one in got), f"/camera/{name}")
        seen = shown(running)
        assert len(processes(running)) > 1 or where == "thread"
        running.process.send_signal(signal.SIGHUP)
        good.kill()
        heard.wait(lambda got: any(one.json["state"] == "lost" for one in got), "/camera/good")
        heard.wait(lambda got: len(got) >= 1, "/stats")
        assert running.stop() == 0, running.log
    assert "does not accept the user" in running.log, "the trial is worth something"
    assert not holds(running.log)
    assert not holds(seen)
    said = [f"{one.topic} {one.payload!r} {one.properties}" for one in heard.messages()]
    assert [one for one in said if holds(one)] == []
    found = left_behind(tmp_path / "a")
    assert any(name.endswith((".db", ".sqlite", ".sqlite3")) or "state" in name for name in found)
    # the address with its token stands where the user wrote it
    assert [name for name, text in found.items() if holds(text) and not as_written(Path(name))] == []


def test_no_password_of_web_cameras_is_anywhere_and_pipelines_get_none(
    tmp_path: Path, broker: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    with (
        HttpCamera(user="u", password=PASSWORD) as good,
        HttpCamera(user="u", password=PASSWORD, schemes=("Basic",)) as basic,
        HttpCamera(user="u", password="another", schemes=("Digest MD5", "Basic")) as wrong,
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        addresses = {
            "good": f"{good.url()}?token={MARK}",
            "snap": f"{basic.url('/snapshot')}?token={MARK}",
            "wrong": f"{wrong.url()}?token={MARK}",
            "absent": f"{good.url('/absent')}?token={MARK}",
            "moved": f"{good.url('/redirect/')}?http://127.0.0.9:9/{MARK}",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}/s?token={MARK}",
            "refused": f"http://127.0.0.1:{closed.getsockname()[1]}/s?token={MARK}",
        }
        closed.close()
        pipelines = {
            "bars": "videotestsrc is-live=true ! video/x-raw,width=64,height=48",
            "gone": f"filesrc location=http://127.0.0.1:9/s?token={MARK} ! decodebin",
        }
        path = write(tmp_path / "a", broker, addresses, pipelines)
        heard = subscribe(broker, "#")
        running = run(path, CAMERA_PASSWORD=PASSWORD)
        for name in ("good", "snap", "bars"):
            heard.wait(lambda got: len(got) > 2, f"/{name}/result", timeout_s=40)
        for name in ("wrong", "absent", "moved", "silent", "refused", "gone"):
            heard.wait(lambda got: any(one.json["state"] == "lost" for one in got), f"/camera/{name}")
        seen = shown(running, but="filesrc")
        assert "gst-launch" in seen, "the trial is worth something"
        good.kill()
        heard.wait(lambda got: any(one.json["state"] == "lost" for one in got), "/camera/good")
        assert running.stop() == 0, running.log
    assert "does not accept the user" in running.log, "the trial is worth something"
    assert not holds(running.log)
    assert not holds(seen)
    said = [f"{one.topic} {one.payload!r} {one.properties}" for one in heard.messages()]
    assert [one for one in said if holds(one)] == []
    found = left_behind(tmp_path / "a")
    # the addresses with their tokens stand where the user wrote them
    assert [name for name, text in found.items() if holds(text) and not as_written(Path(name))] == []


def test_the_report_of_a_bug_holds_no_password(tmp_path: Path, broker: Mosquitto, run: Run) -> None:
    with RtspCamera(user="u", password=PASSWORD) as camera:
        path = write(tmp_path / "a", broker, {"good": camera.url})
        running = run(path, CAMERA_PASSWORD=PASSWORD, **broken(tmp_path / "bug", BUG))
        assert running.wait(30) == 3, running.log
    (report,) = (tmp_path / "bug").glob("edge-infer-*.txt")
    assert "ZeroDivisionError" in report.read_text()
    assert not holds(report.read_text())
    assert not holds(running.log)


def test_settings_and_their_mistakes_show_no_password(tmp_path: Path, broker: Mosquitto, run: Run) -> None:
    path = write(tmp_path / "a", broker, {"good": "rtsp://127.0.0.1:9/s"})
    data = yaml.safe_load(path.read_text())
    data["cameras"]["good"]["url"] = f"rtsp://u:{MARK}@127.0.0.1:9/s"
    path.write_text(yaml.safe_dump(data))
    running = run(path, CAMERA_PASSWORD=PASSWORD)
    assert running.wait(30) == 78
    assert "user and password" in running.log
    assert not holds(running.log)
