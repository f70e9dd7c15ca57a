"""The real service, asked by Prometheus' means while it judges."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_infer import clock
from edge_infer.exposition import tell_camera
from edge_infer.messages.camera import CameraMessage, CameraState
from edge_infer.metrics import catalogue as named
from edge_infer.metrics.page import Page
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.prometheus import Scrape, promtool, scrape, wait_for
from tests.support.publishers import PREFIX
from tests.support.runs import NO_BOTTLE, Run, Subscribe, site
from tests.support.scraped import FRAMES, PARTS, Scraped

ELSEWHERE = {"edge_infer_camera_packets_lost_total"}
"""Told by network cameras only: test_what_only_network_cameras_count_is_told_too."""


def _of(results: list[dict[str, Any]], station: str) -> list[dict[str, Any]]:
    return [one for one in results if one["station"] == station]


def test_prometheus_finds_nothing_wrong_with_the_page_nor_with_the_textfile(scraped: Scraped) -> None:
    promtool("check", "metrics", text=scraped.last.text)
    promtool("check", "metrics", text=scraped.textfile)


@pytest.mark.parametrize(("station", "count"), [("tape", FRAMES), ("part", PARTS)])
def test_decisions_and_reasons_are_as_many_as_the_subscriber_got(
    scraped: Scraped, station: str, count: int
) -> None:
    results = _of(scraped.results, station)
    assert len(results) == count
    for decision in ("OK", "NOK", "UNDEFINED"):
        arrived = sum(one["decision"] == decision for one in results)
        # the recording's end is a decision of its own
        told = scraped.last.value("decisions_total", station=station, decision=decision)
        assert told == arrived, decision
    codes = [reason["code"] for one in results for reason in one["reasons"]]
    for code in ("deadline", "stale", "camera_lost"):
        assert scraped.last.value("reasons_total", station=station, reason=code) == codes.count(code)
    assert scraped.last.value("triggers_total", station=station) == (PARTS if station == "part" else 0)


@pytest.mark.parametrize("station", ["tape", "part"])
def test_durations_are_the_results_own_in_seconds(scraped: Scraped, station: str) -> None:
    results = _of(scraped.results, station)
    stages = ("preprocess", "infer", "postprocess")
    told_s = [
        scraped.last.value("stage_duration_seconds_sum", station=station, stage=stage) for stage in stages
    ]
    spent_ms = sum(one["processingTimes"]["processingDuration"] for one in results)
    assert sum(told_s) == pytest.approx(spent_ms / 1000, rel=0.01)
    ages_ms = sum(one["ageMs"] for one in results)
    told = scraped.last.value("capture_to_decision_seconds_sum", station=station)
    assert told == pytest.approx(ages_ms / 1000, rel=0.01)
    assert scraped.last.value("capture_to_decision_seconds_count", station=station) == len(results)


def test_all_that_it_tells_is_in_the_catalogue_and_the_other_way_round(scraped: Scraped) -> None:
    told = {
        f"{name}_total" if family.type == "counter" else name
        for name, family in scraped.last.families.items()
    }
    assert told == {one.name for one in (*named.ALL, *named.PROCESS)} - ELSEWHERE
    for one in named.ALL:
        family = scraped.last.families.get(one.name.removesuffix("_total"))
        if family is not None:
            assert family.type == one.kind
            labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
            assert labels == {frozenset(one.labels)}, one.name


def test_no_series_comes_with_a_part_a_result_or_the_time(scraped: Scraped) -> None:
    came = {name for name, _ in scraped.last.samples.keys() - scraped.first.samples.keys()}
    # those that say nothing before the first frame
    assert came <= {"edge_infer_judged_frame_age_seconds", "edge_infer_camera_frames_per_second"}
    assert scraped.first.samples.keys() <= scraped.last.samples.keys()
    assert len(scraped.last.samples) < 400
    assert "p-1" not in scraped.last.text


def test_nobody_but_this_device_can_ask(scraped: Scraped) -> None:
    (address,) = scraped.listening
    assert address.startswith("0100007F:")


def test_the_device_tells_its_temperatures_its_energy_and_how_often_it_was_slowed_down(
    scraped: Scraped,
) -> None:
    page = scraped.last
    assert page.value("temperature_celsius", place="thermal_zone1", sensor="x86_pkg_temp") == 48.5
    assert page.value("temperature_celsius", place="hwmon1/temp2", sensor="coretemp Core 0") == 47
    assert page.value("cpu_throttles_total", scope="core") == 7
    assert scraped.first.value("energy_joules_total", zone="intel-rapl:0", name="package-0") == 0
    assert page.value("energy_joules_total", zone="intel-rapl:0", name="package-0") == 7.5


def test_what_runs_is_told_with_its_hashes(scraped: Scraped) -> None:
    (result, *_) = _of(scraped.results, "tape")
    (info,) = scraped.last.families["edge_infer_model_info"].samples
    assert info.labels["sha256"] == result["model"]["sha256"]
    assert (info.labels["requested"], info.labels["running"]) == ("CPU", "CPU")
    assert scraped.last.has("configuration_info", sha256=result["internalConfigurationId"]["hash"])
    assert scraped.last.value("model_failed", model="m") == 0
    # as many as the device takes at once: a thread each, and each of them is watched
    loops = [one.labels["loop"] for one in scraped.last.families["edge_infer_loop_late_seconds"].samples]
    threads = [one for one in loops if one.startswith("model m (request ")]
    assert scraped.last.value("model_requests", model="m") == len(threads) > 0


def test_outbox_broker_pictures_and_certificates_are_told(scraped: Scraped) -> None:
    page = scraped.last
    assert page.value("mqtt_connected") == 1
    assert page.value("outbox_committed_total") >= FRAMES + PARTS
    assert page.value("mqtt_delivered_total") >= FRAMES + PARTS
    assert page.value("outbox_given_up_total", decision="NOK") == 0
    assert page.value("evidence_results_stored_total") > 0
    assert page.value("evidence_bytes") > 0
    for whose in ("device", "ca", "broker"):
        left_s = page.value("certificate_expiry_timestamp_seconds", whose=whose) - time.time()
        assert 29 < left_s / 86400 <= 30


def test_the_newest_judged_frame_of_a_live_station_is_young_and_that_of_an_ended_one_grows_old(
    scraped: Scraped,
) -> None:
    assert scraped.later.value("judged_frame_age_seconds", station="cap") < 2
    assert scraped.later.value("decision_age_seconds", station="cap") < 2
    pages = (scraped.last, scraped.later)
    older = [page.value("judged_frame_age_seconds", station="tape") for page in pages]
    assert 0.5 < older[1] - older[0] < 3


def test_a_textfile_alone_opens_no_port_and_is_gone_after_the_stop(
    mosquitto: Mosquitto, tmp_path: Path, run: Run
) -> None:
    path = site(tmp_path / "site", mosquitto, metrics={"textfile": "own.prom", "every_s": 1})
    service, file = run(path), path.parent / "own.prom"
    until_s = time.monotonic() + 20
    while not (file.exists() and 'station="cap"' in file.read_text()):
        assert time.monotonic() < until_s, service.log
        time.sleep(0.05)
    tables = Path(f"/proc/{service.process.pid}/fd")
    sockets = {
        str(fd.readlink())[8:-1] for fd in tables.iterdir() if str(fd.readlink()).startswith("socket:[")
    }
    for line in Path(f"/proc/{service.process.pid}/net/tcp").read_text().splitlines()[1:]:
        state, inode = line.split()[3], line.split()[9]
        assert not (state == "0A" and inode in sockets)
    assert service.stop() == 0
    assert not file.exists()


def test_a_reload_resets_no_counter(mosquitto: Mosquitto, tmp_path: Path, run: Run) -> None:
    port = free_port()
    path = site(tmp_path / "site", mosquitto, metrics={"port": port})
    service = run(path)
    before = wait_for(port, lambda page: page.value("decisions_total", station="cap", decision="NOK") >= 5)
    data = yaml.safe_load(path.read_text())
    data["stations"]["cap"]["rules"] = [NO_BOTTLE]
    # the station gets a new camera and is made anew
    data["cameras"]["scene"]["seed"] = 2
    path.write_text(yaml.safe_dump(data))
    service.process.send_signal(signal.SIGHUP)
    after = wait_for(port, lambda page: page.value("decisions_total", station="cap", decision="OK") > 0)
    counters = {one.name for one in named.ALL if one.kind == "counter"}
    for (name, labels), value in before.samples.items():
        of_camera = name.startswith("edge_infer_camera_")
        if not of_camera and (name in counters or name.endswith(("_bucket", "_count", "_sum"))):
            assert after.samples[name, labels] >= value, (name, labels)
    assert after.value("decisions_total", station="cap", decision="NOK") >= 5
    assert after.families["edge_infer_configuration_info"] != before.families["edge_infer_configuration_info"]


def test_a_port_in_use_costs_only_the_numbers_and_is_an_event(
    mosquitto: Mosquitto, tmp_path: Path, run: Run, subscribe: Subscribe
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        heard = subscribe(mosquitto, f"{PREFIX}/#")
        service = run(site(tmp_path / "site", mosquitto, metrics={"port": port}))
        heard.wait(lambda all_: len(all_) >= 5, "/result")
        events = [one.json for one in heard.messages("/event")]
        (told,) = [one["data"] for one in events if one["kind"] == "metrics"]
        assert (told["way"], told["state"]) == ("http", "failed")
        assert f"port {port}" in told["text"]
    heard.wait(lambda all_: any(one.json["data"].get("state") == "ready" for one in all_), "/event")
    assert scrape(port).value("mqtt_connected") == 1
    assert service.stop() == 0


def test_clients_that_hold_on_do_not_hold_up_the_stop(scraped: Scraped) -> None:
    assert scraped.stop_s < 5


def test_what_only_network_cameras_count_is_told_too() -> None:
    class Lossy:
        state: CameraState = "connected"
        told = CameraMessage(
            camera="top", state="connected", text="", since=clock.now(), time=clock.now(), last_frame_at=None,
            frames=10, dropped=2, damaged=1, packets_lost=17, reconnections=3, fps=24.9,
        )  # fmt: skip

    page = Scrape(Page(lambda sheet: tell_camera(sheet, "top", Lossy())).text().decode())
    assert page.value("camera_packets_lost_total", camera="top") == 17
    assert page.value("camera_frames_dropped_total", camera="top") == 2
    assert page.value("camera_frames_damaged_total", camera="top") == 1
    assert page.value("camera_reconnections_total", camera="top") == 3
    assert page.value("camera_frames_per_second", camera="top") == 24.9
