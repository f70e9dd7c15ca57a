from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edge_infer.messages.info import InfoMessage
from edge_infer.messages.stats import StatsMessage
from edge_infer.result import json_schema
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import subscribed

DOC = Path(__file__).parents[2] / "docs" / "mqtt.md"


def _example(name: str) -> dict[str, Any]:
    found = re.search(rf"<!-- example: {name} -->\n```json\n(.*?)```", DOC.read_text(), re.DOTALL)
    assert found, f"docs/mqtt.md has no example {name}"
    example: dict[str, Any] = json.loads(found[1])
    return example


def test_the_result_in_the_documentation_fits_the_schema_and_has_every_key() -> None:
    example = _example("result")
    jsonschema.validate(example, json_schema())
    assert example.keys() == set(json_schema()["required"])


@pytest.mark.parametrize("name", ["status", "counts", "event", "gap"])
def test_the_documentation_shows_what_is_sent(name: str, mosquitto: Mosquitto, tmp_path: Path) -> None:
    one = Device(mosquitto, tmp_path / "outbox", outbox={"max_rows": 3})
    one.publisher.event("line_stop", {"decision": "NOK"}, "cap")
    for _ in range(40):
        one.put(result("cap"))
    one.outbox.flush(5)
    one.publisher.counts("cap", one.outbox.counts("cap"))
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
        one.start()
        message = subscriber.wait_on(f"/{name}")[0].json
    one.close()
    example = _example(name)
    assert example.keys() == message.keys()
    for key, shown in example.items():
        if key not in ("data", "station") and message[key] is not None:
            assert isinstance(message[key], type(shown)), key


def test_info_and_stats_in_the_documentation_fit_their_models() -> None:
    for name, model in (("info", InfoMessage), ("stats", StatsMessage)):
        shown = _example(name)
        read = model.model_validate(shown)
        assert json.loads(read.model_dump_json(by_alias=True)).keys() == shown.keys()


def test_every_topic_that_is_sent_is_documented(mosquitto: Mosquitto, tmp_path: Path) -> None:
    text = DOC.read_text()
    with subscribed(mosquitto, "#") as subscriber, device(mosquitto, tmp_path / "outbox") as one:
        one.connected()
        ok = result("cap", "OK")
        one.publisher.decision("cap", ok)
        one.put(ok, lambda final: one.publisher.last("cap", final))
        one.publisher.counts("cap", one.outbox.counts("cap"))
        one.publisher.event("line_stop", {}, "cap")
        subscriber.wait_for(lambda messages: len({message.topic for message in messages}) == 6)
        for message in subscriber.messages:
            topic = message.topic.replace(PREFIX, "{prefix}").replace("/cap/", "/{station}/")
            assert f"`{topic}`" in text


def test_the_access_rights_in_the_documentation_are_enough(tmp_path: Path) -> None:
    rights = re.findall(r"^pattern .*$", DOC.read_text(), re.MULTILINE)
    assert len(rights) == 4
    # the broker's name for the user is the device's
    acl = "\n".join([*rights, "user watcher", "topic readwrite #", ""])
    users = {"ipc7": "p", "watcher": "w"}
    with Mosquitto(tmp_path / "mosquitto", users=users, acl=acl) as broker:
        broker.user, broker.password = "watcher", "w"
        with subscribed(broker, f"{PREFIX}/#") as subscriber:
            broker.user, broker.password = "ipc7", "p"
            with device(broker, tmp_path / "outbox") as one:
                one.put(result())
                one.publisher.event("x", {})
                for topic in ("status", "result", "event"):
                    subscriber.wait_on(topic)
                one.delivered()
                assert one.publisher.stats.refused == 0
