"""What this device is: versions, machine, what it is configured to do. Loads no runtime to find out."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edge_infer import __version__
from edge_infer.config.site import Site
from edge_infer.messages.info import (
    CameraInfo,
    Hardware,
    InfoMessage,
    LeftConfiguration,
    StationInfo,
    Versions,
)
from edge_infer.messages.schemas import title
from edge_infer.messages.topics import TOPICS
from edge_infer.result import Identifier, Part
from edge_infer.station.station import Station

PACKAGES = (
    "av",
    "cryptography",
    "numpy",
    "onnxruntime",
    "onnxruntime-gpu",
    "opencv-python-headless",
    "openvino",
    "paho-mqtt",
    "pydantic",
)
"""What judges and delivers; those that are not installed are left out."""


def info(
    site: Site,
    stations: Iterable[Station],
    *,
    boot_id: str,
    since: datetime,
    number: int | None = None,
    rolled_back: LeftConfiguration | None = None,
) -> InfoMessage:
    """Names and types only: addresses may hold a password."""
    return InfoMessage(
        boot_id=boot_id,
        since=since,
        versions=versions(),
        hardware=hardware(),
        configuration=Identifier(
            id=site.path.name,
            version=str(number) if number is not None else None,
            hash=site.sha256,
            hash_algorithm="sha256",
        ),
        rolled_back=rolled_back,
        cameras=tuple(
            CameraInfo(camera=name, recorded=camera.recorded, **camera.model_dump(include={"type"}))
            for name, camera in site.cameras.items()
        ),
        stations=tuple(_station(station) for station in stations),
        recipes=tuple(site.recipes),
        commands=tuple(site.commands.allow),
        schemas=_schemas(),
    )


def versions() -> Versions:
    """As installed, whether it could be loaded or not."""
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        system = None
    return Versions(
        edge_infer=__version__,
        python=platform.python_version(),
        packages=packages,
        os=system,
        kernel=platform.release(),
    )


def hardware() -> Hardware:
    """As the kernel tells."""
    memory_kb = _field(Path("/proc/meminfo"), "MemTotal")
    return Hardware(
        architecture=platform.machine(),
        cpu=_field(Path("/proc/cpuinfo"), "model name") or _text(Path("/proc/device-tree/model")),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=int(memory_kb.split()[0]) * 1024 if memory_kb else None,
    )


def _schemas() -> tuple[str, ...]:
    """Of what is sent; `last` is a result too."""
    names: dict[type[Part], str] = {}
    for topic in TOPICS:
        if topic.sent and not isinstance(topic.payload, str):
            names.setdefault(topic.payload, title(topic))
    return tuple(names.values())


def _station(station: Station) -> StationInfo:
    identity = station.setup.identity
    return StationInfo(
        station=identity.station,
        camera=identity.source.camera,
        trigger=station.setup.settings.trigger.type,
        recipe=identity.external_recipe.id if identity.external_recipe else None,
        recipe_hash=identity.recipe.hash,
        model=identity.model,
        backend=identity.backend,
        device=identity.device,
    )


def _field(file: Path, name: str) -> str | None:
    for line in (_text(file) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip("\0\n ") or None
    except OSError:
        return None
