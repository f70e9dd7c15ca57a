"""Each camera of the configuration, opened for one frame; what the running service holds is not touched."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from edge_infer.doctor import child
from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject
from edge_infer.errors import EdgeInferError

LOOK = "edge_infer.doctor.camera_look"
MEND = "edge-infer grab CONFIG STATION; docs/cameras.md says what each kind of camera needs"


def check(subject: Subject, by_s: float) -> Iterator[Finding]:
    """All in one process of their own, in parallel."""
    site = subject.site
    if site is None or subject.config is None:
        return
    held = subject.its_cameras
    for name, one in held.items():
        if name in site.cameras:
            yield _as_told(name, one)
    left = [name for name in site.cameras if name not in held]
    if left and not held and subject.service_runs and isinstance(subject.service, EdgeInferError):
        yield warn(
            "cameras", "the service runs, and this user may not ask it: its cameras are left alone",
            f"sudo edge-infer doctor {subject.config}",
        )  # fmt: skip
        return
    watched = [name for name in left if getattr(site.cameras[name], "watch", False)]
    for name in watched:
        # opening it would move pictures that nobody has judged
        yield ok(f"cameras.{name}", "watches a folder: it is not opened")
    left = [name for name in left if name not in watched]
    if left:
        yield from _opened(subject, left, by_s)


def _as_told(name: str, one: Any) -> Finding:
    found = f"held by the running service: {one['state']}: {one['text']}"
    if one["state"] in ("lost", "failed"):
        return fail(f"cameras.{name}", found, "as it says; sudo edge-infer ctl status follows it")
    return ok(f"cameras.{name}", found)


def _opened(subject: Subject, names: list[str], by_s: float) -> Iterator[Finding]:
    # what is needed is begun: the rest of the time is theirs
    credentials = subject.unit.credentials
    limit_s = by_s - time.monotonic()
    order = {
        "config": str(subject.config),
        "cameras": names,
        "credentials": credentials,
        "limit_s": limit_s - 1,
    }
    ended = child.run([LOOK], limit_s, given=json.dumps(order))
    answers = {}
    for line in ended.lines:
        try:
            one = json.loads(line)
        except ValueError:
            # a library that prints
            continue
        answers[one["camera"]] = one
    for name in names:
        yield _finding(name, answers.get(name), ended)


def _finding(name: str, one: Any, ended: child.Ended) -> Finding:
    check_name = f"cameras.{name}"
    if one is None:
        found = f"its process {ended.trouble or 'ended without an answer'}"
        return fail(
            check_name, found, f"a driver or library hangs or crashes, is it sound? `dmesg | tail`; {MEND}"
        )
    if one["outcome"] == "ok":
        return ok(check_name, one["text"])
    severe = warn if one["outcome"] == "doubt" else fail
    return severe(check_name, one["text"], one["hint"] or MEND)
