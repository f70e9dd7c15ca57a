"""One station's picture over time: which checks are due, and what holds until the next one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from edge_infer.frame import Frame
from edge_infer.geometry import PixelBox
from edge_infer.imagehealth.blurred import Blurred
from edge_infer.imagehealth.bright import Bright
from edge_infer.imagehealth.covered import Covered, Uniform
from edge_infer.imagehealth.dark import Dark
from edge_infer.imagehealth.moved import Moved
from edge_infer.imagehealth.reference import Reference
from edge_infer.imagehealth.settings import CheckName, HealthSettings
from edge_infer.imagehealth.sight import Sight


class Unhealthy(NamedTuple):
    """Why a frame must not be judged."""

    code: CheckName
    text: str


class Check(Protocol):
    """One number of a picture against one limit."""

    def look(self, sight: Sight) -> str | None:
        """What was measured against what, where the picture must not be judged. Remembers nothing."""


Checks = Sequence[tuple[CheckName, Check]]
"""In the order in which they are asked: what one finds would mislead those behind it."""


def quick_checks(settings: HealthSettings, reference: Reference | None) -> Checks:
    """For each frame that is judged."""

    def learned(check: CheckName) -> float | None:
        return reference.limit(check) if reference is not None else None

    limits = settings.limits
    checks: list[tuple[CheckName, Check]] = [
        ("dark", Dark(limits.dark or learned("dark"))),
        ("bright", Bright(limits.bright or learned("bright"))),
        ("covered", Uniform()),
    ]
    return [one for one in checks if one[0] in settings.checks]


def thorough_checks(settings: HealthSettings, reference: Reference | None) -> Checks:
    """Those that need a reference and take milliseconds; only what can be told."""
    if reference is None or reference.fixed is None or (structure := reference.structure) is None:
        return []
    own, checks = settings.limits, list[tuple[CheckName, Check]]()
    if (limit := reference.limit("blurred")) is not None:
        checks.append(("blurred", Blurred(structure, own.blurred or limit)))
    if (limit := reference.limit("covered")) is not None:
        checks.append(("covered", Covered(structure, own.covered or limit)))
    if (limit := reference.limit("moved")) is not None:
        checks.append(("moved", Moved(structure, own.moved or limit, reference.fixed.least_in_place)))
    return [one for one in checks if one[0] in settings.checks]


def first(checks: Checks, sight: Sight) -> Unhealthy | None:
    """The first trouble."""
    for name, check in checks:
        if (text := check.look(sight)) is not None:
            return Unhealthy(name, text)
    return None


class Look:
    """The thorough checks of one frame, when somebody first wants to know; they hold until the next ones."""

    def __init__(self, sight: Sight, quick: Checks, thorough: Checks, before: Look | None) -> None:
        self._sight: Sight | None = sight
        self._quick = quick
        self._thorough = thorough
        self._before = before
        self._found: Unhealthy | None = None
        self._looking = threading.Lock()

    def found(self) -> Unhealthy | None:
        """Any thread; a second one waits for the first."""
        with self._looking:
            if self._sight is not None:
                try:
                    self._found = self._look(self._sight)
                finally:
                    # neither frames nor looks pile up
                    self._sight = self._before = None
            return self._found

    def _look(self, sight: Sight) -> Unhealthy | None:
        if first(self._quick, sight) is None:
            return first(self._thorough, sight)
        # in the dark nothing more can be told: what was before holds
        return self._before.found() if self._before is not None else None


class Health:
    """Takes the frames of one station that are to be judged, in order.

    When thorough checks are due is told by the frames' own time, and what they find by the frames alone: the
    same recording gives the same again, however many threads look.
    """

    def __init__(
        self,
        settings: HealthSettings,
        reference: Reference | None,
        *,
        each_frame: bool,
        camera: str,
        unused: str | None = None,
    ) -> None:
        """``each_frame``: the station is triggered, each part gets all checks.

        ``unused``: why there is no reference where there should be one.
        """
        self._settings = settings
        self._reference = reference
        self._each_frame = each_frame
        self._camera = camera
        self._quick: Checks = []
        self._thorough: Checks = []
        self._made_for: tuple[tuple[int, int], PixelBox] | None = None
        self._unused = unused
        self._look: Look | None = None
        self._due_s = self._taken_s = float("-inf")

    def take(self, frame: Frame, region: PixelBox) -> Glance | None:
        """What will tell of this frame; None where it is not looked at. Does not look yet."""
        if frame.damaged is not None or not self._settings.checks:
            return None
        sight = Sight(frame.pixels, region)
        if self._made_for != (sight.size, region):
            self._make(sight)
        # going back in time is a recording that begins again
        due = self._each_frame or not self._taken_s <= frame.time_s < self._due_s
        self._taken_s = frame.time_s
        if self._thorough and due:
            self._look = Look(Sight(frame.pixels, region), self._quick, self._thorough, self._look)
            self._due_s = frame.time_s + self._settings.every_s
        frozen = frame.frozen if "frozen" in self._settings.checks else None
        return Glance(sight, self._quick, frozen, self._look)

    def unused(self) -> str | None:
        """Why the reference cannot be used; told once, and again for frames of another size."""
        why, self._unused = self._unused, None
        return why

    def _make(self, sight: Sight) -> None:
        """For frames of another size the checks are others."""
        self._made_for = (sight.size, sight.region)
        self._look, self._due_s = None, float("-inf")
        reference = self._reference
        why = reference and reference.misfit(self._camera, sight.size, sight.region)
        if why is not None:
            reference, self._unused = None, f"the reference is not used: {why}; commission the station again"
        self._quick = quick_checks(self._settings, reference)
        self._thorough = thorough_checks(self._settings, reference)


class Glance:
    """What is known of one frame. For one thread, and it must be asked: others wait for what it finds."""

    def __init__(self, sight: Sight, quick: Checks, frozen: str | None, look: Look | None) -> None:
        self._sight = sight
        self._quick = quick
        self._frozen = frozen
        self._look = look

    def found(self) -> Unhealthy | None:
        """Why the frame must not be judged."""
        lasting = self._look.found() if self._look is not None else None
        if (now := first(self._quick, self._sight)) is not None:
            return now
        return Unhealthy("frozen", self._frozen) if self._frozen is not None else lasting
