"""Pictures to a real broker, also one that takes only small packets."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from edge_infer.delivery import Delivery
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.remote.recent import Recent
from edge_infer.station import StationSettings
from tests.support.evidence import scene, until
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import subscribed

STATION = StationSettings(camera="top", model="m")


@contextmanager
def delivery(one: Device, folder: Path, **settings: Any) -> Iterator[Delivery]:
    written = {"min_free_bytes": 0, "publish": ["raw", "drawn"], **settings}
    made = Delivery(one.outbox, one.publisher, PREFIX, Recent(scenes=False))
    made.keep_pictures(EvidenceSettings.model_validate_json(json.dumps(written)), folder)
    yield made
    made.close(5)


def test_the_stored_pictures_are_sent_with_the_id_of_their_result(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
        delivery(one.connected(), tmp_path / "evidence") as made,
    ):
        seen = scene()
        made.publish(sent := result(decision="NOK"), seen.frame, seen.findings, STATION)
        (record,) = subscriber.wait_on("/cap/result")
        (raw,) = subscriber.wait_on("/cap/image/raw")
        (drawn,) = subscriber.wait_on("/cap/image/drawn")
    image = record.json["image"]
    assert hashlib.sha256(raw.payload).hexdigest() == image["sha256"]
    assert hashlib.sha256(drawn.payload).hexdigest() == image["drawn"]["sha256"]
    assert raw.user["resultId"] == sent.result_id
    assert raw.properties["ContentType"] == "image/jpeg"
    assert not raw.retained


def test_d07_a_picture_larger_than_the_broker_takes_is_sent_smaller_and_the_result_whole(
    tmp_path: Path,
) -> None:
    with (
        Mosquitto(tmp_path / "broker", lines=("max_packet_size 60000",)) as broker,
        subscribed(broker, f"{PREFIX}/#") as subscriber,
        device(broker, tmp_path / "outbox") as one,
        delivery(one.connected(), tmp_path / "evidence") as made,
    ):
        seen = scene(1920, 1080)
        made.publish(result(decision="NOK"), seen.frame, seen.findings, STATION)
        (record,) = subscriber.wait_on("/cap/result")
        (raw,) = subscriber.wait_on("/cap/image/raw")
        # stored as it was
        assert record.json["image"]["width"] == 1920
        assert one.publisher.stats.connections == 1
    small = Pillow.open(io.BytesIO(raw.payload))
    assert len(raw.payload) < 60_000
    assert small.width >= 200
    assert abs(small.width / small.height - 16 / 9) < 0.05


def test_d07_where_not_even_a_small_picture_fits_one_line_says_so_and_results_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Mosquitto(tmp_path / "broker", lines=("max_packet_size 3500",)) as broker,
        subscribed(broker, f"{PREFIX}/#") as subscriber,
        device(broker, tmp_path / "outbox") as one,
        delivery(one.connected(), tmp_path / "evidence") as made,
    ):
        for number in range(3):
            seen = scene(1920, 1080, seed=number)
            made.publish(result(decision="NOK"), seen.frame, seen.findings, STATION)
        subscriber.wait_on("/cap/result", 3)
        until(lambda: len(list(tmp_path.glob("evidence/cap/*/*-raw.jpg"))) == 3)
        assert not subscriber.on("/image/raw")
    assert sum("pictures stay here" in line for line in caplog.messages) == 1
