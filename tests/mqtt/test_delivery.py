from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import jsonschema
import pytest

from edge_infer.mqtt.publisher import Timing
from edge_infer.result import Decision, Result, json_schema
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import Received, subscribed


def _seqs(messages: Iterable[Received]) -> list[int]:
    return [message.json["seq"] for message in messages]


def test_a_result_arrives_as_documented(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        one.put(result("cap", "NOK", label="Deckel fehlt 瓶盖"))
        message = subscriber.wait_on("cap/result")[0]
        jsonschema.validate(message.json, json_schema())
        assert message.topic == f"{PREFIX}/cap/result"
        assert (message.qos, message.retained) == (1, False)
        assert message.json["resultContent"][0]["label"] == "Deckel fehlt 瓶盖"
        assert message.user == {"schema": "result/1", "seq": "1", "streamId": message.json["streamId"]}
        assert message.properties["ContentType"] == "application/json"
        assert message.properties["PayloadFormatIndicator"] == 1
        assert "MessageExpiryInterval" not in message.properties


def test_a_broker_that_comes_late_gets_every_result_and_knows_that_they_are_late(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    mosquitto.stop()
    with device(mosquitto, tmp_path / "outbox") as one:
        for _ in range(50):
            one.put(result())
        one.outbox.flush(5)
        one.wait(lambda: one.publisher.stats.trouble is not None, "in trouble")
        assert "refused" in str(one.publisher.stats.trouble)
        one.lock_out()
        mosquitto.start()
        with subscribed(mosquitto, f"{PREFIX}/+/result") as subscriber:
            one.let_in()
            messages = subscriber.wait_on("result", 50)
            assert _seqs(messages) == list(range(1, 51))
            assert all(message.user["delayed"] == "true" for message in messages)
            one.put(result())
            assert "delayed" not in subscriber.wait_on("result", 51)[50].user
        one.delivered()


def test_a_broker_killed_in_a_stream_loses_nothing(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "mosquitto", persistence=True) as broker,
        subscribed(broker, f"{PREFIX}/+/result", client_id="mes", durable=True) as subscriber,
        device(broker, tmp_path / "outbox") as one,
    ):
        one.connected()
        for i in range(600):
            one.put(result("cap" if i % 2 else "label"))
            if i in (150, 400):
                broker.kill()
            if i in (220, 450):
                broker.start()
            time.sleep(0.002)
        one.delivered(20)
        assert one.publisher.stats.connections == 3
        sent = {(station, seq) for station in ("cap", "label") for seq in range(1, 301)}

        def arrived() -> set[tuple[str, int]]:
            return {(message.json["station"], message.json["seq"]) for message in subscriber.on("result")}

        subscriber.wait_for(lambda _: arrived() == sent)
        assert len({message.json["streamId"] for message in subscriber.on("result")}) == 2


_STREAM = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.support.publishers import Device
from tests.support.mosquitto import Mosquitto
from tests.support.results import result
broker = Mosquitto.__new__(Mosquitto)
broker.host, broker.port, broker.user, broker.password = "127.0.0.1", int(sys.argv[2]), *sys.argv[3:5]
one = Device(broker, Path(sys.argv[5])).start()
while True:
    one.put(result(), lambda final: print(final.seq, flush=True))
    time.sleep(0.001)
"""


def _stream(broker: Mosquitto, folder: Path) -> subprocess.Popen[str]:
    arguments = [str(Path(__file__).parents[2]), str(broker.port), broker.user, broker.password, str(folder)]
    return subprocess.Popen([sys.executable, "-c", _STREAM, *arguments], stdout=subprocess.PIPE, text=True)


def test_a_service_killed_in_a_stream_loses_nothing_that_it_committed(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    folder = tmp_path / "outbox"
    committed = 0
    with subscribed(mosquitto, f"{PREFIX}/+/result", client_id="mes", durable=True) as subscriber:
        for _ in range(2):
            with _stream(mosquitto, folder) as process:
                assert process.stdout is not None
                seen = len(subscriber.messages)
                subscriber.wait_for(lambda messages, seen=seen: len(messages) > seen + 200)  # type: ignore[misc]
                os.kill(process.pid, signal.SIGKILL)
                # what it had no time to say may be committed too
                committed = max((int(line) for line in process.stdout.read().splitlines()), default=committed)
        with device(mosquitto, folder) as one:
            final: list[Result] = []
            one.put(result(), final.append)
            one.delivered()
        last = final[0].seq
        subscriber.wait_for(lambda messages: len(set(_seqs(messages))) == last)
        messages = subscriber.on("result")
        assert set(_seqs(messages)) == set(range(1, last + 1))
        assert last > committed
        assert len({message.json["streamId"] for message in messages}) == 1
        # sent twice is the same result twice
        assert len({(one.json["seq"], one.json["resultId"]) for one in messages}) == last


def test_a_broker_that_hangs_stops_neither_putting_nor_stopping(mosquitto: Mosquitto, tmp_path: Path) -> None:
    one = Device(mosquitto, tmp_path / "outbox").start().connected()
    mosquitto.freeze()
    slowest = 0.0
    for _ in range(200):
        began = time.monotonic()
        one.put(result())
        slowest = max(slowest, time.monotonic() - began)
    # a broker that hangs would hold it up for seconds; a busy machine for tenths of one
    assert slowest < 1
    assert one.outbox.flush(5)
    # the watchdog sees that nothing is acknowledged, the next connection gets no CONNACK
    one.wait(lambda: "acknowledges nothing" in str(one.publisher.stats.trouble), "noticed")
    one.wait(lambda: "says nothing" in str(one.publisher.stats.trouble), "noticed again")
    began = time.monotonic()
    one.close(1.0)
    assert time.monotonic() - began < 3
    mosquitto.thaw()
    with device(mosquitto, tmp_path / "outbox") as again, subscribed(mosquitto, f"{PREFIX}/#"):
        again.delivered()


def test_a_wrong_password_is_said_with_its_reason_but_never_printed(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with device(mosquitto, tmp_path / "outbox", password={"env": "WRONG"}) as one:
        one.put(result())
        one.wait(lambda: one.publisher.stats.trouble is not None, "refused")
        assert "the broker refuses: Not authorized" in str(one.publisher.stats.trouble)
        time.sleep(0.5)
        assert one.outbox.depth() == 1
    told = [record for record in caplog.records if "refuses" in record.getMessage()]
    assert len([record for record in told if record.levelname == "WARNING"]) == 1
    assert not any(word in caplog.text for word in ("wrong", mosquitto.password))


def test_a_missing_password_is_tried_again_until_it_is_there(mosquitto: Mosquitto, tmp_path: Path) -> None:
    file = tmp_path / "password"
    with device(mosquitto, tmp_path / "outbox", password={"file": str(file)}) as one:
        one.wait(lambda: "cannot read the secret" in str(one.publisher.stats.trouble), "told")
        file.write_text(mosquitto.password)
        one.connected()


def test_an_acl_refusal_is_said_with_its_reason_and_the_result_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    acl = f"user edge-infer\ntopic readwrite {PREFIX}/label/#\ntopic readwrite {PREFIX}/event\n"
    with (
        Mosquitto(tmp_path / "mosquitto", acl=acl) as broker,
        subscribed(broker, f"{PREFIX}/#") as subscriber,
        device(broker, tmp_path / "outbox") as one,
    ):
        one.put(result("cap"))
        one.put(result("label"))
        subscriber.wait_on("label/result")
        event = subscriber.wait_on("event")[0].json
        assert event["kind"] == "result_refused"
        assert event["data"].pop("streamId")
        assert event["data"] == {
            "topic": f"{PREFIX}/cap/result", "seq": 1, "code": 0x87, "reason": "Not authorized",
        }  # fmt: skip
        one.wait(lambda: one.outbox.stats.dead == 1, "kept")
        assert f"refuses {PREFIX}/cap/result: Not authorized" in caplog.text


def test_the_window_is_the_smaller_of_ours_and_the_brokers(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "mosquitto", lines=("max_inflight_messages 3",)) as broker,
        subscribed(broker, f"{PREFIX}/+/result") as subscriber,
        device(broker, tmp_path / "outbox", timing=Timing(ack_s=30)) as one,
    ):
        for _ in range(50):
            one.put(result())
        one.delivered()
        broker.freeze()
        for _ in range(50):
            one.put(result())
        one.wait(lambda: one.publisher.stats.in_flight > 0, "sending")
        time.sleep(0.3)
        assert one.publisher.stats.in_flight == 3
        broker.thaw()
        assert _seqs(subscriber.wait_on("result", 100)) == list(range(1, 101))


def test_a_message_larger_than_the_broker_takes_is_kept_aside_and_the_others_go(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "mosquitto", lines=("max_packet_size 20000",)) as broker,
        subscribed(broker, f"{PREFIX}/#") as subscriber,
        device(broker, tmp_path / "outbox") as one,
    ):
        one.put(result(found=1000))
        one.put(result())
        assert _seqs(subscriber.wait_on("result")) == [2]
        assert "larger than the 20000 bytes" in subscriber.wait_on("event")[0].json["data"]["reason"]
        assert one.publisher.stats.connections == 1
        one.wait(lambda: one.outbox.stats.dead == 1, "kept")


def test_a_full_outbox_tells_what_it_gave_up(mosquitto: Mosquitto, tmp_path: Path) -> None:
    mosquitto.stop()
    decisions: list[Decision] = ["OK", "OK", "NOK", "UNDEFINED", "OK", "NOK"]
    with device(mosquitto, tmp_path / "outbox", outbox={"max_rows": 4}) as one:
        one.outbox.flush(5)
        for decision in decisions:
            one.put(result(decision=decision))
        one.outbox.flush(5)
        one.lock_out()
        mosquitto.start()
        with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
            one.let_in()
            gap = subscriber.wait_on("cap/gap")[0]
            sent = _seqs(subscriber.wait_on("result"))
            told = [
                seq
                for one_range in gap.json["ranges"]
                for seq in range(one_range["fromSeq"], one_range["toSeq"] + 1)
            ]
            assert sorted(sent + told) == [1, 2, 3, 4, 5, 6]
            assert {decisions[seq - 1] for seq in told} == {"OK"}
            assert gap.user == {"schema": "gap/1", "streamId": gap.json["streamId"]}
            kinds = [message.json["kind"] for message in subscriber.on("event")]
            assert "outbox_full" in kinds
        one.delivered()


def test_two_clients_with_one_id_are_noticed_and_said(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with device(mosquitto, tmp_path / "outbox", client_id="same") as one:
        for i in range(3):
            one.wait(lambda i=i: one.publisher.stats.connections == i + 1, "connected")  # type: ignore[misc]
            one.delivered()
            with subscribed(mosquitto, "x", client_id="same"):
                one.wait(lambda: not one.publisher.connected, "thrown out")
                if i == 2:
                    one.lock_out()
        one.wait(lambda: one.publisher.stats.taken_over == 1, "noticed")
        assert "another client probably uses" in caplog.text
        with subscribed(mosquitto, f"{PREFIX}/event") as subscriber:
            one.let_in()
            event = subscriber.wait_on("event")[0].json
            assert (event["kind"], event["data"]["clientId"]) == ("client_id_taken_over", "same")


def test_mqtt_3_1_1_delivers_too(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/#", v5=False) as subscriber,
        device(mosquitto, tmp_path / "outbox", protocol="3.1.1") as one,
    ):
        for _ in range(30):
            one.put(result())
        assert _seqs(subscriber.wait_on("result", 30)) == list(range(1, 31))
        assert json.loads(subscriber.wait_on("status")[0].payload)["state"] == "online"
        one.delivered()


def test_an_unexpected_error_costs_one_connection_not_the_delivery(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/+/result") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        with monkeypatch.context() as broken:

            def fail(*_: object) -> None:
                raise RuntimeError("a bug")

            broken.setattr(one.publisher._pump, "_acknowledged", fail)
            one.put(result())
            one.wait(lambda: "a bug" in str(one.publisher.stats.trouble), "failed")
        one.delivered()
        assert set(_seqs(subscriber.wait_on("result"))) == {1}
