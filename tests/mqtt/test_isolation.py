"""One message that a broker does not like must not keep the others from being sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_infer.mqtt.publisher import Timing
from tests.support.fake_broker import CONNACK, CONNECT, OK, PUBLISH, FakeBroker, acknowledging, leaving
from tests.support.publishers import PREFIX, device
from tests.support.results import result

QUICK = Timing(connack_s=1.5, ack_s=2.0, retry_min_s=0.02, retry_max_s=0.05)
OK_3 = bytes([CONNACK << 4, 2, 0, 0])


class Hater:
    """Hangs up for every message that holds a word."""

    def __init__(self, word: bytes, goodbye: bytes = b"", connack: bytes = OK_3) -> None:
        self.word, self.goodbye, self.connack = word, goodbye, connack
        self.taken: list[bytes] = []

    def __call__(self, kind: int, body: bytes) -> bytes | None:
        if kind == CONNECT:
            return self.connack
        if kind != PUBLISH:
            return b""
        if self.word in body:
            return self.goodbye or None
        self.taken.append(body)
        return acknowledging(body)


@pytest.mark.parametrize("protocol", ["3.1.1", "5"])
def test_a_result_for_which_the_broker_hangs_up_is_kept_aside_and_the_others_go(
    tmp_path: Path, protocol: str
) -> None:
    broker_ = Hater(b"poison", connack=OK if protocol == "5" else OK_3)
    with (
        FakeBroker(broker_) as broker,
        device(broker, tmp_path / "outbox", timing=QUICK, protocol=protocol) as one,
    ):
        one.connected()
        one.delivered()
        for i in range(30):
            one.put(result(label="poison" if i == 12 else "cap"))
        one.wait(lambda: one.outbox.stats.dead == 1, "kept aside", 20)
        one.delivered(20)
        # no other client is suspected for it
        assert one.publisher.stats.taken_over == 0
        for seq in set(range(1, 31)) - {13}:
            assert any(f'"seq":{seq},'.encode() in body for body in broker_.taken)


def test_a_broker_that_says_that_it_is_the_message_is_believed_at_once(tmp_path: Path) -> None:
    broker_ = Hater(b"poison", goodbye=leaving(0x95), connack=OK)
    with FakeBroker(broker_) as broker, device(broker, tmp_path / "outbox", timing=QUICK) as one:
        one.connected()
        one.delivered()
        one.put(result(label="poison"))
        one.put(result())
        one.wait(lambda: one.outbox.stats.dead == 1, "kept aside")
        one.delivered()
        assert one.publisher.stats.connections <= 3
        assert "Packet too large" in str(one.publisher.stats.last_trouble)


def test_a_broker_that_dies_again_and_again_before_it_acknowledges_costs_no_result(tmp_path: Path) -> None:
    # it hangs up for every message: none of them is to blame
    with (
        FakeBroker(Hater(b"", connack=OK)) as broker,
        device(broker, tmp_path / "outbox", timing=QUICK) as one,
    ):
        for _ in range(3):
            one.put(result())
        one.wait(lambda: one.publisher.stats.connections >= 12, "tried", 20)
        assert one.outbox.stats.dead == 0
        assert one.outbox.depth() >= 3


def test_a_state_for_which_the_broker_hangs_up_does_not_keep_results_from_being_sent(tmp_path: Path) -> None:
    # as a broker that allows no retained messages
    broker_ = Hater(f"{PREFIX}/status".encode())
    with (
        FakeBroker(broker_) as broker,
        device(broker, tmp_path / "outbox", timing=QUICK, protocol="3.1.1") as one,
    ):
        one.put(result())
        one.delivered(20)
        assert one.outbox.stats.dead == 0
        assert one.publisher.stats.delivered == 1
