"""A site on real networks whose stations can be told to change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_infer.frame import Frame
from edge_infer.scene import Scene
from tests.support.changeovers import Rig, running, site_data, write
from tests.support.frames import frame


@pytest.fixture(scope="module")
def bottle() -> Frame:
    """One with a cap, at the light barrier of the bundled scene."""
    scene = Scene(1, 10, 0)
    one = frame(1)
    pixels = scene.pixels(scene.arrival(1))
    pixels.flags.writeable = False
    return Frame("scene", 1, pixels, 0.0, one.captured_at)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write(tmp_path / "a", site_data())


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


@pytest.fixture
def rig(site: Path, state: Path) -> Iterator[Rig]:
    with running(site, state) as one:
        yield one
