"""Numbers that an option takes."""

from __future__ import annotations

import math
from typing import Any

import click


class Range(click.FloatRange):
    """click's own lets NaN through: no comparison with a limit says that it is beyond it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuses NaN, too."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is no number", param, ctx)
        return number
