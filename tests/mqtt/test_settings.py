from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from edge_infer.mqtt.settings import MqttSettings


def _settings(**written: Any) -> MqttSettings:
    return MqttSettings.model_validate_json(json.dumps({"host": "broker.example", **written}))


def test_the_port_follows_tls() -> None:
    assert _settings().broker_port == 1883
    assert _settings(tls={"ca": "ca.crt"}).broker_port == 8883
    assert _settings(tls={}, port=1234).broker_port == 1234


def test_the_prefix_is_filled_in() -> None:
    assert _settings().prefix(site="a", line="b", device="c") == "vision/v1/a/b/c"
    assert _settings(topic_prefix="{device}").prefix(site="a", line="b", device="c") == "c"


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "a/+/b",
        "a/#",
        "$SYS/a",
        "a/{plant}",
        "a/{site",
        "a/b}",
        "a\u0000b",
        "x" * 1001,
    ],
)
def test_a_prefix_that_no_broker_takes_is_a_mistake(prefix: str) -> None:
    with pytest.raises(ValidationError):
        _settings(topic_prefix=prefix)


@pytest.mark.parametrize("host", ["", "mqtt://broker", "broker:1883", "a b", "broker/x"])
def test_a_host_is_a_bare_name(host: str) -> None:
    with pytest.raises(ValidationError):
        _settings(host=host)


@pytest.mark.parametrize("host", ["broker", "10.0.0.9", "::1", "broker.plant1.example"])
def test_names_and_addresses_are_hosts(host: str) -> None:
    assert _settings(host=host).host == host


@pytest.mark.parametrize("protocol", [5, "4", "mqtt5", None])
def test_an_unknown_protocol_is_a_mistake(protocol: object) -> None:
    with pytest.raises(ValidationError):
        _settings(protocol=protocol)


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValidationError, match="cert and key belong together"):
        _settings(tls={"cert": "a.crt"})


def test_mqtt_3_1_1_sends_no_password_without_a_user() -> None:
    with pytest.raises(ValidationError, match="add user"):
        _settings(protocol="3.1.1", password={"env": "X"})
    assert _settings(password={"env": "X"}).password is not None


def test_a_decision_is_valid_long_enough_to_be_renewed() -> None:
    with pytest.raises(ValidationError):
        _settings(valid_s=1)


def test_settings_load_without_paho() -> None:
    code = "import sys, edge_infer.mqtt.settings, edge_infer.outbox; sys.exit('paho' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=20).returncode == 0
