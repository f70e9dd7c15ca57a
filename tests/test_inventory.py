from __future__ import annotations

import signal
import subprocess
import sys
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from edge_infer.inventory import hardware, versions
from edge_infer.messages.info import InfoMessage
from edge_infer.messages.stats import StatsMessage
from tests.support.mosquitto import Mosquitto
from tests.support.running import ForeignSubscriber, Running
from tests.support.runs import NO_BOTTLE, site

PREFIX = "vision/v1/plant1/l3/ipc7"


def test_versions_are_those_that_are_installed() -> None:
    told = versions()
    assert told.packages["openvino"] == version("openvino")
    assert told.packages["paho-mqtt"] == version("paho-mqtt")
    assert "onnxruntime-gpu" not in told.packages
    assert told.python == ".".join(map(str, sys.version_info[:3]))


def test_versions_and_machine_are_told_without_loading_a_runtime() -> None:
    code = (
        "import sys; from edge_infer import inventory; inventory.versions(); inventory.hardware();"
        "sys.exit(any(name in sys.modules for name in ('openvino', 'onnxruntime', 'cryptography')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_machine_is_what_the_kernel_tells() -> None:
    told = hardware()
    assert told.cores >= 1
    assert (told.memory_bytes or 0) > 100_000_000
    assert told.architecture


@pytest.fixture
def config(mosquitto: Mosquitto, tmp_path: Path) -> Path:
    far = {
        "type": "rtsp",
        "url": "rtsp://camera-host.example/s?token=hidden",
        "user": "camera-user",
        "password": {"env": "CAMERA"},
    }
    return site(
        tmp_path,
        mosquitto,
        cameras={"scene": {"type": "synthetic", "fps": 10, "seed": 1}, "far": far},
        stations={
            name: {"camera": camera, "model": "m", "rules": [deepcopy(NO_BOTTLE)]}
            for name, camera in (("cap", "scene"), ("seal", "far"))
        },
    )


def test_a_running_device_says_what_it_is_and_how_it_is_doing_but_no_address_and_no_secret(
    mosquitto: Mosquitto, config: Path
) -> None:
    subscriber = ForeignSubscriber(mosquitto, f"{PREFIX}/#")
    running = Running(config, CAMERA="camera-secret")
    try:
        subscriber.wait(lambda messages: len(messages) > 0, "/info")
        subscriber.wait(lambda messages: len(messages) > 0, "/stats")
        subscriber.wait(lambda messages: len(messages) > 0, "cap/result")
        info = InfoMessage.model_validate_json(subscriber.messages("/info")[0].payload)
        assert [(one.camera, one.type, one.recorded) for one in info.cameras] == [
            ("scene", "synthetic", False),
            ("far", "rtsp", False),
        ]
        assert [(one.station, one.camera, one.trigger) for one in info.stations] == [
            ("cap", "scene", "continuous"),
            ("seal", "far", "continuous"),
        ]
        cap = info.stations[0]
        assert cap.model is not None
        result = subscriber.messages("cap/result")[0].json
        assert (cap.model.sha256, cap.recipe_hash) == (
            result["model"]["sha256"],
            result["internalRecipeId"]["hash"],
        )
        assert info.configuration.hash == result["internalConfigurationId"]["hash"]
        assert {"result/1", "info/1", "stats/1", "status/1", "event/1"} <= set(info.schemas)
        assert info.commands == ()
        assert "last/1" not in info.schemas
        StatsMessage.model_validate_json(subscriber.messages("/stats")[0].payload)
        # nothing that was said so far holds an address or a secret
        said = b"".join(
            one.payload for one in subscriber.messages() if one.topic.endswith(("/info", "/stats"))
        )
        for secret in (b"camera-host", b"hidden", b"camera-user", b"camera-secret", b"correct horse"):
            assert secret not in said
        later = ForeignSubscriber(mosquitto, f"{PREFIX}/info")
        try:
            later.wait(lambda messages: len(messages) == 1 and messages[0].retained)
        finally:
            later.close()
        assert running.stop() == 0
    finally:
        running.kill()
        subscriber.close()


def test_a_reload_is_told_on_info(mosquitto: Mosquitto, config: Path) -> None:
    subscriber = ForeignSubscriber(mosquitto, f"{PREFIX}/info")
    running = Running(config, CAMERA="camera-secret")
    try:
        subscriber.wait(lambda messages: len(messages) > 0)
        before = subscriber.messages()[-1].json
        written = yaml.safe_load(config.read_text())
        written["stations"]["cap"]["rules"][0]["count"]["at_most"] = 1
        config.write_text(yaml.safe_dump(written))
        running.process.send_signal(signal.SIGHUP)
        subscriber.wait(lambda messages: messages[-1].json != before)
        after = subscriber.messages()[-1].json
        assert after["configuration"]["hash"] != before["configuration"]["hash"]
        assert after["stations"][0]["recipeHash"] != before["stations"][0]["recipeHash"]
        assert after["stations"][1] == before["stations"][1]
        assert after["since"] == before["since"]
    finally:
        running.kill()
        subscriber.close()
