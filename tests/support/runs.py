"""`edge-infer run` on a small site, and who listens to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber, Running
from tests.support.sites import write_model

RESULTS = "vision/v1/plant1/l3/ipc7/+/result"


Run = Callable[..., Running]
Subscribe = Callable[..., ForeignSubscriber]
RULE = {"name": "none", "count": {"labels": ["bottle"], "at_least": 1}}
NO_BOTTLE = {"name": "none", "count": {"labels": ["bottle"], "at_most": 0}}


def site(
    folder: Path, broker: Mosquitto | None, *, frames: int | None = None, fps: int = 20, **more: Any
) -> Path:
    """A drawn scene through a small hand-made network; the broker may be away."""
    folder.mkdir(exist_ok=True)
    write_model(folder / "model")
    (folder / "password").write_text(broker.password if broker else "correct horse")
    scene: dict[str, Any] = {"type": "synthetic", "fps": fps, "seed": 1}
    if frames:
        scene["frames"] = frames
    data: dict[str, Any] = {
        "format": 1,
        "site": "plant1",
        "line": "l3",
        "device": "ipc7",
        "state_dir": "state",
        "mqtt": {
            "host": "127.0.0.1",
            "port": broker.port if broker else 9,
            "user": broker.user if broker else "edge-infer",
            "password": {"file": "password"},
        },
        "cameras": {"scene": scene},
        "models": {"m": {"path": "model"}},
        "stations": {"cap": {"camera": "scene", "model": "m", "rules": [RULE]}},
    } | more
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    """Starts `edge-infer run`; what still runs after a test is killed."""
    started: list[Running] = []

    def start(path: Path, **environment: str) -> Running:
        started.append(Running(path, **environment))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def subscribe() -> Iterator[Callable[..., ForeignSubscriber]]:
    """Starts `mosquitto_sub`."""
    started: list[ForeignSubscriber] = []

    def start(broker: Mosquitto, topic: str, **options: Any) -> ForeignSubscriber:
        started.append(ForeignSubscriber(broker, topic, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


def whole(messages: list[Arrived]) -> dict[tuple[str, str], int]:
    """Results by (station, stream): fails where a number is missing, returns the highest one."""
    seqs: dict[tuple[str, str], set[int]] = {}
    for one in messages:
        result = one.json
        seqs.setdefault((result["station"], result["streamId"]), set()).add(result["seq"])
    for key, numbers in seqs.items():
        missing = set(range(1, max(numbers) + 1)) - numbers
        assert not missing, f"{key}: {sorted(missing)[:10]} of {max(numbers)} are missing"
    return {key: max(numbers) for key, numbers in seqs.items()}
