"""The running service, its outbox and the command line, as a subscriber sees them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber, Running
from tests.support.runs import site

ALL = "vision/v1/plant1/l3/ipc7/#"


@pytest.fixture
def subscriber(mosquitto: Mosquitto) -> Iterator[ForeignSubscriber]:
    one = ForeignSubscriber(mosquitto, ALL)
    yield one
    one.close()


def _ask(config: Path, verb: str, *options: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "edge_infer", "outbox", verb, str(config), "--json", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, int] = json.loads(done.stdout)
    return answer


def _given_up(gaps: list[Arrived]) -> set[int]:
    return {
        number
        for gap in gaps
        for one in gap.json["ranges"]
        for number in range(one["fromSeq"], one["toSeq"] + 1)
    }


def test_a_subscriber_misses_no_number_when_a_person_purges_while_the_service_runs(
    mosquitto: Mosquitto, subscriber: ForeignSubscriber, tmp_path: Path
) -> None:
    config = site(tmp_path / "site", mosquitto, fps=50)
    service = Running(config)
    try:
        subscriber.wait(lambda results: len(results) >= 5, "/result")
        mosquitto.freeze()
        until = time.monotonic() + 15
        while _ask(config, "show")["waiting"] < 60:
            assert time.monotonic() < until
        answer = _ask(config, "purge", "--yes")
        mosquitto.thaw()
        subscriber.wait(bool, "/gap")
        before = len(subscriber.messages("/result"))
        subscriber.wait(lambda results: len(results) >= before + 5, "/result")
        assert service.stop() == 0
    finally:
        service.kill()
    seqs = {one.json["seq"] for one in subscriber.messages("/result")}
    gaps = subscriber.messages("/gap")
    assert {gap.json["reason"] for gap in gaps} == {"purged"}
    assert answer["purged"] == len(_given_up(gaps)) > 20
    assert not seqs & _given_up(gaps)
    assert seqs | _given_up(gaps) == set(range(1, max(seqs) + 1))


def test_counts_are_told_at_the_start_with_a_shift_and_go_on_after_a_kill(
    mosquitto: Mosquitto, subscriber: ForeignSubscriber, tmp_path: Path
) -> None:
    config = site(tmp_path / "site", mosquitto)
    service = Running(config)
    subscriber.wait(lambda results: len(results) >= 30, "/result")
    service.kill()
    again = Running(config)
    try:
        told = len(subscriber.messages("/counts"))
        subscriber.wait(lambda counts: len(counts) > told, "/counts")
        first = subscriber.messages("/counts")[told].json
        assert again.stop() == 0
    finally:
        again.kill()
    last = subscriber.messages("/counts")[-1].json
    assert sum(first[word] for word in ("OK", "NOK", "UNDEFINED")) >= 30
    assert first["shift"]["since"] == last["shift"]["since"]
    seqs = {one.json["seq"] for one in subscriber.messages("/result")}
    for counts in (last, last["shift"]):
        assert sum(counts[word] for word in ("OK", "NOK", "UNDEFINED")) == max(seqs)


def test_a_subscriber_misses_no_number_when_the_database_is_deleted_and_the_service_killed(
    mosquitto: Mosquitto, subscriber: ForeignSubscriber, tmp_path: Path
) -> None:
    config = site(tmp_path / "site", mosquitto)
    service = Running(config)
    again = None
    try:
        subscriber.wait(lambda results: len(results) >= 5, "/result")
        mosquitto.freeze()
        until = time.monotonic() + 15
        while _ask(config, "show")["waiting"] < 20:
            assert time.monotonic() < until
        (database,) = tmp_path.rglob("outbox.db")
        for one in database.parent.glob("outbox.db*"):
            one.unlink()
        while not database.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert _ask(config, "show")["waiting"] >= 20
        service.kill()
        mosquitto.thaw()
        again = Running(config)
        subscriber.wait(lambda events: bool(_restored(events)), "/event")
        before = len(subscriber.messages("/result"))
        subscriber.wait(lambda results: len(results) >= before + 5, "/result")
        assert again.stop() == 0
    finally:
        service.kill()
        if again is not None:
            again.kill()
    results = subscriber.messages("/result")
    assert _restored(subscriber.messages("/event"))[0]["rows"] >= 20
    assert len({one.json["streamId"] for one in results}) == 1
    found = {one.json["seq"] for one in results}
    assert found == set(range(1, max(found) + 1))


def _restored(events: Sequence[Arrived]) -> list[dict[str, int]]:
    return [one.json["data"] for one in events if one.json["kind"] == "outbox_restored"]
