"""docs/mqtt.md is held against the table of topics, the schemas and what the running service sends."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_infer.messages.kinds import KINDS
from edge_infer.messages.topics import TOPICS, Topic
from edge_infer.mqtt.connection import LARGEST_PACKET
from edge_infer.outbox.ready import FRESH_S
from edge_infer.remote.payload import LARGEST
from tests.messages.conftest import Said
from tests.messages.test_messages import validate

TEXT = (Path(__file__).parents[2] / "docs/mqtt.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\w+) -->\n```json\n(.*?)```", TEXT, re.DOTALL))
JSON = [one for one in TOPICS if one.sent and not isinstance(one.payload, str) and one.name != "last"]


def rows(heading: str) -> list[list[str]]:
    """Of the first table below it, without its head."""
    below = TEXT.partition(f"\n{heading}\n")[2] if heading else TEXT
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


def shape(value: Any) -> Any:
    """Keys and kinds of values; null may be anything, an empty list may hold anything."""
    if isinstance(value, Mapping):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    if isinstance(value, bool | str):
        return type(value).__name__
    if isinstance(value, int | float):
        return "number"
    return None


def differ(shown: Any, real: Any) -> list[str]:
    """Where the two are not of one shape."""
    if isinstance(shown, dict) and isinstance(real, dict):
        found = [str(key) for key in shown.keys() ^ real.keys()]
        return found + [
            f"{key}.{one}" for key in shown.keys() & real.keys() for one in differ(shown[key], real[key])
        ]
    if isinstance(shown, list) and isinstance(real, list):
        return differ(shown[0], real[0]) if shown and real else []
    return ["."] if None not in (shown, real) and shown != real else []


def test_every_json_in_the_reference_is_an_example_of_a_message() -> None:
    assert len(EXAMPLES) == TEXT.count("```json")
    assert EXAMPLES.keys() == {topic.name for topic in JSON}


@pytest.mark.parametrize("topic", JSON, ids=lambda topic: topic.name)
def test_an_example_fits_its_schema_and_looks_like_what_is_sent(topic: Topic, said: Said) -> None:
    example = json.loads(EXAMPLES[topic.name])
    validate(topic, example)
    real = [message.json for message in said.on(topic)]
    if topic.name in ("event", "reply"):
        for one in (example, *real):
            one["data"] = None
    if topic.name == "status":
        real = [one for one in real if one["state"] == example["state"]]
    for one in real:
        # by what the device has: its packages, what it gave up, the recipe that it runs
        for path in (("versions", "packages"), ("outbox", "givenUp")):
            if path[0] in example:
                example[path[0]][path[1]] = one[path[0]][path[1]] = None
        for optional in ("partId", "image", "externalRecipeId", "validUntil", "dup"):
            if optional not in example:
                one.pop(optional, None)
    assert [differ(shape(example), shape(one)) for one in real] == [[]] * len(real)


def test_the_table_of_topics_is_the_one_in_the_code() -> None:
    written = {}
    for topic, retained, _, outbox in rows(""):
        for name in re.findall(r"`([^`]+)`", topic):
            written[name] = (retained.partition(",")[0], outbox)
    for one in TOPICS:
        if not one.sent or one.below is None:
            continue
        how = {"no": "no", "yes": "yes", "expiring": "MQTT 5"}[one.retained]
        assert written.pop(f"{{prefix}}/{one.below}") == (how, "yes" if one.outbox else "no")
    commands = {"{prefix}/{station}/cmd/{verb}", "{prefix}/cmd/{verb}", "vision/v1/rsp/…"}
    assert written.keys() == commands | {"{prefix}/{station}/image/snapshot"}


def test_every_kind_of_event_is_explained_with_its_data() -> None:
    written = {kind.strip("`"): set(re.findall(r"`(\w+)`", data)) for kind, data, _ in rows("## event")}
    said = {kind: {field.alias for field in model.model_fields.values()} for kind, model in KINDS.items()}
    assert written == said


def test_numbers_in_the_reference_are_those_of_the_code() -> None:
    assert FRESH_S == 3
    assert TEXT.count("in the last three seconds before") == 2
    assert f"at most {LARGEST:,} bytes" in TEXT
    assert LARGEST < LARGEST_PACKET
