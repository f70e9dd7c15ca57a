"""Cameras in processes of their own: the real ones, and drivers that fail as only C code can."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from edge_infer.settings import Secrets
from edge_infer.sources._driver import Capture, Driver, DriverSettings
from edge_infer.sources.gige import Gige
from edge_infer.sources.rtsp import Rtsp


class IsolatedGige(Gige):
    isolated: ClassVar[bool] = True


class IsolatedRtsp(Rtsp):
    isolated: ClassVar[bool] = True


class Bad(DriverSettings):
    """Gives 20 pictures a second, until the file ``told`` says what to do instead."""

    isolated: ClassVar[bool] = True

    # costs some tenths of a second, which are not those for opening
    library: ClassVar[str | None] = "cv2"

    type: Literal["bad"] = "bad"
    told: Path

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - the contract's parameters
        driver = _Driver(self.told)
        if self.told.read_text() == "hang at open":
            driver.act("hang")
        return driver


class _Driver:
    def __init__(self, told: Path) -> None:
        self._told = told
        self._count = 0

    def capture(self) -> Capture | None:
        time.sleep(0.05)
        self.act(self._told.read_text())
        self._count += 1
        pixels = np.full((48, 64, 3), self._count % 256, np.uint8)
        # an even picture shows nothing to judge
        pixels[16:32, 16:32], pixels[16:32, 32:48] = 0, 255
        return Capture(pixels, time.monotonic())

    def close(self) -> None:
        pass

    def act(self, word: str) -> None:
        if word == "hang":
            # in C, with the interpreter's lock held: no thread of this process runs any more
            ctypes.PyDLL(None).sleep(3600)
        elif word == "crash":
            ctypes.string_at(0)
        elif word == "bug":
            raise ZeroDivisionError("boom")
