from __future__ import annotations

import hashlib
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
from PIL import Image as Pillow

from edge_infer.evidence import evidence as module
from edge_infer.evidence.pictures import Scene, encode_all
from edge_infer.findings import Anomaly, ClassScore, Detections, Findings, Grid
from edge_infer.result import AnomalyContent, Reason, Result, RuleOutcome, StoredPicture
from tests.support.evidence import DAY, Store, lay, pictures, scene, until
from tests.support.results import result

Open = Callable[..., Store]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Open]:
    opened: list[Store] = []

    def start(**settings: Any) -> Store:
        opened.append(Store(tmp_path / "evidence", **settings))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def path_of(picture: StoredPicture | None) -> Path:
    assert picture is not None
    return Path(unquote(urlparse(picture.uri).path))


def looked_at(picture: StoredPicture | None) -> Pillow.Image:
    """Decoded by somebody else, after everything that the result says of the file was compared."""
    assert picture is not None
    data = path_of(picture).read_bytes()
    assert hashlib.sha256(data).hexdigest() == picture.sha256
    image = Pillow.open(path_of(picture))
    assert (image.format, image.size) == ("JPEG", (picture.width, picture.height))
    assert picture.content_type == "image/jpeg"
    image.load()
    return image


def heat() -> Grid:
    return Grid(
        np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8), 8 / 640, 8 / 480, 0, 0, (0, 0, 640, 480)
    )


def test_a_record_names_pictures_that_a_foreign_decoder_reads_with_the_right_hash(store: Open) -> None:
    one = store()
    boxes = Detections(
        np.array([[100, 100, 300, 300]], np.float32),
        np.array([0.9], np.float32),
        np.zeros(1, np.int32),
        ("cap",),
    )
    seen = scene(findings=Findings(boxes))
    one.evidence.offer(result(decision="NOK"), seen)
    (record,) = one.wait(1)
    until(lambda: one.evidence.stored == 1)
    assert record.image is not None
    assert record.has_transferable_data_on_file
    raw = np.asarray(looked_at(record.image))[:, :, ::-1].astype(int)
    assert np.abs(raw - seen.frame.pixels.astype(int)).mean() < 12
    drawn = np.asarray(looked_at(record.image.drawn))[:, :, ::-1].astype(int)
    # the box, and what was decided in the lower left corner; the rest as it was
    assert np.abs(drawn - raw)[100:300, 100].mean() > 30
    assert np.abs(drawn - raw)[-16:, :60].mean() > 30
    assert np.abs(drawn - raw)[320:400, 320:].mean() < 10


def test_an_anomaly_has_its_heat_map_stored(store: Open) -> None:
    one = store()
    content = AnomalyContent(score=0.9, threshold=0.5, hot_box=None)
    before = result(decision="NOK").model_copy(update={"result_content": (content,)})
    one.evidence.offer(before, scene(findings=Findings(anomaly=Anomaly(0.9, heat_map=heat()))))
    (record,) = one.wait(1)
    until(lambda: one.evidence.stored == 1)
    (told,) = record.result_content
    assert isinstance(told, AnomalyContent)
    grey = np.asarray(looked_at(told.map))
    assert grey.shape == (480, 640)
    assert grey[0, 0] < 10
    assert grey[-1, -1] > 245


def test_a_frame_that_was_not_judged_is_kept_as_it_is(store: Open) -> None:
    one = store()
    undrawn = Scene(scene().frame, None, lambda _w, _h: pytest.fail("nothing is drawn"))
    one.evidence.offer(result(decision="UNDEFINED"), undrawn)
    (record,) = one.wait(1)
    assert record.image is not None
    assert record.image.drawn is None
    until(lambda: one.evidence.stored == 1)
    looked_at(record.image)


@pytest.mark.parametrize("label", ["瓶", "Flaschenverschluß", "زجاجة", "\ud800", "\x00", "", "😀" * 50])
def test_d19_labels_in_any_script_are_drawn_without_a_crash(store: Open, label: str) -> None:
    one = store()
    boxes = Detections(
        np.array([[100, 100, 300, 300]], np.float32),
        np.array([0.9], np.float32),
        np.zeros(1, np.int32),
        (label,),
    )
    classes = (ClassScore(label, 3, 0.5),)
    why = result(decision="UNDEFINED").model_copy(
        update={
            "reasons": (Reason(code="rule_not_evaluable", text="瓶 ?"),),
            "rules": (RuleOutcome(name="no-tear", decision="NOK", seen=None),),
        }
    )
    one.evidence.offer(why, scene(findings=Findings(boxes, classes=classes)))
    (record,) = one.wait(1)
    assert record.image is not None
    until(lambda: one.evidence.stored == 1)
    looked_at(record.image.drawn)


def test_results_without_evidence_pass_straight_through(store: Open) -> None:
    one = store(ok_every=1000)
    for _ in range(50):
        one.evidence.offer(sent := result(), scene())
        assert one.records[-1] is sent
    one.evidence.offer(nothing_seen := result(decision="UNDEFINED"), None)
    assert one.records[-1] is nothing_seen


def test_results_of_one_station_stay_in_order_whatever_is_encoded(store: Open) -> None:
    one = store(ok_every=3)
    sent = [result(station, "OK" if number % 4 else "NOK") for number in range(60) for station in ("a", "b")]
    small = scene(160, 120)
    for each in sent:
        one.evidence.offer(each, small)
        time.sleep(0.001)  # so that pictures are encoded meanwhile
    one.wait(len(sent))
    for station in ("a", "b"):
        assert [each.result_id for each in one.records if each.station == station] == [
            each.result_id for each in sent if each.station == station
        ]
    assert sum(each.image is not None for each in one.records) > 20


@pytest.mark.usefixtures("hold_s")
def test_frames_in_hand_are_few_and_what_is_beyond_goes_without_pictures(
    store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = threading.Event()
    real = encode_all

    def wait_first(one: Result, seen: Scene) -> Any:
        slow.wait(10)
        return real(one, seen)

    monkeypatch.setattr(module, "encode_all", wait_first)
    one = store()
    tracemalloc.start()
    frame_bytes = scene(1280, 720).frame.pixels.nbytes
    before = tracemalloc.get_traced_memory()[0]
    for number in range(40):
        one.evidence.offer(result(f"s{number % 4}", "NOK"), scene(1280, 720, seed=number))
    assert tracemalloc.get_traced_memory()[0] - before < 7 * frame_bytes
    tracemalloc.stop()
    # no record waits for the encoder longer than a moment
    one.wait(40, timeout_s=2)
    slow.set()
    assert one.evidence.dropped >= 35
    assert not any(each.image for each in one.records)
    one.close()
    # nothing is stored that no result names
    assert not pictures(one.folder)


def test_a_picture_that_cannot_be_made_costs_only_itself(
    store: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = store()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug in drawing")

    with monkeypatch.context() as patched:
        patched.setattr("edge_infer.evidence.pictures.draw", broken)
        (record,) = one.offer()
        until(lambda: "a bug in drawing" in caplog.text)
    assert record.image is not None
    assert record.image.drawn is None
    (record,) = one.offer()
    assert record.image is not None
    assert record.image.drawn is not None
    until(lambda: one.evidence.stored == 2)


def test_a_first_letter_that_cannot_be_drawn_does_not_end_the_encoder(
    store: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("no font")

    monkeypatch.setattr(module, "_warm_up", broken)
    one = store()
    one.offer()
    until(lambda: one.evidence.stored == 1)
    assert "no font" in caplog.text


def test_old_pictures_are_deleted_at_the_start_and_new_ones_do_not_wait_for_that(
    tmp_path: Path, store: Open
) -> None:
    old = [lay(tmp_path / "evidence", DAY * (40 + number % 20)) for number in range(500)]
    young = lay(tmp_path / "evidence", DAY * 3)
    start_s = time.monotonic()
    one = store(max_age_days=30)
    one.offer()
    assert time.monotonic() - start_s < 0.5
    until(lambda: not any(path.exists() for path in old))
    assert young.exists()
    until(lambda: one.evidence.stored == 1)
    assert len(pictures(tmp_path / "evidence")) == 3


def test_pictures_to_publish_are_handed_over_and_others_are_not(store: Open) -> None:
    one = store(publish=["drawn"])
    (record,) = one.offer()
    until(lambda: one.published)
    ((named, picture),) = one.published
    assert named.result_id == record.result_id
    assert record.image is not None
    assert record.image.drawn is not None
    assert (picture.kind, picture.sha256) == ("drawn", record.image.drawn.sha256)


def test_a_close_stores_what_is_in_hand(tmp_path: Path) -> None:
    one = Store(tmp_path / "evidence")
    for number in range(3):
        one.evidence.offer(result(decision="NOK"), scene(seed=number))
    one.close()
    assert len(one.records) == 3
    named = [each.image for each in one.records if each.image]
    assert {path_of(image) for image in named} <= set(pictures(tmp_path / "evidence"))
    assert not one.told("evidence_lost")
    one.evidence.offer(late := result(decision="NOK"), scene())
    assert one.records[-1] is late


def test_age_counts_from_the_result(tmp_path: Path, store: Open) -> None:
    young = lay(tmp_path / "evidence", timedelta(hours=1))
    old = lay(tmp_path / "evidence", timedelta(hours=3))
    store(max_age_days=2 / 24)
    until(lambda: not old.exists())
    assert young.exists()
