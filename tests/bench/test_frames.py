"""Pictures in memory before the clock starts."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_infer.bench import frames
from edge_infer.errors import SourceError


def write(path: Path, level: int, size: tuple[int, int] = (40, 60)) -> Path:
    cv2.imwrite(str(path), np.full((*size, 3), level, np.uint8))
    return path


def test_without_a_source_it_is_one_full_hd_picture() -> None:
    drawn = frames.drawn()
    assert drawn.size == (1920, 1080)
    (pixels,) = drawn.pixels
    assert pixels.shape == (1080, 1920, 3)
    assert pixels.dtype == np.uint8
    assert not pixels.flags.writeable
    # no even grey: it would be refused as too dark or too bright, and compress well in caches
    assert pixels.std() > 10


def test_a_folder_is_read_whole_in_order(tmp_path: Path) -> None:
    for level in (10, 20, 30):
        write(tmp_path / f"{level}.png", level)
    read = frames.read(tmp_path)
    assert [int(one[0, 0, 0]) for one in read.pixels] == [10, 20, 30]
    assert (read.name, read.size) == (str(tmp_path), (60, 40))


def test_of_a_long_recording_the_first_frames_are_kept(shared: Path) -> None:
    read = frames.read(shared / "assets" / "videos" / "car-detection.mp4")
    assert len(read.pixels) == frames.MOST
    assert read.size == (768, 432)


def test_only_frames_of_one_size_are_measured_together(tmp_path: Path) -> None:
    write(tmp_path / "1.png", 10)
    write(tmp_path / "2.png", 20, (80, 80))
    assert len(frames.read(tmp_path).pixels) == 1


def test_a_damaged_picture_is_told_by_its_name(tmp_path: Path) -> None:
    whole = write(tmp_path / "1.png", 10).read_bytes()
    (tmp_path / "2.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"2\.png"):
        frames.read(tmp_path)


def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing-here"):
        frames.read(tmp_path / "nothing-here")
