"""JSON Schemas (2020-12) of all messages, made from their models."""

from __future__ import annotations

from typing import Any

from edge_infer.messages.event import EventMessage
from edge_infer.messages.kinds import KINDS
from edge_infer.messages.topics import TOPICS, Topic
from edge_infer.result import Part, Result, json_schema, message_schema


def of(topic: Topic) -> dict[str, Any]:
    """What stands on the topic; text and pictures are none of JSON Schema's business."""
    model = topic.payload
    if isinstance(model, str):
        raise TypeError(f"{topic.name} is no JSON")
    if model is Result:
        return json_schema()
    if model is EventMessage:
        return _event()
    return message_schema(model, title(topic), sent=topic.sent)


def title(topic: Topic) -> str:
    """``result/1``; of a request ``cmd/ping/1``."""
    return f"{topic.name}/1" if topic.sent else f"cmd/{topic.name}/1"


def all_schemas() -> dict[str, dict[str, Any]]:
    """By title; what several topics share stands there once."""
    schemas = {}
    seen: set[type[Part] | str] = {"decision", "picture"}
    for topic in TOPICS:
        if topic.payload not in seen:
            seen.add(topic.payload)
            schemas[title(topic)] = of(topic)
    return schemas


def _event() -> dict[str, Any]:
    """Data by kind; a kind that a reader does not know may hold anything."""
    schema = message_schema(EventMessage, "event/1")
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    rules = []
    for kind, model in KINDS.items():
        data = message_schema(model, model.__name__)
        del data["$schema"]
        definitions |= data.pop("$defs", {})
        definitions[model.__name__] = data
        rules.append(
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {"data": {"$ref": f"#/$defs/{model.__name__}"}}},
            }
        )
    schema["properties"]["kind"]["examples"] = list(KINDS)
    schema["allOf"] = rules
    return schema
