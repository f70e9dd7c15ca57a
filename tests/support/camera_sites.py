"""The running service over real cameras, with a network that finds nothing, and who hears of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber, Running
from tests.support.sites import write_model


@contextmanager
def watching(
    folder: Path, broker: Mosquitto, cameras: dict[str, dict[str, Any]], stations: dict[str, dict[str, Any]]
) -> Iterator[tuple[ForeignSubscriber, Running]]:
    """The service on these cameras and stations; it is stopped and must have ended well."""
    write_model(folder / "model")
    (folder / "password").write_text("correct horse")
    data = {
        "format": 1, "site": "plant1", "line": "l3", "device": "ipc7", "state_dir": "state",
        "mqtt": {
            "host": broker.host, "port": broker.port, "user": "edge-infer", "password": {"file": "password"}
        },
        "cameras": cameras,
        "models": {"m": {"path": "model"}},
        "stations": {name: {"model": "m"} | more for name, more in stations.items()},
    }  # fmt: skip
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    subscriber = ForeignSubscriber(broker, "#")
    running = Running(path)
    try:
        yield subscriber, running
        assert running.stop() == 0, running.log
    finally:
        running.kill()
        subscriber.close()


def told(results: Sequence[Arrived]) -> list[str]:
    """Each decision, with the reason where there is no verdict; the same one in a row once."""
    words: list[str] = []
    for one in (each.json for each in results):
        word = one["decision"] + "".join(f" {reason['code']}" for reason in one["reasons"][:1])
        if words[-1:] != [word]:
            words.append(word)
    return words
