"""What is really sent is what the table of topics, the models and the schemas say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from edge_infer.messages import schemas
from edge_infer.messages.command import REQUESTS as MODELS
from edge_infer.messages.kinds import KINDS
from edge_infer.messages.topics import TEXT, TOPICS, Topic
from edge_infer.result import Part
from tests.messages.conftest import Said, topic_of
from tests.support import node

SENT = [topic for topic in TOPICS if topic.sent]


def strict(text: bytes) -> Any:
    """JSON as RFC 8259 has it: UTF-8, no NaN, no key twice."""

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), "a key stands there twice"
        return dict(pairs)

    decoded = text.decode("utf-8", errors="strict")
    decoded.encode("utf-8", errors="strict")
    return json.loads(decoded, parse_constant=refused, object_pairs_hook=once)


def validate(topic: Topic, value: Any) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    schema = schemas.of(topic)
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


@pytest.mark.parametrize("topic", SENT, ids=lambda topic: topic.name)
def test_every_topic_of_the_table_is_really_sent_and_as_it_says(topic: Topic, said: Said) -> None:
    messages = said.on(topic)
    assert messages
    expiring = 0
    for message in messages:
        assert message.qos == 1
        assert message.properties["ContentType"] == topic.content_type
        assert message.properties.get("PayloadFormatIndicator", 0) == (topic.payload != "picture")
        assert set(topic.user) <= message.user.keys() <= {*topic.user, *topic.maybe}
        said_to_be = {"last": "result/1", "image": "snapshot/1"}.get(topic.name, schemas.title(topic))
        assert message.user.get("schema", said_to_be) == said_to_be
        expiring += "MessageExpiryInterval" in message.properties
        if topic.content_type == TEXT:
            assert message.payload in (b"OK", b"NOK", b"UNDEFINED")
        elif topic.payload == "picture":
            assert message.payload[:3] == b"\xff\xd8\xff"
        else:
            validate(topic, strict(message.payload))
    assert {"no": expiring == 0, "yes": expiring == len(messages), "sometimes": expiring > 0}[topic.expires]


def test_a_subscriber_that_comes_later_finds_what_the_table_calls_retained(said: Said) -> None:
    found = {topic_of(message.topic).name for message in said.retained}
    assert found == {topic.name for topic in SENT if topic.retained != "no"}


def test_no_message_has_a_key_that_its_model_does_not_know(said: Said) -> None:
    for topic in SENT:
        if isinstance(topic.payload, str):
            continue
        for message in said.on(topic):
            value = strict(message.payload)
            if message.user.get("validUntil") and topic.name in ("last", "stats"):
                assert value.pop("validUntil") == message.user["validUntil"]
            topic.payload.model_validate_json(json.dumps(value), by_alias=True, by_name=False)


def test_every_event_is_of_a_known_kind_and_holds_its_data(said: Said) -> None:
    seen = set()
    for message in said.messages:
        if message.topic.endswith("/event"):
            event = message.json
            seen.add(event["kind"])
            model = KINDS[event["kind"]]
            model.model_validate_json(json.dumps(event["data"]), by_alias=True, by_name=False)
    assert {"configuration_loaded", "camera", "line_stop", "threshold_changed", "recipe_selected"} <= seen


def test_ajv_finds_nothing_wrong_with_a_real_message(said: Said) -> None:
    pairs = []
    for topic in SENT:
        if not isinstance(topic.payload, str):
            title = "result/1" if topic.name == "last" else schemas.title(topic)
            pairs += [[title, message.payload.decode()] for message in said.on(topic)]
    pairs += [[f"cmd/{verb}/1", json.dumps(payload)] for verb, payload in said.requests]
    assert {name for name, _ in pairs} == schemas.all_schemas().keys()
    assert set(judged(pairs)) == {None}


def test_ajv_and_jsonschema_find_what_is_wrong(said: Said) -> None:
    (good, *_) = [message.json for message in said.messages if message.topic.endswith("/cap/result")]
    wrong = [
        good | {"decision": "ok"},
        good | {"seq": 0},
        good | {"reasons": [{"code": "tired", "text": ""}]},
        good | {"ageMs": "20"},
        {key: value for key, value in good.items() if key != "streamId"},
    ]
    (topic,) = [one for one in TOPICS if one.name == "result"]
    assert None not in judged([["result/1", json.dumps(one)] for one in wrong])
    for one in wrong:
        with pytest.raises(jsonschema.ValidationError):
            validate(topic, one)
    # additive: what a later version adds is no mistake
    assert judged([["result/1", json.dumps(good | {"added": 1})]]) == [None]


def judged(pairs: list[list[str]]) -> list[str | None]:
    """What ajv says of each."""
    asked = json.dumps({"schemas": schemas.all_schemas(), "messages": pairs})
    done = node.run("ajv.js", text=asked)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_request_fits_its_schema_exactly_when_the_device_takes_it(said: Said) -> None:
    odd: tuple[dict[str, Any], ...] = (
        {"partId": "a\u0000"}, {"value": 2}, {"value": "0.5"}, {"recipeId": "../x"}, {"unknown": 1},
        {"partId": ""}, {"recipeId": None}, {"replyTo": 5}, {"expiresAt": "yesterday"}, {"kind": "x"},
        {"partId": "\U0001f9f4"}, {"kind": "drawn"}, {"value": 0.5, "rule": ""}, {"correlationId": "c"},
        {"resultId": "x"},
    )  # fmt: skip
    asked = [*said.requests, *((verb, payload) for verb in MODELS for payload in odd)]
    fits = judged([[f"cmd/{verb}/1", json.dumps(payload)] for verb, payload in asked])
    taken = [_taken(MODELS[verb], payload) for verb, payload in asked]  # type: ignore[index]
    differ = [pair for pair, why, ok in zip(asked, fits, taken, strict=True) if (why is None) != ok]
    assert differ == []
    assert {True, False} == set(taken)


def _taken(model: type[Part], payload: dict[str, Any]) -> bool:
    try:
        model.model_validate_json(json.dumps(payload))
    except ValueError:
        return False
    return True
