"""A watched folder as a camera, and who reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source
from edge_infer.sources.files import Files


def encoded(value: int, suffix: str = ".png") -> bytes:
    """Larger than what one write gives."""
    noise = np.random.default_rng(value).integers(0, 256, (120, 160, 3), np.uint8)
    noise[:20] = value
    return cv2.imencode(suffix, noise)[1].tobytes()


def level(frame: Frame) -> int:
    return round(float(frame.pixels[:16].mean()))


@contextmanager
def watched(folder: Path, **options: Any) -> Iterator[Source]:
    settings = Files(type="files", path=folder, watch=True, **{"settle_s": 0.5, **options})
    with closing(settings.open("top", Secrets({}))) as source:
        yield source


def read(source: Source, timeout_s: float = 5.0) -> Frame:
    frame = source.read(timeout_s)
    assert frame is not None
    return frame


def name(frame: Frame) -> str:
    assert frame.name is not None
    return Path(frame.name).name


def settle(frame: Frame) -> None:
    assert frame.settled is not None
    frame.settled("cap")


def nothing(source: Source, for_s: float) -> None:
    with pytest.raises(SourceStalledError):
        source.read(for_s)


def lost(source: Source) -> str:
    end_s = time.monotonic() + 5
    while time.monotonic() < end_s:
        try:
            source.read(0.2)
        except SourceStalledError:
            continue
        except SourceError as error:
            return str(error)
    raise AssertionError("not lost within 5 s")


def wait_for(path: Path, *, gone: bool = False) -> None:
    end_s = time.monotonic() + 5
    while path.exists() == gone:
        assert time.monotonic() < end_s, path
        time.sleep(0.01)


def end_of_threads() -> None:
    """As the end of a process that was stopped in peace."""
    for one in threading.enumerate():
        if one.name.startswith("watch-"):
            one.join(5)
