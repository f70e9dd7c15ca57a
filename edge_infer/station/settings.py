"""One station in the site's YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from edge_infer import geometry
from edge_infer.geometry import PixelBox
from edge_infer.imagehealth import HealthSettings
from edge_infer.lens import Lens
from edge_infer.rules.confirm import Confirm
from edge_infer.rules.count import CountRule
from edge_infer.rules.line_stop import LineStop
from edge_infer.rules.publish import Publish
from edge_infer.settings import Id, Settings, SitePath
from edge_infer.triggers import TriggerSettings
from edge_infer.triggers.camera import Camera
from edge_infer.triggers.continuous import Continuous
from edge_infer.triggers.every import Every
from edge_infer.triggers.gpio import Gpio
from edge_infer.triggers.mqtt import Mqtt
from edge_infer.view import Flip, Rotate, View

if TYPE_CHECKING:
    AnyTrigger = TriggerSettings
else:
    AnyTrigger = Annotated[Camera | Continuous | Every | Gpio | Mqtt, Field(discriminator="type")]

Box = tuple[float, float, float, float]


class Region(Settings):
    """``region: {unit: fraction, box: [0, 0.2, 1, 0.8]}``: the part of the frame that the network sees."""

    unit: Literal["fraction", "pixel"] = "fraction"
    """Fractions of the camera's frame, or its pixels."""
    box: Box
    """x1, y1, x2, y2; x right, y down."""

    @field_validator("box")
    @classmethod
    def _is_a_box(cls, box: Box, info: ValidationInfo) -> Box:
        x1, y1, x2, y2 = box
        if min(box) < 0:
            raise ValueError("a region starts at 0 or right of and below it")
        if info.data.get("unit") == "fraction" and max(box) > 1:
            raise ValueError("fractions lie in 0..1; for pixels write unit: pixel")
        if x1 >= x2 or y1 >= y2:
            raise ValueError("a region is [x1, y1, x2, y2] with x1 < x2 and y1 < y2")
        return box

    def pixels(self, width: int, height: int) -> PixelBox:
        """In whole pixels of the frame; EdgeInferError where the region does not lie in it."""
        return geometry.Region(self.unit, self.box).pixels(width, height)


class StationSettings(Settings):
    """A camera, a trigger, a model, rules."""

    camera: Id
    """A name under ``cameras:``; several stations may name one camera and see the same frame."""
    trigger: AnyTrigger = Field(default_factory=Continuous)
    """What makes a frame an inspection."""
    model: Id
    """A name under ``models:``."""
    deadline_ms: Annotated[float, Field(gt=0, validate_default=True)] = 2000.0
    """From the trigger (or the capture) to the decision on a live camera; later is UNDEFINED `deadline`.
    A recording has no deadlines: played again, it must decide the same."""
    region: Region | None = None
    """What the network sees; default the whole frame."""
    rotate: Rotate = 0
    """Degrees clockwise that the network's picture is turned: 0, 90, 180 or 270. Regions, zones and results
    stay in the camera's pixels."""
    flip: Flip = "none"
    """How it is mirrored after turning: none, horizontal (left to right) or vertical."""
    undistort: SitePath | None = None
    """Calibration of the camera's lens (OpenCV's or ROS's YAML): the network's picture is made straight."""
    rules: tuple[CountRule, ...] = ()
    """What must hold for OK; all of them."""
    anomaly_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """Anomaly models only: a part whose normalised score, 0..1, reaches it is NOK. Default: the model's own
    threshold, which lies at 0.5."""
    confirm: Confirm | None = None
    """NOK needs k of the last n; not for triggered stations, where it would mix parts."""
    hold_s: Annotated[float, Field(ge=0)] = 0.0
    """NOK stays at least this long, so that a slow reader sees it."""
    publish: Publish = "every"
    """Which inspections become results: every, change, or {every_s: N}; triggered stations: every."""
    health: HealthSettings = HealthSettings()
    """Whether a picture can be judged at all: dark, bright, frozen, covered, blurred, moved."""
    line_stop: LineStop | None = None
    """That many NOK or UNDEFINED in a row are an event."""

    # each at its own key, and told even where another key is wrong
    @field_validator("rules")
    @classmethod
    def _names_once(cls, rules: tuple[CountRule, ...]) -> tuple[CountRule, ...]:
        names = [rule.name for rule in rules]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise ValueError(f"two rules are named {', '.join(twice)}")
        return rules

    @field_validator("confirm")
    @classmethod
    def _confirm_fits_the_trigger(cls, confirm: Confirm | None, info: ValidationInfo) -> Confirm | None:
        if confirm is not None and _is_triggered(info):
            raise ValueError("confirm would mix parts on a triggered station; remove it")
        return confirm

    @field_validator("hold_s")
    @classmethod
    def _hold_fits_the_trigger(cls, hold_s: float, info: ValidationInfo) -> float:
        if hold_s and _is_triggered(info):
            raise ValueError("hold_s would mix parts on a triggered station; remove it")
        return hold_s

    @field_validator("publish")
    @classmethod
    def _publish_fits_the_trigger(cls, publish: Publish, info: ValidationInfo) -> Publish:
        if publish != "every" and _is_triggered(info):
            raise ValueError("a triggered station publishes every part; remove publish")
        return publish

    @field_validator("deadline_ms")
    @classmethod
    def _deadline_after_the_delay(cls, deadline_ms: float, info: ValidationInfo) -> float:
        delay_ms = getattr(info.data.get("trigger"), "delay_ms", 0.0)
        if deadline_ms <= delay_ms:
            raise ValueError(f"no part could be answered: the trigger's delay_ms is {delay_ms:g}")
        return deadline_ms

    def view(self, width: int, height: int, lens: Lens | None) -> View:
        """What the network gets of a frame of this size; EdgeInferError where region or lens do not fit."""
        if lens is not None:
            lens.check(width, height)
        return View(self.seen(width, height), self.rotate, self.flip, lens)

    def seen(self, width: int, height: int) -> PixelBox:
        """The region in a frame of this size; EdgeInferError where it does not lie in it."""
        return (0, 0, width, height) if self.region is None else self.region.pixels(width, height)

    @property
    def is_in_pixels(self) -> bool:
        """True: regions, zones or areas are meant for frames of one size."""
        in_pixels = (self.region is not None and self.region.unit == "pixel") or any(
            rule.min_area_px or (rule.zone is not None and rule.zone.unit == "pixel") for rule in self.rules
        )
        return bool(in_pixels)

    @property
    def answer_within_s(self) -> float:
        """The deadline in seconds."""
        return self.deadline_ms / 1000


def _is_triggered(info: ValidationInfo) -> bool:
    trigger = info.data.get("trigger")
    return isinstance(trigger, TriggerSettings) and trigger.triggered
