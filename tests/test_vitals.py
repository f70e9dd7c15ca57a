from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edge_infer.messages.stats import StatsMessage
from edge_infer.mqtt.settings import Tls
from edge_infer.vitals import Vitals, disk, process, temperatures
from tests.support.mosquitto import Mosquitto
from tests.support.pki import Pki
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import subscribed


@contextmanager
def _telling(one: Device, folder: Path, *, tls: Tls | None = None, every_s: float = 1.2) -> Iterator[Vitals]:
    vitals = Vitals(
        one.publisher,
        one.outbox,
        stations={},
        cameras={},
        tls=tls,
        state_dir=folder,
        boot_id="b0",
        every_s=every_s,
    )
    vitals.start()
    try:
        yield vitals
    finally:
        vitals.stop()


def test_the_numbers_come_again_and_again_and_are_not_kept_for_later_subscribers(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
        _telling(one, tmp_path),
    ):
        one.connected()
        one.put(result())
        one.delivered()
        stats = subscriber.wait_on("/stats", 3)
        assert not any(message.retained for message in stats)
        assert stats[0].user["schema"] == "stats/1"
        last = StatsMessage.model_validate_json(stats[-1].payload)
        assert last.outbox.committed == 1
        assert last.mqtt.delivered == 1
        assert last.mqtt.connected_since is not None
        assert last.mqtt.last_trouble is None
        assert last.disk is not None
        assert 0 < last.disk.free_bytes <= last.disk.total_bytes
        with subscribed(mosquitto, f"{PREFIX}/#") as later:
            later.wait_on("/status")
            assert not [message for message in later.on("/stats") if message.retained]


def test_an_outage_leaves_no_heap_of_old_numbers_and_is_told_afterwards(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    mosquitto.stop()
    with device(mosquitto, tmp_path / "outbox") as one, _telling(one, tmp_path, every_s=30):
        one.wait(lambda: one.publisher.stats.trouble is not None, "in trouble")
        one.lock_out()
        mosquitto.start()
        with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
            one.let_in()
            one.connected()
            one.put(result())
            subscriber.wait_on("/result")
            assert len(subscriber.wait_on("/stats")) == 1
            assert one.publisher.stats.last_trouble is not None


def test_numbers_that_are_too_old_are_not_sent_at_all(mosquitto: Mosquitto, tmp_path: Path) -> None:
    mosquitto.stop()
    with device(mosquitto, tmp_path / "outbox") as one:
        with _telling(one, tmp_path):
            one.wait(lambda: one.publisher.stats.trouble is not None, "in trouble")
        one.lock_out()
        mosquitto.start()
        time.sleep(1.3)
        with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
            one.let_in()
            one.put(result())
            subscriber.wait_on("/result")
            assert not subscriber.on("/stats")


def test_a_refused_topic_is_told_with_its_reason(tmp_path: Path) -> None:
    acl = f"user edge-infer\ntopic readwrite {PREFIX}/stats\ntopic readwrite {PREFIX}/status\n"
    with (
        Mosquitto(tmp_path / "mosquitto", acl=acl) as broker,
        subscribed(broker, f"{PREFIX}/#") as subscriber,
        device(broker, tmp_path / "outbox") as one,
    ):
        one.connected()
        one.put(result())
        one.wait(lambda: one.publisher.stats.refused > 0, "refused")
        with _telling(one, tmp_path):
            told = subscriber.wait_on("/stats")[0].json["mqtt"]["refusedTopics"]
        assert {"topic": f"{PREFIX}/cap/result", "reason": "Not authorized"} in told


def test_certificates_are_counted_down_and_one_that_expires_soon_is_said_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pki = Pki(tmp_path / "pki")
    pki.sign("soon", days=10)
    pki.sign("long", days=400)
    files = {"ca": pki.path("ca.crt"), "cert": pki.path("long.crt"), "key": pki.path("long.key")}
    tls = Tls.model_validate_json(json.dumps(files))
    with (
        Mosquitto(tmp_path / "mosquitto", lines=pki.lines("soon", client=True)) as broker,
        device(broker, tmp_path / "outbox", tls=files) as one,
        _telling(one, tmp_path, tls=tls) as vitals,
    ):
        one.connected()
        told = {each.whose: each for each in vitals.message().certificates}
        assert told.keys() == {"device", "ca", "broker"}
        assert told["device"].days_left == pytest.approx(400, abs=0.1)
        assert told["broker"].days_left == pytest.approx(10, abs=0.1)
        assert told["broker"].subject == "CN=soon"
        vitals.message()
        said = [record for record in caplog.records if "expires in 10 days" in record.getMessage()]
        assert len(said) == 1
        one.delivered()
        # the broker's and, 30 days less some seconds, the authority's
        assert one.publisher.stats.delivered == 2


def test_the_numbers_of_an_event_that_a_certificate_expires_fit_its_kind(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    from edge_infer.messages.kinds import KINDS

    pki = Pki(tmp_path / "pki")
    tls = Tls.model_validate_json(
        json.dumps({"cert": pki.path("expired.crt"), "key": pki.path("expired.key")})
    )
    with (
        subscribed(mosquitto, f"{PREFIX}/event") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
        _telling(one, tmp_path, tls=tls),
    ):
        event = subscriber.wait_on("event")[0].json
        assert event["kind"] == "certificate_expires"
        KINDS[event["kind"]].model_validate(event["data"])
        assert event["data"]["daysLeft"] < 0


def test_temperatures_are_those_that_the_kernel_tells(tmp_path: Path) -> None:
    for name, kind, milli in (("thermal_zone0", "x86_pkg_temp", "48500"), ("thermal_zone1", "acpitz", "")):
        zone = tmp_path / "class/thermal" / name
        zone.mkdir(parents=True)
        (zone / "type").write_text(f"{kind}\n")
        (zone / "temp").write_text(milli)
    assert [(one.sensor, one.celsius) for one in temperatures(tmp_path)] == [("x86_pkg_temp", 48.5)]
    assert list(temperatures(tmp_path / "none")) == []


def test_what_cannot_be_asked_is_null(tmp_path: Path) -> None:
    assert disk(tmp_path / "none") is None
    numbers = process()
    assert (numbers.rss_bytes or 0) > 1_000_000
    assert (numbers.open_files or 0) > 0


def test_numbers_that_cannot_be_read_cost_nothing_but_themselves(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Event()

    def fail(*_: Any) -> None:
        tried.set()
        raise RuntimeError("a bug")

    with device(mosquitto, tmp_path / "outbox") as one:
        monkeypatch.setattr(Vitals, "_mqtt_numbers", fail)
        with _telling(one, tmp_path) as vitals:
            assert tried.wait(5)
            time.sleep(0.05)
            assert vitals._thread.is_alive()
    assert "cannot be read" in caplog.text
