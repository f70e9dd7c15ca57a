"""Temperatures, and whether the processor was slowed down for them."""

from __future__ import annotations

from collections.abc import Iterator

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject
from edge_infer.metrics import sensors

HOT = 85.0
TOO_HOT = 100.0
"""Degrees Celsius."""
_NONSENSE = 126.0
"""Of thermometers that are not connected; below 0 as well."""
MEND = "free the fins of dust, give the cabinet air, cool the place down"


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """The hottest one counts."""
    sys = subject.machine.path("/sys")
    found = [*sensors.thermal_zones(sys), *sensors.hardware_monitors(sys)]
    believable = [one for one in found if 0 < one.celsius < _NONSENSE]
    if believable:
        hottest = max(believable, key=lambda one: one.celsius)
        text = f"{hottest.name} has {hottest.celsius:.0f} °C, the hottest of {len(believable)}"
        severe = fail if hottest.celsius >= TOO_HOT else warn
        yield severe("heat", text, MEND) if hottest.celsius >= HOT else ok("heat", text)
    else:
        yield ok("heat", "this machine tells no temperature")
    if slowed := {scope: count for scope, count in sensors.throttles(sys).items() if count}:
        counts = ", ".join(f"{scope} {count} times" for scope, count in slowed.items())
        yield warn("heat.throttled", f"slowed down for heat since the machine started: {counts}", MEND)
