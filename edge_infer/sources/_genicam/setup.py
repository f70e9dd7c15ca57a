"""An industrial camera as the site's YAML wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edge_infer.sources._genicam.features import Features

if TYPE_CHECKING:
    from edge_infer.sources.gige import Gige


def set_up(features: Features, settings: Gige, *, is_network: bool) -> None:
    """All that is written in the site's YAML, each read back."""
    for feature, value in settings.features.items():
        features.set(feature, value)
    if settings.pixel_format is not None:
        features.set("PixelFormat", settings.pixel_format)
    sizes = {
        "Width": settings.width, "Height": settings.height,
        "OffsetX": settings.offset_x, "OffsetY": settings.offset_y,
    }  # fmt: skip
    for offset in ("OffsetX", "OffsetY"):
        # a new size must find room
        if any(size is not None for size in sizes.values()) and features.has(offset):
            features.set(offset, 0)
    for feature, size in sizes.items():
        if size is not None:
            features.set(feature, size)
    if settings.exposure_us is not None:
        if features.has("ExposureAuto"):
            features.set("ExposureAuto", "Off")
        features.number("exposure_time", "exposure_us", settings.exposure_us)
    if settings.gain_db is not None:
        _set_gain(features, settings.gain_db)
    _set_trigger(features, settings)
    if settings.packet_size is not None and is_network:
        features.network("packet_size", "packet_size", settings.packet_size, "bytes")
    if settings.packet_delay_ns is not None and is_network:
        features.network("packet_delay", "packet_delay_ns", settings.packet_delay_ns, "ns")


def _set_gain(features: Features, gain_db: float) -> None:
    if not features.has("Gain"):
        features.refuse(
            "gain_db",
            gain_db,
            "this camera has no gain in decibel",
            "write its own under features, like {GainRaw: 3}",
        )
    if features.has("GainAuto"):
        features.set("GainAuto", "Off")
    features.set("Gain", gain_db)


def _set_trigger(features: Features, settings: Gige) -> None:
    if settings.trigger is None:
        # it may be stored in the camera
        features.run_freely()
        if settings.frame_rate is not None:
            features.number("frame_rate", "frame_rate", settings.frame_rate)
        return
    if features.has("AcquisitionFrameRateEnable"):
        features.set("AcquisitionFrameRateEnable", False)
    features.run_freely()
    if features.has("TriggerSelector"):
        known = features.entries("TriggerSelector")
        for selector in ("FrameStart", "FrameBurstStart", "AcquisitionStart"):
            if selector in known:
                features.set("TriggerSelector", selector)
                break
    features.set("TriggerSource", settings.line or "Software")
    features.set("TriggerMode", "On")
