"""Pylon's emulated cameras that do what they do not do by themselves."""

from __future__ import annotations

import sys
from typing import Any

from edge_infer.settings import Secrets
from edge_infer.sources._driver import Capture, Driver
from edge_infer.sources.basler import Basler

EMULATED = {"PYLON_CAMEMU": "2"}
"""In the environment: cameras 0815-0000 and 0815-0001."""


class Pulsed(Basler):
    """Its input gives a signal with each look: the emulator's inputs give none."""

    def connect(self, camera: str, secrets: Secrets) -> Driver:
        return _Pulsing(super().connect(camera, secrets))


class Stubborn(Basler):
    """Its gain stays as it is, and nothing says so."""

    def connect(self, camera: str, secrets: Secrets) -> Driver:
        from edge_infer.sources._pylon import Camera

        class Stays:
            Value = property(lambda _: 7.0, lambda _, __: None)

        node = Camera._node

        def nodes(driver: Camera, feature: str) -> Any:
            return Stays() if feature == "Gain" else node(driver, feature)

        Camera._node = nodes  # type: ignore[method-assign, assignment]
        return super().connect(camera, secrets)


class Bare(Basler):
    """On a machine without pypylon."""

    def connect(self, camera: str, secrets: Secrets) -> Driver:
        sys.modules["pypylon"] = None  # type: ignore[assignment]
        return super().connect(camera, secrets)


class _Pulsing:
    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def capture(self) -> Capture | None:
        self._driver._camera.ExecuteSoftwareTrigger()
        capture: Capture | None = self._driver.capture()
        return capture

    def close(self) -> None:
        self._driver.close()
