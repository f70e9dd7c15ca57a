"""GigE Vision over real UDP; what is asserted is what the camera painted into its pictures."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
import pytest

from edge_infer.sources._genicam.connection import Connection
from tests.support.gige_camera import COLORS, GigeCamera, read_stamp
from tests.support.gige_source import OTHER, camera, opened, other, read, settings

__all__ = ["camera", "other"]


@pytest.mark.usefixtures("camera")
def test_frames_come_whole_in_order_and_once() -> None:
    with opened(frame_rate=50) as source:
        seen = [read(source) for _ in range(20)]
    ids = [(stamp.frame_id - 65401) % 65535 for _, stamp in seen]  # it counts from 65401 up to 65535
    assert ids == sorted(set(ids))
    first, _ = seen[0]
    # what was dropped is counted by the camera's own numbers
    assert [frame.seq - first.seq for frame, _ in seen] == [one - ids[0] for one in ids]
    for frame, _ in seen:
        assert frame.pixels.shape == (240, 320, 3)
        assert (frame.pixels[1:] == 90).all()
        assert frame.damaged is None
        assert not frame.triggers


def test_each_pixel_is_the_cameras() -> None:
    """libaravis paints a ramp that moves with the frame's number."""
    with GigeCamera(OTHER, "T2", "--own-picture"), opened(address=OTHER, exposure_us=10000) as source:
        frame = source.read(5.0)
    assert frame is not None
    x, y = np.meshgrid(np.arange(320), np.arange(240))
    ramp = ((x + y + int(frame.pixels[0, 0, 0])) % 255).astype(np.uint8)
    assert np.array_equal(frame.pixels, np.repeat(ramp[:, :, None], 3, axis=2))


@pytest.mark.usefixtures("camera")
def test_the_cameras_count_passes_its_16_bits() -> None:
    """A camera begins at 65400 and has no number 0."""
    with GigeCamera(OTHER, "T2"), opened(address=OTHER, frame_rate=200) as source:
        first, begin = read(source)
        while (seen := read(source))[1].frame_id > 60000:
            pass
        for _ in range(5):
            frame, stamp = seen
            assert frame.seq - first.seq == stamp.frame_id + 65535 - begin.frame_id
            seen = read(source)


@pytest.mark.usefixtures("camera")
def test_a_frame_knows_when_it_was_taken() -> None:
    with opened(frame_rate=50) as source:
        late = [frame.time_s - stamp.time_s for frame, stamp in (read(source) for _ in range(20))]
    assert min(late) > 0
    assert sorted(late)[10] < 0.05


@pytest.mark.usefixtures("camera")
def test_a_slow_reader_sees_the_newest_frame_not_the_oldest() -> None:
    with opened(frame_rate=50) as source:
        first, _ = read(source)
        time.sleep(1.0)
        frame, stamp = read(source)
        assert time.monotonic() - stamp.time_s < 0.3
    assert frame.seq - first.seq > 20


@pytest.mark.usefixtures("camera")
def test_a_driver_that_was_held_up_skips_what_piled_up_meanwhile() -> None:
    """Eight buffers lie in the library, the oldest first."""
    with closing(Connection(settings(frame_rate=20), "top")) as connection:
        captures = (one for one in iter(connection.capture, connection) if one is not None)
        next(captures)
        time.sleep(1.5)
        held, late = next(captures), next(captures)
        # it lay there for a second, and says so
        assert held.time_s - read_stamp(held.pixels).time_s < 0.4
        assert time.monotonic() - read_stamp(late.pixels).time_s < 0.5


@pytest.mark.parametrize("name", ["BayerRG8", "BayerGB12p", "RGB8"])
@pytest.mark.usefixtures("camera")
def test_colors_come_out_as_themselves(name: str) -> None:
    with opened(pixel_format=name, width=64, height=48) as source:
        frame = source.read(5.0)
    assert frame is not None
    for (row, column), rgb in zip(((12, 16), (12, 48), (36, 16), (36, 48)), COLORS.values(), strict=True):
        assert tuple(frame.pixels[row, column]) == rgb[::-1]


@pytest.mark.usefixtures("camera")
def test_two_cameras_at_once_give_each_its_own_pictures(other: GigeCamera) -> None:
    with opened(frame_rate=40) as one, opened(address=other.address, frame_rate=30) as two:
        for _ in range(20):
            first, second = read(one), read(two)
            assert (first[0].pixels[1:] == 90).all()
            assert (second[0].pixels[1:] == 140).all()
            assert time.monotonic() - min(first[1].time_s, second[1].time_s) < 0.5


@pytest.mark.parametrize("name", [{"serial": "T2"}, {"device_id": "Aravis-Fake-T2"}])
@pytest.mark.usefixtures("camera", "other")
def test_a_camera_is_found_by_its_label(name: dict[str, str]) -> None:
    with opened(address=None, **name) as source:
        assert int(read(source)[0].pixels[1, 0, 0]) == 140
