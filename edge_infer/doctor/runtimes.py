"""The runtimes, each asked in a process of its own, and the devices that models ask for."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

from edge_infer.doctor import child
from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.later import later
from edge_infer.doctor.subject import Subject

if TYPE_CHECKING:
    from edge_infer.backends import BackendSettings

SURVEY = "edge_infer.backends.survey"
PIP = f"{sys.executable} -m pip"
NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


@dataclass(frozen=True, slots=True)
class Installed:
    """Distributions that bring one runtime."""

    versions: dict[str, str]
    """By name: ``onnxruntime``, ``onnxruntime-gpu``."""

    @property
    def words(self) -> str:
        """With versions."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


def check(subject: Subject, by_s: float) -> Iterator[Finding]:
    """Both at once: each may take its time."""
    if subject.processor.lacks:
        # they are what dies of it
        return
    site = subject.site
    uses = list(site.models.items()) if site is not None else []
    asked = []
    for name in NAMES:
        models = {model: use.backend for model, use in uses if use.backend.type == name}
        asked.append(later(name, partial(_runtime, name, models, by_s)))
    for one in asked:
        yield from one.result()


def _devices(backends: Iterable[BackendSettings]) -> list[str]:
    wanted = [device for one in backends for device in (one.device, *one.fallback)]
    return list(dict.fromkeys(["CPU", *wanted]))


def _runtime(name: str, models: Mapping[str, BackendSettings], by_s: float) -> list[Finding]:
    return list(_findings(name, models, by_s))


def _findings(name: str, models: Mapping[str, BackendSettings], by_s: float) -> Iterator[Finding]:
    devices = _devices(models.values())
    check_name, installed = f"runtimes.{name}", _installed(name)
    severe = fail if models else warn
    if not installed.versions:
        yield severe(check_name, f"{NAMES[name]} is not installed", f"{PIP} install {name}")
        return
    if len(installed.versions) > 1:
        names = " ".join(installed.versions)
        yield severe(
            check_name, f"{installed.words} share one folder: each has overwritten files of the other",
            f"{PIP} uninstall -y {names} && {PIP} install {name}",
        )  # fmt: skip
    ended = child.run([SURVEY, name, *devices], by_s - time.monotonic())
    told = _told(ended.lines)
    trouble = ended.trouble or next(
        (one["trouble"] for one in told if "version" not in one and "device" not in one), None
    )
    about = next((one for one in told if "version" in one), None)
    if trouble is not None:
        mend = _remedy(name, ended, installed)
        yield severe(check_name, f"{installed.words} {trouble}", mend)
    elif about is not None:
        there = ", ".join(one for one in about["devices"] if one != "Azure")
        yield ok(check_name, f"{NAMES[name]} {about['version']}: {there}")
    works = {one["device"]: one["trouble"] for one in told if "device" in one}
    if trouble is None and works.get("CPU"):
        yield severe(f"{check_name}.CPU", works["CPU"], f"{PIP} install --force-reinstall {name}")
    for model, backend in models.items():
        yield _model(model, backend, works, installed)


def _model(
    model: str, backend: BackendSettings, works: dict[str, str | None], installed: Installed
) -> Finding:
    name, unknown = f"models.{model}", f"{installed.words} did not say"
    trouble = works.get(backend.device, unknown)
    if trouble is None:
        return ok(name, f"{backend.type} {backend.device} works")
    instead = next((one for one in backend.fallback if works.get(one, unknown) is None), None)
    mend = (
        f"mend what is told of {backend.device}, or write a device that is there into models.{model}.backend"
    )
    if instead is not None:
        return warn(name, f"runs on {instead}, its fallback; {backend.device}: {trouble}", mend)
    return fail(name, f"{backend.device}: {trouble}", mend)


def _remedy(name: str, ended: child.Ended, installed: Installed) -> str:
    first = next(iter(installed.versions), name)
    again = f"{PIP} uninstall -y {' '.join(installed.versions)} && {PIP} install {name}"
    other = "openvino" if name == "onnxruntime" else "onnxruntime"
    another = f"{PIP} install '{first}!={installed.versions.get(first, '')}'"
    if ended.killed_by == "SIGILL":
        return f"it was built for another processor: `backend: {{type: {other}}}`, or {another}"
    if ended.killed_by is not None or (ended.trouble or "").startswith("hangs"):
        return (
            "give a container all cores and /sys/devices/system/cpu (runtimes die of cores that are hidden); "
            f"else another version, {another}, or `backend: {{type: {other}}}`"
        )
    return again


def _installed(name: str) -> Installed:
    """`onnxruntime-openvino` and the like bring a package of the same name."""
    versions = {}
    for one in metadata.distributions():
        called = (one.name or "").lower().replace("_", "-")
        if called == name or (
            name == "onnxruntime" and called.startswith("onnxruntime-") and called not in _OTHERS
        ):
            versions[called] = one.version
    return Installed(versions)


_OTHERS = ("onnxruntime-extensions", "onnxruntime-genai", "onnxruntime-tools")
"""Have a folder of their own."""


def _told(lines: Sequence[str]) -> list[dict[str, Any]]:
    told = []
    for line in lines:
        try:
            one = json.loads(line)
        except ValueError:
            # a library that prints
            continue
        if isinstance(one, dict):
            told.append(one)
    return told
