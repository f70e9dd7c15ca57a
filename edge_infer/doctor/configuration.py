"""The configuration: its mistakes, what is probably not meant, secrets and certificates."""

from __future__ import annotations

from collections.abc import Iterator

from edge_infer import clock
from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject
from edge_infer.errors import ConfigError

CHECK = "config"


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """As `edge-infer check` does."""
    if subject.config is None:
        return
    if subject.processor.lacks:
        yield warn(
            CHECK,
            f"{subject.config} was not looked at: this processor cannot",
            "edge-infer check it elsewhere",
        )
        return
    try:
        site = subject.load()
    except ConfigError as error:
        for mistake in error.mistakes:
            yield fail(CHECK, str(mistake), f"edit {mistake.file}, then edge-infer check {subject.config}")
        return
    if site is None:
        return
    for mistake in site.broken_models:
        yield fail(CHECK, str(mistake), f"edge-infer check {subject.config}")
    for mistake in site.warnings:
        yield warn(CHECK, str(mistake), f"edit {mistake.file}")
    missing = site.missing_secrets(subject.secrets)
    for mistake in missing:
        yield fail(
            CHECK, str(mistake), "as it says; with sudo the files of the unit's LoadCredential= are found"
        )
    troubles = _certificates(subject)
    yield from troubles
    if not (site.broken_models or site.warnings or missing or troubles):
        names = f"{len(site.stations)} stations, {len(site.cameras)} cameras, {len(site.models)} models"
        yield ok(CHECK, f"{subject.config}: {names}")


def _certificates(subject: Subject) -> list[Finding]:
    from edge_infer.mqtt.certificates import warnings

    site = subject.site
    if site is None or site.mqtt.tls is None:
        return []
    return [
        warn(
            f"{CHECK}.tls.{key}",
            text,
            "replace the file mqtt.tls names, then sudo systemctl reload edge-infer",
        )
        for key, text in warnings(site.mqtt.tls, clock.now())
    ]
