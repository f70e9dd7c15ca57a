"""An `http` source on the tests' web cameras."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source
from edge_infer.sources.http import Http
from tests.support.rtsp_camera import Stamp, read_stamp

USER, PASSWORD, SESAME, TOKEN = "insp@ctor", "p#@%/?: &+=ü\\\"'%41[x]", "sesame-1234", "tok-8c2f"


@contextmanager
def opened(url: str, **options: object) -> Iterator[Source]:
    settings = Http.model_validate_json(json.dumps({"type": "http", "url": url, **options}))
    source = settings.open("top", Secrets({"CAM": PASSWORD, "WRONG": SESAME}))
    with closing(source):
        yield source


def refused(url: str, **options: object) -> str:
    with pytest.raises(SourceError) as caught, opened(url, **options):
        pass
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.hint
    return message


def read(source: Source, timeout_s: float = 5.0) -> tuple[Frame, Stamp]:
    frame = source.read(timeout_s)
    assert frame is not None
    assert frame.damaged is None
    stamp = read_stamp(frame.pixels)
    assert stamp is not None, f"frame {frame.seq} is broken"
    return frame, stamp


def lost(source: Source, within_s: float) -> str:
    """Why, as the reader of frames is told."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        try:
            source.read(0.1)
        except SourceStalledError:
            continue
        except SourceError as error:
            return str(error)
    raise AssertionError(f"not lost within {within_s} s")
