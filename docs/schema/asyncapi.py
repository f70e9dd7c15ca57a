"""The AsyncAPI 3.0 document of everything that is said over MQTT, made from the table of topics."""

from __future__ import annotations

from typing import Any

from edge_infer.messages import schemas
from edge_infer.messages.topics import TEXT, TOPICS, Topic

PREFIX = "vision/v1/{site}/{line}/{device}"
BINDING = {"bindingVersion": "0.2.0"}
PARAMETERS = {
    "site": "`site` of the device's YAML.",
    "line": "`line` of the device's YAML.",
    "device": "`device` of the device's YAML, else its host name.",
    "station": "The name under `stations:`.",
    "camera": "The name under `cameras:`.",
    "kind": "Which picture.",
}
VALID_S = 5
"""The default of ``mqtt.valid_s``."""


def document() -> dict[str, Any]:
    """Ready to be written as YAML."""
    messages = {topic.name: _message(topic) for topic in TOPICS}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "edge-infer over MQTT",
            "version": "1",
            "description": "With MQTT 3.1.1 there are no user properties, nothing expires, `decision` and "
            "`last` are not retained. Readers ignore keys that they do not know.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"site": _server()},
        "channels": {_key(topic): _channel(topic) for topic in TOPICS},
        "operations": {_key(topic): _operation(topic) for topic in TOPICS if topic.name != "reply"},
        "components": {
            "parameters": {name: {"description": text} for name, text in PARAMETERS.items()},
            "messages": messages,
            "schemas": {_file(title): _draft7(title, one) for title, one in schemas.all_schemas().items()},
            "correlationIds": {
                "request": {
                    "description": "The request's correlation data comes back with the answer.",
                    "location": "$message.header#/correlationData",
                }
            },
        },
    }


def _key(topic: Topic) -> str:
    """Some commands are heard by the device and by a station."""
    at_device = not topic.sent and topic.below is not None and not topic.below.startswith("{station}")
    return f"device_{topic.name}" if at_device else topic.name


def _file(title: str) -> str:
    """``result/1`` -> ``result-1``."""
    return title.replace("/", "-")


def _server() -> dict[str, Any]:
    return {
        "host": "broker.plant1.example:8883",
        "protocol": "secure-mqtt",
        "protocolVersion": "5.0",
        "description": "The site's broker; deploy/broker makes one. Without `tls` on port 1883.",
        "bindings": {
            "mqtt": {
                "cleanSession": True,
                "keepAlive": 15,
                "lastWill": {
                    "topic": f"{PREFIX}/status",
                    "qos": 1,
                    "retain": True,
                    "message": "state: offline",
                },
                **BINDING,
            }
        },
    }


def _channel(topic: Topic) -> dict[str, Any]:
    messages = {topic.name: {"$ref": f"#/components/messages/{topic.name}"}}
    if topic.below is None:
        return {
            "address": None,
            "description": "Where the request wants it, below `vision/v1/rsp/`.",
            "messages": messages,
        }
    address = f"{PREFIX}/{topic.below.replace('{verb}', topic.name)}"
    named = [name for name in PARAMETERS if f"{{{name}}}" in address]
    return {
        "address": address,
        "description": topic.says,
        "messages": messages,
        "parameters": {name: {"$ref": f"#/components/parameters/{name}"} for name in named},
    }


def _operation(topic: Topic) -> dict[str, Any]:
    channel = f"#/channels/{_key(topic)}"
    operation: dict[str, Any] = {
        "action": "send" if topic.sent else "receive",
        "channel": {"$ref": channel},
        "summary": topic.says,
        "messages": [{"$ref": f"{channel}/messages/{topic.name}"}],
    }
    if topic.sent:
        mqtt: dict[str, Any] = {"qos": 1, "retain": topic.retained != "no", **BINDING}
        if topic.expires == "yes" and topic.retained == "expiring":
            mqtt["messageExpiryInterval"] = VALID_S
        operation["bindings"] = {"mqtt": mqtt}
    else:
        operation["bindings"] = {"mqtt": {"qos": 1, "retain": False, **BINDING}}
        operation["reply"] = {
            "address": {"location": "$message.header#/responseTopic"},
            "channel": {"$ref": "#/channels/reply"},
            "messages": [{"$ref": "#/channels/reply/messages/reply"}],
        }
    return operation


def _message(topic: Topic) -> dict[str, Any]:
    mqtt: dict[str, Any] = {"payloadFormatIndicator": 0 if topic.payload == "picture" else 1, **BINDING}
    message: dict[str, Any] = {
        "name": topic.name,
        "summary": topic.says,
        "contentType": topic.content_type,
        "payload": _payload(topic),
    }
    if not topic.sent or topic.name == "reply":
        message["correlationId"] = {"$ref": "#/components/correlationIds/request"}
    message["headers"] = _headers(topic)
    message["bindings"] = {"mqtt": {"contentType": topic.content_type, **mqtt}}
    return message


def _headers(topic: Topic) -> dict[str, Any]:
    """MQTT 5 properties, the user's among them."""
    properties = {name: {"type": "string"} for name in (*topic.user, *topic.maybe)}
    if not topic.sent:
        properties["responseTopic"] = {"type": "string", "description": "Below `vision/v1/rsp/`."}
    if not topic.sent or topic.name == "reply":
        properties["correlationData"] = {"type": "string"}
    headers: dict[str, Any] = {"type": "object", "properties": properties}
    return headers | ({"required": list(topic.user)} if topic.user else {})


def _payload(topic: Topic) -> dict[str, Any]:
    if topic.content_type == TEXT:
        return {"type": "string", "enum": ["OK", "NOK", "UNDEFINED"]}
    if topic.payload == "picture":
        return {"type": "string", "format": "binary"}
    title = "result/1" if topic.name == "last" else schemas.title(topic)
    return {"$ref": f"#/components/schemas/{_file(title)}"}


def _draft7(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """AsyncAPI's own schemas are JSON Schema draft 7."""
    own = f"#/components/schemas/{_file(title)}"

    def turned(node: Any) -> Any:
        if isinstance(node, list):
            return [turned(one) for one in node]
        if not isinstance(node, dict):
            return node
        node = {key: turned(value) for key, value in node.items() if key != "$schema"}
        if "prefixItems" in node:
            node["items"] = node.pop("prefixItems")
        if isinstance(node.get("$ref"), str):
            node["$ref"] = own + node["$ref"].removeprefix("#").replace("/$defs/", "/definitions/")
        if "$defs" in node:
            node["definitions"] = node.pop("$defs")
        return node

    whole: dict[str, Any] = turned(schema)
    return whole
