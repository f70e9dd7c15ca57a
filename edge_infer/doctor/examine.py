"""All checks at once, each with a limit, told in the order of their table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from urllib.parse import quote

from edge_infer.doctor import CHECKS
from edge_infer.doctor.finding import Finding, fail
from edge_infer.doctor.subject import Subject
from edge_infer.errors import EdgeInferError
from edge_infer.registry import resolve
from edge_infer.settings import Secret

LIMIT_S = 11.0
"""For all of it, whatever a driver, runtime, disk or broker does."""
MARGIN_S = 1.0
"""Before that end, in which checks tell what they were waiting for themselves."""
HIDDEN = "********"

Check = Callable[[Subject, float], Iterator[Finding]]
"""Its second argument is the monotonic time by which it should be done."""
_END = object()


def examine(
    subject: Subject, checks: Mapping[str, str] = CHECKS, limit_s: float = LIMIT_S
) -> Iterator[Finding]:
    """Findings as they come, in the order of the table; a bug in a check is raised behind all others."""
    end_s = time.monotonic() + limit_s
    told: dict[str, SimpleQueue[object]] = {name: SimpleQueue() for name in checks}
    for name, queue in told.items():
        work = partial(_work, resolve(checks, name), subject, end_s - MARGIN_S, queue)
        threading.Thread(target=work, name=f"doctor-{name}", daemon=True).start()
    bug: Exception | None = None
    for name, queue in told.items():
        while True:
            try:
                one = queue.get(timeout=max(0.0, end_s - time.monotonic()))
            except Empty:
                text = f"hangs: no answer within {limit_s:g} s"
                yield fail(
                    name, text, "look at what it waits for: `dmesg | tail`, load and disks (`uptime`, `df`)"
                )
                break
            if one is _END:
                break
            if isinstance(one, Finding):
                yield _without_secrets(one, subject)
            elif isinstance(one, Exception):
                bug = bug or one
    if bug is not None:
        raise bug


def _work(check: Check, subject: Subject, by_s: float, queue: SimpleQueue[object]) -> None:
    try:
        for finding in check(subject, by_s):
            queue.put(finding)
    except Exception as error:  # noqa: BLE001 - raised again where it is waited for
        queue.put(error)
    queue.put(_END)


def _without_secrets(finding: Finding, subject: Subject) -> Finding:
    """Whatever a library, driver or broker put into its words."""
    found, mend = finding.found, finding.mend
    for secret in _secrets(subject):
        for form in (secret, quote(secret, safe=""), repr(secret)[1:-1]):
            found, mend = found.replace(form, HIDDEN), mend.replace(form, HIDDEN)
    return replace(finding, found=" ".join(found.split()), mend=" ".join(mend.split()))


def _secrets(subject: Subject) -> Iterator[str]:
    site = subject.known_site
    if site is None:
        return
    for settings in (site.mqtt, *site.cameras.values()):
        for value in dict(settings).values():
            if isinstance(value, Secret):
                try:
                    yield subject.secrets.read(value)
                except EdgeInferError:
                    # what cannot be read cannot be told
                    continue
