"""MQTT.js reads what our own client reads: the same results, byte for byte."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

from edge_infer.client import Broker, Result, Subscriber, Tls
from tests.support import node
from tests.support.publishers import PREFIX, device
from tests.support.results import result
from tests.support.site_broker import SiteBroker

COUNT = 400
SAVING = "Saving in-memory database"


def test_a_foreign_reader_gets_the_same_results_though_the_broker_dies(tmp_path: Path) -> None:
    broker = SiteBroker(tmp_path / "broker")
    broker.make("device", "ipc7")
    for reader in ("mes", "gateway"):
        broker.make("reader", reader)
    mes, tls = (
        broker.files("mes"),
        Tls(**{kind: Path(path) for kind, path in broker.files("gateway").items()}),
    )
    command = node.command(
        "mqtt_reader.js", f"mqtts://{broker.host}:{broker.port}", "mes", f"{PREFIX}/+/result", str(COUNT),
        mes["ca"], mes["cert"], mes["key"],
    )  # fmt: skip
    with (
        broker,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=node.environment()) as foreign,
        ExitStack() as cleanup,
        Subscriber(Broker(broker.host, broker.port, tls=tls), PREFIX, client_id="gateway") as subscriber,
        device(broker, tmp_path / "outbox", tls=broker.files("ipc7")) as one,
    ):
        assert foreign.stdout is not None
        cleanup.callback(foreign.kill)
        assert json.loads(foreign.stdout.readline()) == "subscribed"
        one.wait(lambda: subscriber.connected, "subscribed")
        # mosquitto writes new sessions down within a second, not at once
        one.put(result("first"))
        saved = broker.log.count(SAVING)
        one.wait(lambda: broker.log.count(SAVING) > saved, "written down")
        ours: dict[tuple[str, int], Result] = {}
        for number in range(COUNT - 1):
            one.put(result(f"s{number % 4}", label="瓶盖"))
            if number == COUNT // 2:
                one.wait(lambda: one.publisher.stats.delivered > 20, "on its way")
                broker.kill()
                broker.start()
        while len(ours) < COUNT:
            message = subscriber.next(20)
            assert message is not None
            if isinstance(message, Result):
                ours[message.stream_id, message.seq] = message
        said, _ = foreign.communicate(timeout=30)
    theirs: dict[tuple[str, int], str] = {}
    for line in said.splitlines():
        told = json.loads(line)
        if told != "subscribed":
            key = told["user"]["streamId"], int(told["user"]["seq"])
            # a repetition is the same text
            assert theirs.setdefault(key, told["payload"]) == told["payload"]
    assert {key: json.loads(text) for key, text in theirs.items()} == {
        key: one.raw for key, one in ours.items()
    }
