"""Frames to calibrate with and frames to judge by."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_infer.errors import EdgeInferError
from edge_infer.tune.frames import BLOCKS, digest_of, divide, pictures


def noise(folder: Path, count: int, *, first: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(first, first + count):
        pixels = np.random.default_rng(number).integers(0, 256, (12, 16, 3), np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), pixels)
    return folder


def test_no_frame_is_calibrated_with_and_judged_by(tmp_path: Path) -> None:
    frames = divide(noise(tmp_path / "a", 60), calibration=1000, held_out=1000)
    of_calibration = {digest_of(pixels) for pixels in pictures(frames.calibration)}
    of_held_out = {digest_of(pixels) for pixels in pictures(frames.held_out)}
    assert len(of_calibration) == len(of_held_out) == 30
    assert not of_calibration & of_held_out


def test_a_picture_that_is_there_twice_is_on_one_side_only(tmp_path: Path) -> None:
    folder = noise(tmp_path / "a", 60)
    for number in range(60):
        # behind all others: in another block than its original
        shutil.copyfile(folder / f"{number}.png", folder / f"{1000 + (number * 7) % 60}.png")
    frames = divide(folder, calibration=1000, held_out=1000)
    assert (frames.found, frames.repeated) == (120, 60)
    calibration = {place.digest for place in frames.calibration}
    assert not calibration & {place.digest for place in frames.held_out}
    assert len(frames.calibration) + len(frames.held_out) == 60


def test_the_same_folder_is_divided_the_same_way_again(tmp_path: Path) -> None:
    folder = noise(tmp_path / "a", 50)
    first, second = (divide(folder, calibration=20, held_out=20) for _ in range(2))
    assert first == second
    assert first.sha256 == second.sha256
    noise(folder, 1, first=50)
    assert divide(folder, calibration=20, held_out=20).sha256 != first.sha256


def test_neighbours_in_a_video_go_to_one_side(shared: Path) -> None:
    frames = divide(shared / "assets/videos/car-detection.mp4", calibration=1000, held_out=1000)
    numbers = sorted(place.number for place in frames.calibration)
    gaps = sum(after != before + 1 for before, after in pairwise(numbers))
    assert gaps == BLOCKS // 2 - 1
    assert not set(numbers) & {place.number for place in frames.held_out}


def test_few_are_spread_over_all_there_are(tmp_path: Path) -> None:
    frames = divide(noise(tmp_path / "a", 100), calibration=20, held_out=25)
    assert (len(frames.calibration), len(frames.held_out)) == (20, 25)
    numbers = [int(place.path.stem) for place in frames.held_out]
    assert min(numbers) < 20
    assert max(numbers) > 80


def test_too_few_frames_are_refused_with_the_number_needed(tmp_path: Path) -> None:
    with pytest.raises(EdgeInferError, match="holds 39 different frames; at least 40 are needed, 20 to cali"):
        divide(noise(tmp_path / "a", 39), calibration=100, held_out=100)
    divide(noise(tmp_path / "a", 1, first=39), calibration=100, held_out=100)


def test_golden_pictures_are_neither(tmp_path: Path) -> None:
    folder = noise(tmp_path / "a", 41)
    golden = cv2.imread(str(folder / "5.png"))
    assert golden is not None
    digest = digest_of(np.asarray(golden, np.uint8))
    frames = divide(folder, calibration=100, held_out=100, taken=frozenset((digest,)))
    assert digest not in {place.digest for place in (*frames.calibration, *frames.held_out)}
    assert frames.repeated == 1


def test_what_cannot_be_read_is_told_and_left_out(tmp_path: Path) -> None:
    folder = noise(tmp_path / "a", 40)
    (folder / "broken.png").write_bytes((folder / "1.png").read_bytes()[:100])
    frames = divide(folder, calibration=100, held_out=100)
    assert frames.found == 40
    assert len(frames.unreadable) == 1
    assert "broken.png" in frames.unreadable[0]


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    folder = noise(tmp_path / "a", 40)
    frames = divide(folder, calibration=100, held_out=100)
    cv2.imwrite(str(frames.held_out[0].path), np.zeros((12, 16, 3), np.uint8))
    with pytest.raises(EdgeInferError, match="has changed while it was used"):
        list(pictures(frames.held_out))
