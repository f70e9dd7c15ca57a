"""Calibration files as the common tools write them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError
from edge_infer.lens import Lens, load_lens

MATRIX = np.array([[812.5, 0, 320.2], [0, 810.1, 241.7], [0, 0, 1]])
COEFFICIENTS = np.array([-0.31, 0.12, 0.001, -0.0005, -0.02])

ROS = """\
image_width: 640
image_height: 480
camera_name: top
camera_matrix:
  rows: 3
  cols: 3
  data: [812.5, 0, 320.2, 0, 810.1, 241.7, 0, 0, 1]
distortion_model: {model}
distortion_coefficients:
  rows: 1
  cols: {count}
  data: {data}
rectification_matrix: {{rows: 3, cols: 3, data: [1, 0, 0, 0, 1, 0, 0, 0, 1]}}
"""


def ros(path: Path, model: str = "plumb_bob", data: str = "[-0.31, 0.12, 0.001, -0.0005, -0.02]") -> Path:
    path.write_text(ROS.format(model=model, data=data, count=data.count(",") + 1))
    return path


@pytest.mark.parametrize("suffix", ["yml", "json"])
def test_what_opencv_writes_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"lens.{suffix}"
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    storage.write("image_width", 640)
    storage.write("image_height", 480)
    storage.write("camera_matrix", MATRIX)
    storage.write("distortion_coefficients", COEFFICIENTS[:, None])
    storage.release()
    lens = load_lens(path)
    np.testing.assert_allclose(lens.matrix, MATRIX)
    np.testing.assert_allclose(lens.coefficients, COEFFICIENTS)
    assert (lens.width, lens.height, lens.fisheye) == (640, 480, False)


def test_what_ros_writes_is_read(tmp_path: Path) -> None:
    lens = load_lens(ros(tmp_path / "lens.yaml"))
    np.testing.assert_allclose(lens.matrix, MATRIX)
    np.testing.assert_allclose(lens.coefficients, COEFFICIENTS)
    assert load_lens(ros(tmp_path / "fish.yaml", "equidistant", "[-0.02, 0.004, 0, 0]")).fisheye


def test_a_calibration_from_pictures_of_a_board_makes_its_lines_straight(tmp_path: Path) -> None:
    """OpenCV's own calibration of drawn boards that a known lens bent."""
    board = np.zeros((9 * 6, 3), np.float32)
    board[:, :2] = np.mgrid[0:9, 0:6].T.reshape(-1, 2)
    turns = [(0.1, 0.2, 0), (-0.2, 0.1, 0.3), (0.3, -0.2, -0.2), (0, 0.3, 0.1), (-0.3, -0.3, 0)]
    views = [
        cv2.projectPoints(board, np.array(turn), np.array([-4.0, -2.5, 12]), MATRIX, COEFFICIENTS)[0]
        for turn in turns
    ]
    seen = [np.asarray(view, np.float32) for view in views]
    _, matrix, coefficients, _, _ = cv2.calibrateCamera([board] * len(turns), seen, (640, 480), None, None)
    path = tmp_path / "lens.yml"
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name, value in (("image_width", 640), ("image_height", 480)):
        storage.write(name, value)
    storage.write("camera_matrix", matrix)
    storage.write("distortion_coefficients", coefficients)
    storage.release()
    lens = load_lens(path)
    for view in seen:
        row = view.reshape(6, 9, 2)[0] + 0.5
        bent, straight = (_bend(points) for points in (row, lens.to_straight(row)))
        assert straight < 0.1
        assert straight < bent
        np.testing.assert_allclose(lens.to_camera(lens.to_straight(row)), row, atol=0.01)


def _bend(points: NDArray[np.floating]) -> float:
    """How far the points are from the line through the first and the last, pixels."""
    along = (points[-1] - points[0]) / np.linalg.norm(points[-1] - points[0])
    away = points - points[0]
    return float(np.abs(away[:, 0] * along[1] - away[:, 1] * along[0]).max())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no YAML with keys"),
        ("[1, 2", "is no YAML"),
        ("- 1", "is no YAML with keys"),
        ("camera_matrix: [1, 2]", "distortion_coefficients"),
        (ROS.format(model="plumb_bob", data="[1, 2, 3]", count=3), "has 3 distortion_coefficients"),
        (ROS.format(model="equidistant", data="[1, 2, 3, 4, 5]", count=5), "has 5 distortion_coefficients"),
        (ROS.format(model="kannala", data="[1, 2, 3, 4]", count=4), "names the distortion_model 'kannala'"),
        (ROS.format(model="plumb_bob", data="[.nan, 2, 3, 4]", count=4), "a list of numbers"),
        (ROS.format(model="plumb_bob", data="[a, 2, 3, 4]", count=4), "a list of numbers"),
        (ROS.format(model="plumb_bob", data="[0, 0, 0, 0]", count=4).replace("640", "-1"), "image_width"),
        (ROS.format(model="plumb_bob", data="[0, 0, 0, 0]", count=4).replace("812.5", "0"), "focal lengths"),
        ("!!python/object/apply:os.system ['true']", "is no YAML"),
        ("&a [" * 5000, "is no YAML"),
    ],
)
def test_what_is_no_calibration_is_refused_with_the_file_and_what_is_wanted(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "lens.yaml"
    path.write_text(text)
    with pytest.raises(EdgeInferError, match=r"lens\.yaml") as caught:
        load_lens(path)
    assert message in str(caught.value)
    assert "camera_matrix" in str(caught.value.hint)


def test_a_calibration_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EdgeInferError, match="there is no calibration"):
        load_lens(tmp_path / "absent.yaml")
    with pytest.raises(EdgeInferError, match="Is a directory"):
        load_lens(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EdgeInferError, match="not UTF-8"):
        load_lens(tmp_path / "bytes")


def test_a_lens_that_bends_nothing_changes_nothing() -> None:
    lens = Lens(MATRIX, np.zeros(4), 640, 480)
    pixels = np.random.default_rng(3).integers(0, 256, (480, 640, 3), np.uint8)
    np.testing.assert_array_equal(lens.straighten(pixels, (0, 0, 640, 480)), pixels)
    np.testing.assert_array_equal(lens.straighten(pixels, (100, 50, 200, 90)), pixels[50:90, 100:200])
