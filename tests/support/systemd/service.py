"""edge-infer.service in the machine, on a site of the test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.mosquitto import Mosquitto
from tests.support.running import ForeignSubscriber
from tests.support.runs import site, whole
from tests.support.systemd.machine import Machine

NAME = "edge-infer"
PYTHON = "/opt/edge-infer/venv/bin/python"
CONFIGURATION = "/etc/edge-infer/edge-infer.yaml"


class Service:
    """Started, watched and stopped as an operator does it. A broker runs in the machine's network."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self._folder = folder
        self._stack = ExitStack()
        (self._cursor,) = (
            line.removeprefix("-- cursor: ")
            for line in machine.run("journalctl -n0 --show-cursor").splitlines()
            if line.startswith("-- cursor: ")
        )
        with machine.network():
            self.broker = Mosquitto(folder / "broker", persistence=True).start()
        self._stack.callback(self.broker.stop)

    # -- before it starts

    def configure(self, **more: Any) -> None:
        """/etc/edge-infer: as `tests.support.runs.site`, and ``more`` keys of the site."""
        here = self._folder / "site"
        path = site(here, self.broker, **{"state_dir": "/var/lib/edge-infer"} | more)
        path.rename(here / "edge-infer.yaml")
        shutil.copytree(here, self.machine.root / "etc/edge-infer", dirs_exist_ok=True)

    def write_configuration(self, text: str) -> None:
        """The YAML file alone."""
        (self.machine.root / CONFIGURATION.lstrip("/")).write_text(text)

    @property
    def configuration(self) -> str:
        """The YAML file."""
        return (self.machine.root / CONFIGURATION.lstrip("/")).read_text()

    def drop_in(self, text: str, name: str = "test") -> None:
        """In force at the next start."""
        folder = self.machine.root / f"run/systemd/system/{NAME}.service.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.conf").write_text(text)
        self.machine.run("systemctl daemon-reload")

    # -- what an operator does

    def start(self) -> None:
        """Returns when it says that it is ready; must succeed."""
        self.machine.run(f"systemctl start {NAME}")

    def stop(self) -> None:
        self.machine.run(f"systemctl stop {NAME}")

    def systemctl(self, verb: str) -> subprocess.CompletedProcess[str]:
        """Whether it succeeds or not."""
        return self.machine.ask("systemctl", "--no-pager", "--lines=30", verb, NAME)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`edge-infer`, by root."""
        return self.machine.ask(PYTHON, "-I", "-B", "-m", "edge_infer", *words)

    def subscribe(self, topic: str = "vision/v1/plant1/l3/ipc7/#") -> ForeignSubscriber:
        """Closed at the test's end."""
        with self.machine.network():
            subscriber = ForeignSubscriber(self.broker, topic)
        self._stack.callback(subscriber.close)
        return subscriber

    # -- what is seen of it

    def show(self, name: str) -> str:
        """A property of the unit."""
        return self.machine.show(NAME, name)

    @property
    def pid(self) -> int:
        """Of its main process, as the machine counts; 0 where there is none."""
        return int(self.show("MainPID"))

    @property
    def journal(self) -> str:
        """Of the unit, since the test began."""
        return self.machine.ask(
            "journalctl", "--no-pager", "-q", "-o", "cat", f"--after-cursor={self._cursor}",
            f"_SYSTEMD_UNIT={NAME}.service", "+", f"UNIT={NAME}.service",
        ).stdout  # fmt: skip

    def until(self, is_so: Callable[[], object], timeout_s: float = 90, what: str = "") -> None:
        """Wait for it."""
        self.machine.until(is_so, timeout_s, what)

    def until_restarted(self, times: int = 1, timeout_s: float = 90) -> None:
        """It was started again, and is ready."""
        self.until(
            lambda: int(self.show("NRestarts")) >= times and self.show("ActiveState") == "active",
            timeout_s,
            f"restart number {times}",
        )

    def goes_on(self, heard: ForeignSubscriber) -> None:
        """Results come; once it is stopped none is missing from first to last: one count of one station."""
        before = len(heard.messages("/result"))
        heard.wait(lambda got: len(got) > before + 5, "/result", timeout_s=60)
        self.stop()
        assert len(whole(heard.messages("/result"))) == 1

    def close(self) -> None:
        """As if it had never run."""
        self.machine.run(f"systemctl stop {NAME}; systemctl reset-failed {NAME}", check=False)
        self._stack.close()
        self.machine.run(
            f"rm -rf /run/systemd/system/{NAME}.service.d /var/lib/private/{NAME} /var/cache/private/{NAME} "
            f"/var/log/private/{NAME}; mkdir -p /etc/edge-infer; find /etc/edge-infer -mindepth 1 -delete; "
            "systemctl daemon-reload"
        )
