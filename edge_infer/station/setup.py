"""Everything that an inspection is judged by, in one piece: a station swaps it whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from edge_infer.engine import Engine
from edge_infer.errors import EdgeInferError
from edge_infer.imagehealth.health import Health
from edge_infer.imagehealth.reference import Reference, load
from edge_infer.lens import Lens, load_lens
from edge_infer.rules.decision import Judge
from edge_infer.rules.line_stop import LineStopCounter
from edge_infer.rules.publish import PublishPolicy
from edge_infer.station.identity import Identity
from edge_infer.station.inspection import Unusable
from edge_infer.station.settings import StationSettings


class FrameSize:
    """Pixels in a station's settings are meant for frames of one size: that of the first."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None

    def other(self, width: int, height: int) -> str | None:
        """Why a frame of this size must not be judged, else None."""
        if self._first is None:
            self._first = width, height
        if self._first == (width, height):
            return None
        return (
            f"the camera gives {width}x{height} now and gave {self._first[0]}x{self._first[1]} at first: "
            "zones, regions and areas in pixels lie elsewhere; set the camera back, or use fractions"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What rules and publishing remember of the inspections before."""

    judge: Judge
    policy: PublishPolicy
    line_stop: LineStopCounter | None
    frame_size: FrameSize | None
    """None where it does not matter."""

    @classmethod
    def of(cls, settings: StationSettings) -> Memory:
        """That remembers nothing yet."""
        return cls(
            Judge(settings.rules, settings.confirm, settings.hold_s),
            PublishPolicy(settings.publish),
            LineStopCounter(settings.line_stop) if settings.line_stop else None,
            FrameSize() if settings.is_in_pixels else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """An inspection belongs to one from when it is asked, or its frame is taken, until its result.

    One station's: stations do not share a memory.
    """

    settings: StationSettings
    identity: Identity
    """What its results say of where they come from."""
    engine: Engine | None
    """None where nothing can be judged."""
    failed: Unusable | None
    """Why there is no engine."""
    lens: Lens | None
    """Makes the network's picture straight."""
    memory: Memory
    reference: Reference | None
    """What was commissioned."""
    health: Health

    @classmethod
    def new(
        cls,
        settings: StationSettings,
        identity: Identity,
        engine: Engine | None,
        failed: Unusable | None = None,
        commissioned: Path | None = None,
    ) -> Setup:
        """With a memory that starts anew; a calibration that cannot be used is why it fails.

        ``commissioned``: where its reference is, if there is one; without, it is judged with fewer checks.
        """
        lens = None
        if settings.undistort is not None and failed is None:
            try:
                lens = load_lens(settings.undistort)
            except EdgeInferError as error:
                engine, failed = None, Unusable("rule_not_evaluable", str(error))
        reference, unused = None, None
        if commissioned is not None:
            try:
                reference = load(commissioned)
            except EdgeInferError as error:
                unused = str(error)
        health = Health(
            settings.health,
            reference,
            each_frame=settings.trigger.triggered,
            camera=settings.camera,
            unused=unused,
        )
        return cls(settings, identity, engine, failed, lens, Memory.of(settings), reference, health)

    def told_as(self, identity: Identity) -> Setup:
        """Judges as before, memory included; only what results say of it differs."""
        return replace(self, identity=identity)
