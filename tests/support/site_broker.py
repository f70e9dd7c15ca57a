"""A mosquitto made by deploy/broker/make-broker, and somebody with a certificate of its authority."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from tests.support.mosquitto import Mosquitto, free_port

MAKE = Path(__file__).parents[2] / "deploy/broker/make-broker"


def make(verb: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it as a plant does, without edge-infer."""
    command = [sys.executable, "-I", str(MAKE), verb, str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


class SiteBroker(Mosquitto):
    """``made`` is what make-broker wrote."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.host, self.port = "127.0.0.1", free_port()
        # a certificate says who somebody is, whatever they write here
        self.user, self.password = "nobody", "nothing"
        self.made = folder / "made"
        self._folder = folder
        self._log = folder / "mosquitto.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "mosquitto.conf"
        (folder / "var").mkdir()
        self.make("init", "--name", "localhost", "--ip", self.host, "--port", str(self.port),
                  "--etc", str(self.made / "broker"), "--var", str(folder / "var"))  # fmt: skip

    def make(self, verb: str, *arguments: str) -> str:
        """What it printed."""
        done = make(verb, self.made, *arguments)
        assert done.returncode == 0, done.stderr
        # else it drops to the user mosquitto, who cannot read the test's folder
        text = (self.made / "broker/mosquitto.conf").read_text()
        self._config.write_text(text + "\nuser root\n")
        return done.stdout

    def files(self, name: str) -> dict[str, str]:
        """``tls:`` of somebody."""
        (folder,) = self.made.glob(f"*s/{name}")
        return {"ca": f"{folder}/ca.crt", "cert": f"{folder}/{name}.crt", "key": f"{folder}/{name}.key"}


class Peer:
    """paho with its own thread; keeps what arrives."""

    def __init__(
        self, broker: SiteBroker, files: dict[str, str], *, client_id: str = "", durable: bool = False
    ) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.connections = 0
        self._changed = threading.Condition()
        self._answers: dict[int, str] = {}
        self._subscribed = 0
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        self.client.tls_set(files["ca"], files.get("cert"), files.get("key"))
        self.client.on_connect = self._on_connect
        self.client.on_message = self._on_message
        self.client.on_publish = self._on_publish
        self.client.on_subscribe = self._on_subscribe
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 600 if durable else 0
        self.client.connect(broker.host, broker.port, clean_start=not durable, properties=properties)
        self.client.loop_start()
        self.wait(lambda: self.connections > 0, "connected")

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def subscribe(self, *topics: str) -> Peer:
        """And wait for the broker."""
        before = self._subscribed
        self.client.subscribe([(topic, 1) for topic in topics])
        self.wait(lambda: self._subscribed > before, "subscribed")
        return self

    def publish(self, topic: str, payload: str = "x", *, retain: bool = False) -> str:
        """What the broker said to it."""
        mid = self.client.publish(topic, payload, qos=1, retain=retain).mid
        self.wait(lambda: mid in self._answers, f"answered on {topic}")
        return self._answers[mid]

    def wait(self, done: Callable[[], bool], what: str, timeout_s: float = 10) -> None:
        """Until it is so."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while not done():
                assert time.monotonic() < until, f"not {what}; {self.messages[-5:]}"
                # also for what no message tells
                self._changed.wait(0.1)

    def wait_on(self, ending: str, count: int = 1, timeout_s: float = 20) -> list[bytes]:
        """Payloads of topics that end so."""
        self.wait(lambda: len(self.on(ending)) >= count, f"{count} on {ending}", timeout_s)
        return self.on(ending)

    def on(self, ending: str) -> list[bytes]:
        """So far."""
        return [payload for topic, payload in self.messages if topic.endswith(ending)]

    def _on_connect(self, _c: object, _d: object, _f: object, code: ReasonCode, _p: object) -> None:
        with self._changed:
            self.connections += not code.is_failure
            self._changed.notify_all()

    def _on_message(self, _c: object, _d: object, message: paho.MQTTMessage) -> None:
        with self._changed:
            self.messages.append((message.topic, bytes(message.payload)))
            self._changed.notify_all()

    def _on_publish(self, _c: object, _d: object, mid: int, code: ReasonCode, _p: object) -> None:
        with self._changed:
            self._answers[mid] = str(code)
            self._changed.notify_all()

    def _on_subscribe(self, _c: object, _d: object, _m: int, _r: object, _p: object) -> None:
        with self._changed:
            self._subscribed += 1
            self._changed.notify_all()


@contextmanager
def site_broker(folder: Path) -> Iterator[SiteBroker]:
    """Running, with ``ipc7`` and ``ipc8`` on plant1/l3, the reader ``mes`` and the commander ``hmi``."""
    broker = SiteBroker(folder)
    for name in ("ipc7", "ipc8"):
        broker.make("device", name, "--site", "plant1", "--line", "l3")
    broker.make("reader", "mes")
    broker.make("commander", "hmi")
    with broker:
        yield broker


def handshake(broker: SiteBroker, files: dict[str, str], version: ssl.TLSVersion | None = None) -> bytes:
    """What the broker sends to CONNECT; ssl.SSLError or b"" where it does not let us in."""
    context = ssl.create_default_context(cafile=files["ca"])
    if "cert" in files:
        context.load_cert_chain(files["cert"], files["key"])
    if version is not None:
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection((broker.host, broker.port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(bytes([0x10, 15, 0, 4, *b"MQTT", 5, 2, 0, 60, 0, 0, 2, *b"me"]))
        try:
            return secure.recv(4)
        except ConnectionResetError:
            return b""


def is_let_in(broker: SiteBroker, files: dict[str, str], version: ssl.TLSVersion | None = None) -> bool:
    try:
        return handshake(broker, files, version)[:1] == b"\x20"
    except ssl.SSLError:
        return False
