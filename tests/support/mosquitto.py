"""A real mosquitto on a random port of 127.0.0.1, and everything that can happen to it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

USER = "edge-infer"
PASSWORD = "correct horse"


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Mosquitto:
    """One broker with a password file; start, kill, freeze and start it again on the same port."""

    def __init__(
        self,
        folder: Path,
        *,
        persistence: bool = False,
        users: dict[str, str] | None = None,
        acl: str | None = None,
        lines: tuple[str, ...] = (),
        host: str = "127.0.0.1",
    ) -> None:
        """``lines`` are added to the configuration; ``acl`` is the text of its acl_file."""
        folder.mkdir(parents=True, exist_ok=True)
        self.host = host
        self.port = free_port()
        self.user = USER
        self.password = PASSWORD
        self._folder = folder
        self._log = folder / "mosquitto.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "mosquitto.conf"
        passwords = folder / "passwords"
        for user, password in {USER: PASSWORD, **(users or {})}.items():
            passwords.touch()
            subprocess.run(
                [_binary("mosquitto_passwd"), "-b", str(passwords), user, password],
                check=True,
                capture_output=True,
                timeout=10,
            )
        config = [
            f"listener {self.port} {self.host}",
            "set_tcp_nodelay true",
            "allow_anonymous false",
            f"password_file {passwords}",
            "max_queued_messages 0",
            # else it drops to the user mosquitto, who cannot read the folder
            "user root",
        ]
        if persistence:
            # the only settings under which a PUBACK survives a kill
            config += [
                "persistence true",
                f"persistence_location {folder}/",
                "autosave_on_changes true",
                "autosave_interval 1",
            ]
        if acl is not None:
            (folder / "acl").write_text(acl)
            config.append(f"acl_file {folder}/acl")
        self._config.write_text("\n".join([*config, *lines, ""]))

    def start(self) -> Mosquitto:
        """Returns when it takes connections."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("mosquitto"), "-v", "-c", str(self._config)], stdout=log, stderr=log
            )
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    pytest.fail(f"mosquitto does not start:\n{self.log}")
                time.sleep(0.01)
            else:
                return self

    @property
    def log(self) -> str:
        """What it said so far."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """As a power cut would."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """It takes connections and bytes but never answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after ``freeze``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Cleanly; safe to call at any time."""
        self._end(signal.SIGTERM)

    def __enter__(self) -> Mosquitto:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5)
        self._process = None


def _binary(name: str) -> str:
    # Debian's /usr/sbin is not in every user's PATH
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.fail(f"{name} is not installed: `make test` installs it")
    return found


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A running broker that wants USER and PASSWORD."""
    with Mosquitto(tmp_path / "mosquitto") as broker:
        yield broker
