from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.pki import Pki
from tests.support.publishers import device
from tests.support.results import result


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("tls") / "pki")


@pytest.fixture
def mutual(pki: Pki, tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that asks for a certificate."""
    with Mosquitto(tmp_path / "mosquitto", lines=pki.lines(client=True)) as broker:
        yield broker


def test_results_are_delivered_over_tls_with_a_certificate_on_both_sides(
    mutual: Mosquitto, pki: Pki, tmp_path: Path
) -> None:
    tls = {"ca": pki.path("ca.crt"), "cert": pki.path("ipc7.crt"), "key": pki.path("ipc7.key")}
    with device(mutual, tmp_path / "outbox", tls=tls) as one:
        one.connected()
        for _ in range(200):
            one.put(result(found=40))
        one.delivered()
        assert one.publisher.stats.delivered == 200


def test_without_a_certificate_such_a_broker_is_not_reached_and_says_why(
    mutual: Mosquitto, pki: Pki, tmp_path: Path
) -> None:
    with device(mutual, tmp_path / "outbox", tls={"ca": pki.path("ca.crt")}) as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "certificate" in str(one.publisher.stats.trouble)


def test_a_broker_of_another_authority_is_not_trusted(mutual: Mosquitto, pki: Pki, tmp_path: Path) -> None:
    with device(mutual, tmp_path / "outbox", tls={"ca": pki.path("rogue.crt")}) as one:
        one.put(result())
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "certificate is not accepted" in str(one.publisher.stats.trouble)
        assert one.publisher.stats.connections == 0


def test_a_certificate_for_another_name_is_not_accepted(mutual: Mosquitto, pki: Pki, tmp_path: Path) -> None:
    mutual.host = "localhost"
    with device(mutual, tmp_path / "outbox", tls={"ca": pki.path("ca.crt")}) as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "not valid for 'localhost'" in str(one.publisher.stats.trouble)


def test_without_the_brokers_authority_behind_it_a_devices_certificate_lets_nobody_in(
    mutual: Mosquitto, pki: Pki, tmp_path: Path
) -> None:
    tls = {"ca": pki.path("ca.crt"), "cert": pki.path("rogue.crt"), "key": pki.path("rogue.key")}
    with device(mutual, tmp_path / "outbox", tls=tls) as one:
        one.put(result())
        assert one.outbox.flush(5)
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert one.publisher.stats.connections == 0
        assert one.outbox.depth() == 1


def test_a_devices_own_expired_certificate_is_named_as_the_reason(
    mutual: Mosquitto, pki: Pki, tmp_path: Path
) -> None:
    pki.sign("old", days=-2, begins_in_days=-20)
    tls = {"ca": pki.path("ca.crt"), "cert": pki.path("old.crt"), "key": pki.path("old.key")}
    with device(mutual, tmp_path / "outbox", tls=tls) as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "this device's certificate has expired on" in str(one.publisher.stats.trouble)
        assert one.publisher.stats.connections == 0


def test_over_tls_an_acl_by_identity_refuses_one_topic_and_lets_the_others_through(
    pki: Pki, tmp_path: Path
) -> None:
    # this broker closes the connection after each refused publish
    acl = "pattern write vision/v1/+/+/%u/cap/#\npattern write vision/v1/+/+/%u/event\n"
    lines = (*pki.lines(client=True), "use_identity_as_username true")
    tls = {"ca": pki.path("ca.crt"), "cert": pki.path("ipc7.crt"), "key": pki.path("ipc7.key")}
    with (
        Mosquitto(tmp_path / "mosquitto", lines=lines, acl=acl) as broker,
        device(broker, tmp_path / "outbox", tls=tls) as one,
    ):
        one.connected()
        for i in range(10):
            one.put(result("cap" if i % 5 else "label"))
        one.wait(lambda: one.outbox.stats.dead == 2, "set aside", 20)
        one.delivered(20)
        # eight results and an event about each of the two
        assert one.publisher.stats.delivered >= 10
        assert one.publisher.stats.taken_over == 0


def test_an_expired_certificate_is_said_with_the_local_time_and_tried_again(pki: Pki, tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "mosquitto", lines=pki.lines("expired")) as broker,
        device(broker, tmp_path / "outbox", tls={"ca": pki.path("ca.crt")}) as one,
    ):
        one.put(result())
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "certificate has expired" in str(one.publisher.stats.trouble)
        assert "UTC" in str(one.publisher.stats.trouble)
        assert one.publisher._thread.is_alive()


def test_a_missing_certificate_file_is_named(mutual: Mosquitto, tmp_path: Path) -> None:
    with device(mutual, tmp_path / "outbox", tls={"ca": str(tmp_path / "none.crt")}) as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "none.crt" in str(one.publisher.stats.trouble)


def test_plain_text_to_a_tls_port_is_no_connection(mutual: Mosquitto, tmp_path: Path) -> None:
    with device(mutual, tmp_path / "outbox") as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert one.publisher.stats.connections == 0
