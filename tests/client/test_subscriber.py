from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edge_infer.client import Broker, Event, Gap, Message, Result, Status, Subscriber, Tls, Unreadable
from edge_infer.client import session as session_module
from edge_infer.client.numbers import Stream
from edge_infer.errors import DeliveryError
from tests.support.foreign_publisher import foreign_publisher
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.pki import Pki
from tests.support.publishers import PREFIX, device
from tests.support.results import result

FUTURE = "2099-01-01T00:00:00Z"
OTHER = "vision/v1/plant1/l3/ipc8"


def address(broker: Mosquitto, **changes: Any) -> Broker:
    return Broker(
        **{
            "host": broker.host,
            "port": broker.port,
            "user": broker.user,
            "password": broker.password,
            **changes,
        }
    )


@contextmanager
def listening(
    broker: Mosquitto, prefixes: str | list[str] = PREFIX, *, protocol: Any = "5", **options: Any
) -> Iterator[Subscriber]:
    options = {"client_id": "mes", **options}
    with Subscriber(address(broker, protocol=protocol), prefixes, **options) as subscriber:
        until(lambda: subscriber.connected)
        yield subscriber


def until(done: Callable[[], bool], timeout_s: float = 10) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def take(subscriber: Subscriber, count: int, timeout_s: float = 10) -> list[Message]:
    """So many, each acknowledged."""
    taken: list[Message] = []
    while len(taken) < count:
        message = subscriber.next(timeout_s)
        assert message is not None, f"{len(taken)} of {count}: {subscriber.trouble}"
        taken.append(message)
    subscriber.acknowledge()
    return taken


def seqs(messages: list[Message]) -> list[int]:
    return [message.seq for message in messages if isinstance(message, Result)]


def nothing_more(subscriber: Subscriber) -> None:
    assert subscriber.next(0.3) is None


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_results_of_a_real_device_come_once_and_in_order(
    protocol: str, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        listening(mosquitto, protocol=protocol) as subscriber,
        device(mosquitto, tmp_path / "outbox", protocol=protocol) as one,
    ):
        for number in range(300):
            one.put(result("cap" if number % 2 else "label"))
        messages = take(subscriber, 301)
        assert next(message for message in messages if isinstance(message, Status)).online
        results = [message for message in messages if isinstance(message, Result)]
        for station in ("cap", "label"):
            assert [one.seq for one in results if one.station == station] == list(range(1, 151))
        assert subscriber.counts == {"OK": 300}
        assert subscriber.missing() == []
        status = subscriber.status(PREFIX)
        assert status is not None
        assert status.online


def test_a_repetition_is_dropped_and_counted(mosquitto: Mosquitto) -> None:
    with listening(mosquitto) as subscriber, foreign_publisher(mosquitto) as foreign:
        for seq in (1, 2, 1, 2, 3):
            foreign.result(seq)
        assert seqs(take(subscriber, 3)) == [1, 2, 3]
        nothing_more(subscriber)
        assert subscriber.duplicates == 2


def test_the_same_number_of_another_stream_or_device_is_no_repetition(mosquitto: Mosquitto) -> None:
    with listening(mosquitto) as subscriber, foreign_publisher(mosquitto) as foreign:
        foreign.result(1, "s1")
        foreign.result(1, "s2")
        foreign.result(1, "s1", device="ipc8")
        assert len(take(subscriber, 3)) == 3
        assert subscriber.duplicates == 0


def test_what_was_not_handled_comes_again_after_a_restart(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with foreign_publisher(mosquitto) as foreign:
        with listening(mosquitto, position=tmp_path / "position") as first:
            for seq in (1, 2, 3):
                foreign.result(seq)
            assert seqs(take(first, 1)) == [1]
            in_hand = first.next(10)
            assert isinstance(in_hand, Result)
            assert in_hand.seq == 2
        foreign.result(4)
        with listening(mosquitto, position=tmp_path / "position") as second:
            assert seqs(take(second, 3)) == [2, 3, 4]
            nothing_more(second)


def test_a_reader_that_is_killed_while_it_handles_a_result_gets_it_again(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    code = (
        "import os, sys\n"
        "from edge_infer.client import Broker, Subscriber, Result\n"
        "broker = Broker('127.0.0.1', int(sys.argv[1]), user=sys.argv[2], password=sys.argv[3])\n"
        "subscriber = Subscriber(broker, sys.argv[4], client_id='mes', position=sys.argv[5])\n"
        "for message in subscriber:\n"
        "    print(message.seq, flush=True)\n"
        "    if message.seq == 5: os._exit(9)\n"
    )
    arguments = [str(mosquitto.port), mosquitto.user, mosquitto.password, PREFIX, str(tmp_path / "position")]
    with foreign_publisher(mosquitto) as foreign:
        with listening(mosquitto):
            pass
        for seq in range(1, 9):
            foreign.result(seq)
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 9, done.stderr
        with listening(mosquitto, position=tmp_path / "position") as again:
            assert seqs(take(again, 4)) == [5, 6, 7, 8]
            nothing_more(again)
            assert again.missing() == []


def test_a_repetition_is_known_after_a_restart_with_a_position(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with foreign_publisher(mosquitto) as foreign:
        with listening(mosquitto, position=tmp_path / "position") as first:
            foreign.result(1)
            foreign.result(3)
            take(first, 2)
        with listening(mosquitto, position=tmp_path / "position") as second:
            foreign.result(1)
            foreign.result(4)
            assert seqs(take(second, 1)) == [4]
            assert second.duplicates == 1
            assert [(one.first, one.last) for one in second.missing()] == [(2, 2)]


def test_nothing_is_lost_while_the_broker_dies_and_comes_back(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "mosquitto", persistence=True) as broker,
        listening(broker) as subscriber,
        device(broker, tmp_path / "outbox") as one,
    ):
        one.connected()
        for _ in range(3):
            for _ in range(100):
                one.put(result())
            take(subscriber, 20)
            broker.kill()
            broker.start()
        handled: set[int] = set()
        end = time.monotonic() + 30
        while subscriber.counts.total() < 300 and time.monotonic() < end:
            message = subscriber.next(5)
            if isinstance(message, Result):
                assert message.seq not in handled
                handled.add(message.seq)
                subscriber.acknowledge()
        assert subscriber.counts.total() == 300
        assert subscriber.missing() == []


def test_what_a_dead_connection_brought_is_not_acknowledged_on_the_next_one(tmp_path: Path) -> None:
    # a broker that forgets everything counts its messages from one again
    with Mosquitto(tmp_path / "mosquitto") as broker, listening(broker) as subscriber:
        with foreign_publisher(broker) as foreign:
            foreign.result(1)
            in_hand = subscriber.next(10)
            assert isinstance(in_hand, Result)
        broker.kill()
        until(lambda: not subscriber.connected)
        broker.start()
        until(lambda: subscriber.connected)
        with foreign_publisher(broker) as foreign:
            foreign.result(2)
        until(lambda: len(subscriber._session._arrived) == 1)
        subscriber.acknowledge()
        subscriber.close()
        with listening(broker) as again:
            assert seqs(take(again, 1)) == [2]


def test_a_gap_tells_that_a_missing_number_will_not_come(mosquitto: Mosquitto) -> None:
    with listening(mosquitto) as subscriber, foreign_publisher(mosquitto) as foreign:
        foreign.result(1)
        foreign.result(5)
        foreign.gap((2, 3))
        messages = take(subscriber, 3)
        assert isinstance(messages[2], Gap)
        assert (messages[2].reason, messages[2].ranges) == ("full", ((2, 3),))
        assert [(one.station, one.first, one.last) for one in subscriber.missing()] == [("cap", 4, 4)]


def test_a_refused_result_is_not_missing_and_is_taken_when_it_is_tried_again(tmp_path: Path) -> None:
    acl = f"user edge-infer\ntopic readwrite {PREFIX}/label/#\ntopic readwrite {PREFIX}/event\n"
    acl += f"topic read #\ntopic write {PREFIX}/status\n"
    with (
        Mosquitto(tmp_path / "mosquitto", acl=acl) as broker,
        listening(broker) as subscriber,
        device(broker, tmp_path / "outbox") as one,
    ):
        for station in ("cap", "label"):
            one.put(result(station))
        refused = None
        while refused is None:
            message = subscriber.next(10)
            assert message is not None
            if isinstance(message, Event) and message.kind == "result_refused":
                refused = message
        stream_id = str(refused.data["streamId"])
        assert subscriber.missing() == []
        # a later result does not open the hole again
        stream = Stream(PREFIX, "ipc7", "cap", stream_id)
        subscriber._numbers.came(stream, 2)
        assert subscriber.missing() == []
        assert not subscriber._numbers.came_before(stream, 1)


def test_events_and_gaps_that_are_sent_again_are_told_once(mosquitto: Mosquitto) -> None:
    with listening(mosquitto) as subscriber, foreign_publisher(mosquitto) as foreign:
        told = {"schema": "event/1", "kind": "x", "station": None, "data": {"a": 1}, "bootId": "b"}
        for _ in range(3):
            foreign.say("event", told)
            foreign.gap((2, 3))
        assert [type(message) for message in take(subscriber, 2)] == [Event, Gap]
        nothing_more(subscriber)


def test_the_status_is_told_when_it_changes(mosquitto: Mosquitto) -> None:
    with foreign_publisher(mosquitto) as foreign:
        foreign.status("online")
        with listening(mosquitto) as subscriber:
            foreign.say("status", {"state": "online", "bootId": "b0", "since": None, "validUntil": FUTURE})
            foreign.status("offline")
            told = take(subscriber, 2)
            assert [message.state for message in told if isinstance(message, Status)] == ["online", "offline"]
            nothing_more(subscriber)


def test_many_devices_and_only_some_stations(mosquitto: Mosquitto) -> None:
    with (
        listening(mosquitto, "vision/v1/plant1/+/+", stations=["cap", "label"]) as subscriber,
        foreign_publisher(mosquitto) as foreign,
    ):
        foreign.result(1, station="other")
        foreign.result(1)
        foreign.result(1, "s2", station="label", prefix=OTHER, device="ipc8")
        told = take(subscriber, 2)
        assert [(one.device, one.station) for one in told if isinstance(one, Result)] == [
            ("ipc7", "cap"),
            ("ipc8", "label"),
        ]
        nothing_more(subscriber)


def test_a_newer_schema_is_handed_out_as_unreadable_and_acknowledged(mosquitto: Mosquitto) -> None:
    with listening(mosquitto) as subscriber, foreign_publisher(mosquitto) as foreign:
        foreign.result(1, schema="result/2")
        foreign.result(2, newKey=1)
        newer, known = take(subscriber, 2)
        assert isinstance(newer, Unreadable)
        assert "result/2" in newer.why
        assert isinstance(known, Result)
    with listening(mosquitto) as again:
        nothing_more(again)


def test_a_caller_that_is_slow_keeps_a_bounded_number_of_messages(
    mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what only a broker without a window of its own would reach
    monkeypatch.setattr(session_module, "LIMIT", 10)
    with listening(mosquitto) as subscriber, foreign_publisher(mosquitto) as foreign:
        for seq in range(1, 61):
            foreign.result(seq)
        until(lambda: len(subscriber._session._arrived) >= 10)
        time.sleep(0.2)
        assert len(subscriber._session._arrived) <= 11
        assert seqs(take(subscriber, 60)) == list(range(1, 61))


def test_a_broker_that_comes_late_is_found_and_said_until_then(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path / "mosquitto")
    with Subscriber(address(broker), PREFIX, client_id="mes") as subscriber:
        until(lambda: subscriber.trouble is not None)
        assert subscriber.trouble == "no connection: Connection refused"
        with broker:
            until(lambda: subscriber.connected)
            assert subscriber.trouble is None


def test_wrong_credentials_are_said_as_the_broker_says_it(mosquitto: Mosquitto) -> None:
    with Subscriber(address(mosquitto, password="wrong"), PREFIX, client_id="mes") as subscriber:
        until(lambda: subscriber.trouble is not None)
        assert subscriber.trouble == "the broker refuses: Not authorized"
        assert "wrong" not in repr(address(mosquitto, password="wrong"))


def test_two_readers_with_one_client_id_are_told_so(
    mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session_module, "RETRY_MIN_S", 0.1)
    with listening(mosquitto) as first, listening(mosquitto) as second:
        until(lambda: first.taken_over or second.taken_over)
    assert "another client seems to use the client id mes" in caplog.text


def test_a_port_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CONNACK_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with Subscriber(Broker("127.0.0.1", port), PREFIX, keep_s=0) as subscriber:
            until(lambda: subscriber.trouble is not None)
            assert subscriber.trouble == "the broker takes the connection and does not answer"


def test_mutual_tls(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    lines = pki.lines(client=True)
    tls = Tls(*(Path(pki.path(name)) for name in ("ca.crt", "ipc7.crt", "ipc7.key")))
    with Mosquitto(tmp_path / "mosquitto", lines=lines) as broker, foreign_tls(broker, pki):
        with Subscriber(address(broker, tls=tls), PREFIX, client_id="mes") as subscriber:
            message = subscriber.next(10)
            assert isinstance(message, Status)
            assert message.online
        untrusted = Tls(ca=Path(pki.path("rogue.crt")), cert=tls.cert, key=tls.key)
        with Subscriber(address(broker, tls=untrusted), PREFIX, client_id="mes") as subscriber:
            until(lambda: subscriber.trouble is not None)
            assert "certificate is not accepted" in str(subscriber.trouble)


@contextmanager
def foreign_tls(broker: Mosquitto, pki: Pki) -> Iterator[None]:
    command = [
        "mosquitto_pub", "-h", broker.host, "-p", str(broker.port), "-u", broker.user, "-P", broker.password,
        "--cafile", pki.path("ca.crt"), "--cert", pki.path("ipc7.crt"), "--key", pki.path("ipc7.key"),
        "-t", f"{PREFIX}/status", "-r", "-q", "1", "-m", '{"state": "online"}',
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=10)
    yield


def test_certificates_that_cannot_be_used_are_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="cannot use the certificate authority"):
        Subscriber(Broker("h", tls=Tls(ca=tmp_path / "no.crt")), PREFIX, client_id="mes")


def test_a_kept_session_needs_a_client_id() -> None:
    with pytest.raises(ValueError, match="give client_id"):
        Subscriber(Broker("127.0.0.1", free_port()), PREFIX)


def test_it_needs_neither_numpy_nor_a_runtime_nor_pydantic() -> None:
    code = (
        "import sys, edge_infer.client\n"
        "heavy = ('numpy', 'cv2', 'av', 'onnx', 'onnxruntime', 'openvino', 'pydantic', 'yaml')\n"
        "print([one for one in heavy if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "[]\n"
