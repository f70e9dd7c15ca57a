"""A camera's features, set so that nobody is deceived: read back, and a refusal says what is allowed."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from typing import NoReturn

from edge_infer.errors import SourceError
from edge_infer.sources._genicam.aravis import Camera
from edge_infer.sources._genicam.library import AravisError

Value = bool | int | float | str

_READ_ONLY = 0
_TOLERANCE = 0.01
"""Cameras round exposures and rates to what their clock can do."""


class Features:
    """The features of one open camera. Every method raises SourceError."""

    def __init__(self, camera: Camera, name: str) -> None:
        """``name``: how messages begin."""
        self._camera = camera
        self._name = name

    def has(self, feature: str) -> bool:
        """Whether the camera has it now."""
        return bool(self._camera.device("is_feature_available", feature.encode()))

    def set(self, feature: str, value: Value) -> None:
        """Set it and read it back; True runs a command."""
        kind = self._camera.kind(feature)
        if kind is None:
            raise SourceError(
                f"{self._name}: this camera has no feature {feature}",
                hint="feature names are in the camera's manual; capitals matter",
            )
        if kind == "other" or not self._fits(kind, value):
            self.refuse(feature, value, f"it is of kind {kind}")
        if self._camera.device("get_feature_access_mode", feature.encode()) == _READ_ONLY:
            self.refuse(feature, value, "it can only be read now")
        if kind in ("integer", "float"):
            self._check_range(feature, kind, float(value))
        elif kind == "enumeration" and value not in (entries := self.entries(feature)):
            self.refuse(
                feature, value, "there is no such entry", f"it can be {', '.join(entries) or 'nothing'}"
            )
        name = feature.encode()
        try:
            if kind == "command":
                self._camera.execute(feature)
                return
            written: object = str(value).encode() if kind in ("enumeration", "string") else value
            setter = "string" if kind == "enumeration" else kind
            self._camera.device(f"set_{setter}_feature_value", name, written)
            got = self._camera.device(f"get_{setter}_feature_value", name)
        except AravisError as error:
            self.refuse(feature, value, str(error), self._allowed(feature, kind))
        taken = _plain(kind, got)
        if not self._same(feature, kind, value, taken):
            self.refuse(feature, value, f"it stays {_shown(taken)}", self._allowed(feature, kind))

    def text(self, feature: str) -> str:
        """The value of an enumeration or a text."""
        try:
            return (self._camera.device("get_string_feature_value", feature.encode()) or b"").decode(
                errors="replace"
            )
        except AravisError as error:
            raise SourceError(f"{self._name}: cannot read {feature}: {error}") from error

    def integer(self, feature: str) -> int:
        """The value of a whole number."""
        try:
            return int(self._camera.device("get_integer_feature_value", feature.encode()))
        except AravisError as error:
            raise SourceError(f"{self._name}: cannot read {feature}: {error}") from error

    def run_freely(self) -> None:
        """Switch every trigger off."""
        if not self.has("TriggerMode"):
            return
        try:
            self._camera.camera("clear_triggers")
        except AravisError as error:
            raise SourceError(f"{self._name}: cannot switch its triggers off: {error}") from error

    def number(self, what: str, setting: str, value: float) -> None:
        """Set what cameras name differently (``exposure_time``, ``frame_rate``) and read it back."""
        try:
            low, high = c.c_double(), c.c_double()
            self._camera.camera(f"get_{what}_bounds", c.byref(low), c.byref(high))
            allowed = f"it can be {low.value:g} to {high.value:g}"
            if not low.value <= value <= high.value:
                self.refuse(setting, value, "that is out of range", allowed)
            self._camera.camera(f"set_{what}", value)
            taken = self._camera.camera(f"get_{what}")
        except AravisError as error:
            self.refuse(setting, value, str(error))
        if abs(taken - value) > _TOLERANCE * value:
            self.refuse(setting, value, f"it stays {taken:g}", allowed)

    def network(self, what: str, setting: str, value: int, unit: str) -> None:
        """Set ``packet_size`` or ``packet_delay`` of a network camera and read it back."""
        try:
            self._camera.camera(f"gv_set_{what}", value)
            taken = self._camera.camera(f"gv_get_{what}")
        except AravisError as error:
            self.refuse(setting, value, str(error))
        if abs(taken - value) > _TOLERANCE * value:
            self.refuse(setting, value, f"it stays {taken} {unit}")

    @staticmethod
    def _fits(kind: str, value: Value) -> bool:
        if kind == "command":
            return value is True
        if kind == "boolean":
            return isinstance(value, bool)
        if kind in ("enumeration", "string"):
            return isinstance(value, str)
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)

    def _same(self, feature: str, kind: str, value: Value, taken: Value) -> bool:
        if kind != "float":
            return taken == value
        try:
            step = self._camera.device("get_float_feature_increment", feature.encode())
        except AravisError:
            step = 0.0
        # where there are no steps the library says the smallest number there is
        slack = max(_TOLERANCE * abs(float(value)), step)
        return bool(abs(float(taken) - float(value)) <= slack)

    def _check_range(self, feature: str, kind: str, value: float) -> None:
        low, high, _ = self._bounds(feature, kind)
        if not low <= value <= high:
            self.refuse(feature, value, "that is out of range", self._allowed(feature, kind))

    def _bounds(self, feature: str, kind: str) -> tuple[float, float, float]:
        number: Callable[[], c.c_int64 | c.c_double] = c.c_int64 if kind == "integer" else c.c_double
        low, high, name = number(), number(), feature.encode()
        try:
            self._camera.device(f"get_{kind}_feature_bounds", name, c.byref(low), c.byref(high))
            step = self._camera.device(f"get_{kind}_feature_increment", name)
        except AravisError as error:
            raise SourceError(f"{self._name}: cannot read the range of {feature}: {error}") from error
        return low.value, high.value, step

    def _allowed(self, feature: str, kind: str) -> str | None:
        if kind == "enumeration":
            return f"it can be {', '.join(self.entries(feature)) or 'nothing'}"
        if kind in ("integer", "float"):
            low, high, step = self._bounds(feature, kind)
            steps = f" in steps of {step:g}" if kind == "integer" and step > 1 else ""
            return f"it can be {low:.10g} to {high:.10g}{steps}"
        return None

    def entries(self, feature: str) -> list[str]:
        """What an enumeration can be set to now."""
        try:
            return self._camera.entries(feature)
        except AravisError as error:
            raise SourceError(f"{self._name}: cannot read the entries of {feature}: {error}") from error

    def refuse(self, feature: str, value: Value, why: str, hint: str | None = None) -> NoReturn:
        """Raise: a value that cannot be set."""
        raise SourceError(f"{self._name}: cannot set {feature} to {_shown(value)}: {why}", hint=hint)


def _plain(kind: str, got: object) -> Value:
    if isinstance(got, bytes) or got is None:
        return (got or b"").decode(errors="replace")
    if kind == "boolean":
        return bool(got)
    if not isinstance(got, int | float):
        raise AssertionError(f"no value of a feature: {got!r}")
    return got


def _shown(value: Value) -> str:
    return (
        f"{value:.10g}"
        if isinstance(value, float)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
