"""What industrial cameras send, as 8-bit BGR; the test pictures are encoded from the standard's text."""

from __future__ import annotations

import time

import numpy as np
import pytest

from edge_infer.sources._genicam.connection import FrameIds, on_monotonic_clock
from edge_infer.sources._genicam.pixel_formats import BY_NAME, to_bgr
from tests.support.gige_camera import COLORS, encoded

WIDTH, HEIGHT = 64, 48


def picture(
    name: str, width: int = WIDTH, height: int = HEIGHT
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(encoded(name, width, height), np.uint8)


@pytest.mark.parametrize("name", [name for name in BY_NAME if not name.startswith("Mono")])
def test_each_color_comes_out_as_itself(name: str) -> None:
    bgr = to_bgr(BY_NAME[name], picture(name), WIDTH, HEIGHT)
    assert bgr.shape == (HEIGHT, WIDTH, 3)
    assert bgr.dtype == np.uint8
    for (row, column), (red, green, blue) in zip(
        ((12, 16), (12, 48), (36, 16), (36, 48)), COLORS.values(), strict=True
    ):
        quarter = bgr[row - 6 : row + 6, column - 6 : column + 6]
        assert (quarter == (blue, green, red)).all(), name


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("Mono")])
@pytest.mark.parametrize(("width", "height"), [(WIDTH, HEIGHT), (60, 10)])
def test_deep_grey_keeps_its_highest_bits(name: str, width: int, height: int) -> None:
    bgr = to_bgr(BY_NAME[name], picture(name, width, height), width, height)
    wanted = np.tile(np.arange(width, dtype=np.uint8), (height, 1))
    wanted[height // 2 :] = 0xAB
    assert np.array_equal(bgr, np.repeat(wanted[:, :, None], 3, axis=2))


@pytest.mark.parametrize("name", ["Mono8", "BayerRG8", "BGR8", "Mono12"])
def test_bytes_behind_each_row_are_left_out(name: str) -> None:
    form = BY_NAME[name]
    rows = picture(name).reshape(HEIGHT, form.row_bytes(WIDTH))
    padded = np.concatenate([rows, np.full((HEIGHT, 4), 77, np.uint8)], axis=1).ravel()
    assert np.array_equal(
        to_bgr(form, padded, WIDTH, HEIGHT, padding=4), to_bgr(form, picture(name), WIDTH, HEIGHT)
    )


@pytest.mark.parametrize("name", ["Mono8", "BGR8", "RGB8", "BayerGB8", "Mono12p"])
def test_a_picture_has_memory_of_its_own(name: str) -> None:
    data = picture(name).copy()
    bgr = to_bgr(BY_NAME[name], data, WIDTH, HEIGHT)
    before = bgr.copy()
    data[:] = 0
    assert np.array_equal(bgr, before)


def test_a_wall_time_is_not_put_too_early_when_the_thread_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that looks older than the trigger which caused it would not answer it."""
    wall = time.time

    def held_up() -> float:
        time.sleep(0.02)
        return wall()

    for clock in (wall, held_up):
        monkeypatch.setattr(time, "time", clock)
        true_s, wall_ns = time.monotonic(), time.time_ns()
        assert true_s - 1e-4 < on_monotonic_clock(wall_ns) < true_s + 0.1


@pytest.mark.parametrize(
    ("ids", "missed"),
    [
        ([65534, 65535, 1, 2], [0, 0, 0, 0]),  # 16 bits, 0 is no number
        ([65534, 2], [0, 2]),
        ([7, 9, 10], [0, 1, 0]),
        ([65535, 65536, 65538], [0, 0, 1]),  # 64 bits
        ([0, 1, 2], [0, 0, 0]),  # USB3 Vision counts from 0
        ([500, 1, 2], [0, 0, 0]),  # it began anew
        ([5, 5, 6], [0, 0, 0]),
        ([5, None, 7], [0, 0, 0]),  # the number of 6 was lost, not its picture
        ([5, None, 9], [0, 0, 2]),
    ],
)
def test_pictures_that_never_came_are_counted(ids: list[int | None], missed: list[int]) -> None:
    count = FrameIds()
    assert [count.missed(one) for one in ids] == missed
