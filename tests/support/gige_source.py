"""A `gige` source on the tests' industrial cameras."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source
from edge_infer.sources.gige import Gige
from tests.support.gige_camera import GigeCamera, Stamp, read_stamp

OTHER = "127.0.0.2"


@pytest.fixture(scope="module")
def camera() -> Iterator[GigeCamera]:
    with GigeCamera() as running:
        yield running


@pytest.fixture
def other() -> Iterator[GigeCamera]:
    """To be killed, frozen and so on."""
    with GigeCamera(OTHER, "T2", "--grey", "140") as running:
        yield running


def settings(**options: object) -> Gige:
    usual = {"address": "127.0.0.1", "pixel_format": "Mono8", "width": 320, "height": 240}
    return Gige.model_validate({"type": "gige", **usual, **options})


@contextmanager
def opened(**options: object) -> Iterator[Source]:
    with closing(settings(**options).open("top", Secrets({}))) as source:
        yield source


def read(source: Source, timeout_s: float = 5.0) -> tuple[Frame, Stamp]:
    frame = source.read(timeout_s)
    assert frame is not None
    return frame, read_stamp(frame.pixels)


def lost(source: Source) -> tuple[SourceError, float]:
    """How it ends, and after how long."""
    started_s = time.monotonic()
    while True:
        try:
            source.read(0.5)
        except SourceStalledError:
            assert time.monotonic() - started_s < 20
        except SourceError as error:
            return error, time.monotonic() - started_s


def refused(**options: object) -> str:
    with pytest.raises(SourceError) as caught, opened(**options):
        pass
    message = str(caught.value)
    assert "\n" not in message
    return message


def python(code: str, *before: str) -> subprocess.Popen[str]:
    """A Python of its own with ``open_it(**options)`` and ``wait()``."""
    begin = (
        "import logging, sys, time\nlogging.basicConfig(level=logging.WARNING, format='%(message)s')\n"
        "from edge_infer.settings import Secrets\nfrom edge_infer.sources.gige import Gige\n"
        "def open_it(**options):\n"
        "    usual = dict(type='gige', address='127.0.0.1', pixel_format='Mono8', width=320, height=240)\n"
        "    return Gige.model_validate({**usual, **options}).open('top', Secrets({}))\n"
        "def wait(): time.sleep(60)\n"
    )
    return subprocess.Popen(
        [*before, sys.executable, "-c", begin + code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
