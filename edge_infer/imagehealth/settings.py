"""``health:`` of a station."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge_infer.settings import Settings

CheckName = Literal["dark", "bright", "frozen", "covered", "blurred", "moved"]
"""Reason codes of `edge_infer.result`."""
_ALL: tuple[CheckName, ...] = ("dark", "bright", "frozen", "covered", "blurred", "moved")

_Share = Annotated[float, Field(gt=0, le=1)]


class Limits(Settings):
    """They take the place of those that commissioning found; `edge-infer commission` prints the values."""

    dark: Annotated[float, Field(gt=0, le=255)] | None = None
    """Mean grey level below which a picture is dark, 0..255."""
    bright: _Share | None = None
    """Share of saturated pixels above which it is bright, 0..1."""
    covered: _Share | None = None
    """Share of the picture's fixed structure that is hidden above which it is covered, 0..1."""
    blurred: Annotated[float, Field(gt=0)] | None = None
    """Sharpness below which it is blurred, grey levels."""
    moved: _Share | None = None
    """How far the camera may move, as a share of the region's longer side."""


class HealthSettings(Settings):
    """``health: {every_s: 0.5, checks: [dark, covered], limits: {dark: 30}}``."""

    every_s: Annotated[float, Field(gt=0, le=3600)] = 0.5
    """Seconds between looks for blur, covers and moves; a triggered station looks at each part."""
    checks: tuple[CheckName, ...] = _ALL
    """What is looked for; [] is nothing."""
    limits: Limits = Limits()
    """Instead of the commissioned limits."""
