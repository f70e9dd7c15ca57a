"""Everything that the real service says, heard at a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_infer.messages.topics import TOPICS, Topic
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device
from tests.support.remote import Asker
from tests.support.results import result
from tests.support.running import Running
from tests.support.runs import site
from tests.support.subscriber import Received, Subscriber, subscribed

RESPONSES = "vision/v1/rsp/"


@dataclass(frozen=True)
class Said:
    """All of it, and what a subscriber finds that comes later."""

    messages: tuple[Received, ...]
    retained: tuple[Received, ...]
    requests: tuple[tuple[str, dict[str, Any]], ...]
    """Verb and payload of those that were carried out."""

    def on(self, topic: Topic) -> list[Received]:
        return [message for message in self.messages if topic_of(message.topic) is topic]


def topic_of(name: str) -> Topic:
    """Whose row of the table it is."""
    if name.startswith(RESPONSES):
        return next(topic for topic in TOPICS if topic.name == "reply")
    levels = name.removeprefix(f"{PREFIX}/").split("/")
    found = [
        topic
        for topic in TOPICS
        if topic.below is not None and _fits(levels, topic.below.replace("{verb}", topic.name).split("/"))
    ]
    assert len(found) == 1, name
    return found[0]


def _fits(levels: list[str], template: list[str]) -> bool:
    return len(levels) == len(template) and all(
        wanted.startswith("{") or level == wanted for level, wanted in zip(levels, template, strict=True)
    )


def loud_site(folder: Path, broker: Mosquitto) -> Path:
    """A drawn line whose parts are all NOK, pictures and commands switched on."""
    found = {"name": "some", "count": {"labels": ["bottle"], "at_least": 1}}
    on_it = {"camera": "scene", "model": "m", "rules": [found]}
    return site(
        folder,
        broker,
        fps=10,
        stations={
            "cap": {**on_it, "publish": {"every_s": 0.2}, "line_stop": {"consecutive": 3}},
            "part": {**on_it, "trigger": {"type": "mqtt"}},
        },
        evidence={"min_free_bytes": 0, "publish": ["raw", "drawn"]},
        commands={
            "allow": [
                "snapshot", "set_threshold", "select_recipe", "reset_counts", "reload",
                "get_status", "get_result", "ping",
            ]
        },
        recipes={"blue": {"part": {"rules": [{**found, "name": "blue"}]}}},
    )  # fmt: skip


REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ping", {}),
    ("get_status", {}),
    ("cap/get_status", {}),
    ("part/start_single_job", {"partId": "p-1"}),
    ("cap/snapshot", {"kind": "raw"}),
    ("cap/set_threshold", {"rule": "some", "value": 0.4}),
    ("part/select_recipe", {"recipeId": "blue"}),
    ("cap/reset_counts", {}),
    ("cap/get_result", {}),
    ("reload", {}),
)


@pytest.fixture(scope="session")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Said]:
    folder = tmp_path_factory.mktemp("said")
    with Mosquitto(folder / "mosquitto") as broker:
        path = loud_site(folder, broker)
        with subscribed(broker, f"{PREFIX}/#", f"{RESPONSES}#") as subscriber:
            service = Running(path)
            try:
                requests, retained = _ask(broker, subscriber, service)
            finally:
                assert service.stop() == 0, service.log
            subscriber.wait_for(lambda all_: any(b'"stopped"' in one.payload for one in all_))
            _give_up(broker, subscriber, folder)
            yield Said(tuple(subscriber.messages), retained, requests)


def _ask(
    broker: Mosquitto, subscriber: Subscriber, service: Running
) -> tuple[tuple[tuple[str, dict[str, Any]], ...], tuple[Received, ...]]:
    for ending in ("/info", "/stats", "/cap/result", "/cap/counts", "/cap/image/drawn", "/event"):
        subscriber.wait_on(ending)
    with subscribed(broker, f"{PREFIX}/#") as later:
        for ending in ("/status", "/info", "/camera/scene", "/cap/counts", "/cap/decision", "/cap/last"):
            later.wait_on(ending)
        retained = tuple(message for message in later.messages if message.retained)
    asker = Asker(subscriber)
    done = []
    for verb, payload in REQUESTS:
        answer = asker.ask(verb, payload)
        assert answer["status"] == "ok", (verb, answer, service.log)
        done.append((verb.rpartition("/")[2], payload))
    asker.ask("cap/get_result", {"resultId": "0"})
    asker.ask("cap/set_threshold", {"value": 2})
    subscriber.wait_on("/part/result")
    subscriber.wait_on("/cap/image/snapshot")
    return tuple(done), retained


def _give_up(broker: Mosquitto, subscriber: Subscriber, folder: Path) -> None:
    """Without a broker more results than may wait."""
    one = Device(broker, folder / "full", outbox={"max_rows": 3})
    for _ in range(40):
        one.put(result("cap"))
    one.outbox.flush(5)
    one.start()
    until = time.monotonic() + 10
    while not subscriber.on("/cap/gap") and time.monotonic() < until:
        subscriber.wait_for(lambda _: True)
        time.sleep(0.02)
    one.close()
