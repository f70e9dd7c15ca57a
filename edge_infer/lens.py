"""A camera's lens as a calibration describes it: from bent pictures to straight ones and back.

Reads what OpenCV's calibration tools and ROS's camera_info write. Coordinates are continuous (pixel i covers
i..i+1); OpenCV's have whole numbers in the middle of pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError

Points = NDArray[np.float64]
"""(N, 2) x, y"""

LARGEST = 1_000_000
"""Bytes of a calibration file; they hold a few numbers."""
_FISHEYE = ("equidistant", "fisheye")
_PINHOLE = ("plumb_bob", "rational_polynomial", "pinhole", "opencv")
_COEFFICIENTS = ("distortion_coefficients", "dist_coeffs", "distCoeffs")
_MATRIX = ("camera_matrix", "cameraMatrix", "K")


@dataclass(frozen=True, slots=True, eq=False)
class Lens:
    """Straight pictures keep the camera's size and focal length."""

    matrix: NDArray[np.float64]
    """(3, 3) focal lengths and centre, pixels."""
    coefficients: NDArray[np.float64]
    """(N,) as OpenCV orders them: k1 k2 p1 p2 k3 …, fisheye k1..k4."""
    width: int
    """Pixels of the pictures it was calibrated with."""
    height: int
    fisheye: bool = False

    def __eq__(self, other: object) -> bool:
        """Bends alike, also where it was read again."""
        return isinstance(other, Lens) and self._key == other._key

    def __hash__(self) -> int:
        """See ``__eq__``."""
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return (
            self.matrix.tobytes(), self.coefficients.tobytes(), self.width, self.height, self.fisheye,
        )  # fmt: skip

    def check(self, width: int, height: int) -> None:
        """EdgeInferError where the camera's pictures have another size than the calibration's."""
        if (width, height) != (self.width, self.height):
            raise EdgeInferError(
                f"the lens was calibrated with pictures of {self.width}x{self.height}, "
                f"the camera gives {width}x{height}",
                hint="calibrate again with the camera's present size",
            )

    def straighten(self, pixels: NDArray[np.uint8], box: tuple[int, int, int, int]) -> NDArray[np.uint8]:
        """The part ``box`` of the straight picture of the camera's (H, W[, 3]); black where it saw nothing.

        EdgeInferError as from ``check``.
        """
        import cv2

        self.check(pixels.shape[1], pixels.shape[0])
        coarse, fine = _maps(self, box)
        return np.asarray(cv2.remap(pixels, coarse, fine, cv2.INTER_LINEAR), np.uint8)

    def to_camera(self, straight: Points) -> Points:
        """From the straight picture to the camera's."""
        import cv2

        focal, center = self.matrix[[0, 1], [0, 1]], self.matrix[:2, 2]
        rays = (straight - 0.5 - center) / focal
        if self.fisheye:
            bent = cv2.fisheye.distortPoints(rays[:, None], self.matrix, self.coefficients)
        else:
            deep = np.concatenate([rays, np.ones((len(rays), 1))], axis=1)
            bent, _ = cv2.projectPoints(deep, np.zeros(3), np.zeros(3), self.matrix, self.coefficients)
        return np.asarray(bent, np.float64).reshape(-1, 2) + 0.5

    def to_straight(self, camera: Points) -> Points:
        """From the camera's picture to the straight one."""
        import cv2

        points = (camera - 0.5)[:, None]
        undo = cv2.fisheye.undistortPoints if self.fisheye else cv2.undistortPoints
        straight = undo(points, self.matrix, self.coefficients, P=self.matrix)
        return np.asarray(straight, np.float64).reshape(-1, 2) + 0.5


@lru_cache(maxsize=16)
def _maps(lens: Lens, box: tuple[int, int, int, int]) -> tuple[Any, Any]:
    """Where each straight pixel of the box lies in the camera's picture; OpenCV's fixed-point form."""
    import cv2

    x1, y1, x2, y2 = box
    shifted = lens.matrix.copy()
    shifted[0, 2] -= x1
    shifted[1, 2] -= y1
    make = cv2.fisheye.initUndistortRectifyMap if lens.fisheye else cv2.initUndistortRectifyMap
    coarse, fine = make(lens.matrix, lens.coefficients, np.eye(3), shifted, (x2 - x1, y2 - y1), cv2.CV_16SC2)
    return coarse, fine


def load_lens(path: Path) -> Lens:
    """EdgeInferError with the file and what is wrong in it."""
    try:
        if path.stat().st_size > LARGEST:
            raise _wrong(path, "is too large for one")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EdgeInferError(f"there is no calibration {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise EdgeInferError(f"cannot read the calibration {path}: {reason}") from error
    # OpenCV's own heading is no YAML
    if text.startswith("%YAML:"):
        text = text.partition("\n")[2]
    try:
        written = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with one tag more
    except (yaml.YAMLError, RecursionError) as error:
        raise _wrong(path, "is no YAML") from error
    if not isinstance(written, dict):
        raise _wrong(path, "is no YAML with keys")
    model = written.get("distortion_model", "fisheye" if written.get("fisheye_model") else "pinhole")
    if model not in (*_FISHEYE, *_PINHOLE):
        raise _wrong(
            path, f"names the distortion_model {model!r}; known: {', '.join((*_FISHEYE, *_PINHOLE))}"
        )
    fisheye = model in _FISHEYE
    matrix = _numbers(path, written, _MATRIX)
    coefficients = _numbers(path, written, _COEFFICIENTS)
    if matrix.size != 9 or (matrix := matrix.reshape(3, 3))[[0, 1], [0, 1]].min() <= 0:
        raise _wrong(path, "needs a camera_matrix of 3x3 numbers with focal lengths above 0")
    if coefficients.size not in ((4,) if fisheye else (4, 5, 8, 12, 14)):
        raise _wrong(path, f"has {coefficients.size} distortion_coefficients, a {model} lens has not so many")
    width, height = (written.get(f"image_{side}", written.get(side)) for side in ("width", "height"))
    if not (isinstance(width, int) and isinstance(height, int) and min(width, height) > 0):
        raise _wrong(path, "needs image_width and image_height, the size of the pictures it was made with")
    return Lens(matrix, coefficients, width, height, fisheye)


class _Loader(yaml.SafeLoader):
    """Knows OpenCV's matrices, which are plain mappings."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:opencv-matrix", _mapping)


def _numbers(path: Path, written: dict[Any, Any], names: tuple[str, ...]) -> NDArray[np.float64]:
    value = next((written[name] for name in names if name in written), None)
    if isinstance(value, dict):
        value = value.get("data")
    try:
        numbers = np.array(value, np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise _wrong(path, f"needs {names[0]}, a list of numbers") from error
    if not np.isfinite(numbers).all():
        raise _wrong(path, f"needs {names[0]}, a list of numbers")
    return numbers


def _wrong(path: Path, what: str) -> EdgeInferError:
    return EdgeInferError(
        f"the calibration {path} {what}",
        hint="wanted is what OpenCV's calibration or ROS's camera_info writes: camera_matrix, "
        "distortion_coefficients, image_width, image_height",
    )
