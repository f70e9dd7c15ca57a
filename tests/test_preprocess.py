"""From a frame to the tensor a network takes, against slow code that says the same in other words."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import ModelError
from edge_infer.geometry import Transform
from edge_infer.model.card import InputCard
from edge_infer.picture import read
from edge_infer.tensor import PictureSpec, Tensor
from tests.support.preprocessing import Fresh

Color = Literal["bgr", "rgb", "gray"]
Layout = Literal["nchw", "nhwc"]
Pixels = NDArray[np.uint8]

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def _spec(
    size: tuple[int, int] = (96, 128),
    *,
    layout: Layout = "nchw",
    dtype: str = "float32",
    color: Color = "rgb",
    scale: float | None = None,
    mean: tuple[float, ...] = (0.0, 0.0, 0.0),
    std: tuple[float, ...] = (1.0, 1.0, 1.0),
    batch: int = 1,
) -> PictureSpec:
    channels = 1 if color == "gray" else 3
    shape = (batch, channels, *size) if layout == "nchw" else (batch, *size, channels)
    scale = scale if scale is not None else 1 if dtype == "uint8" else 255
    return PictureSpec("images", shape, dtype, layout, *size, color, scale, mean, std)


def _frame(width: int = 333, height: int = 217, seed: int = 0) -> Pixels:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    frame = np.asarray(cv2.GaussianBlur(noise, (0, 0), 3), np.uint8) * 2
    frame.flags.writeable = False
    return frame


def _letterboxed(frame: Pixels, card: InputCard, spec: PictureSpec) -> Tensor:
    """A letterbox as everybody writes it: whole pictures, copied at each step."""
    height, width = frame.shape[:2]
    ratio = min(spec.height / height, spec.width / width)
    how = {"linear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA}[card.interpolation]
    if card.align == "center":
        new_width, new_height = round(width * ratio), round(height * ratio)
    else:
        new_width, new_height = int(width * ratio), int(height * ratio)
    resized = cv2.resize(frame, (new_width, new_height), interpolation=how)
    spare_x, spare_y = spec.width - new_width, spec.height - new_height
    top, left = (spare_y // 2, spare_x // 2) if card.align == "center" else (0, 0)
    pad = (card.pad_value,) * 3
    boxed = np.asarray(
        cv2.copyMakeBorder(resized, top, spare_y - top, left, spare_x - left, cv2.BORDER_CONSTANT, value=pad)
    )
    if spec.color == "gray":
        picture = np.asarray(cv2.cvtColor(boxed, cv2.COLOR_BGR2GRAY))[..., None]
    else:
        picture = boxed[..., ::-1] if spec.color == "rgb" else boxed
    if spec.dtype != "uint8":
        mean, std = np.array(spec.mean, np.float32), np.array(spec.std, np.float32)
        channels = picture.shape[-1]
        picture = ((picture.astype(np.float32) / np.float32(spec.scale)) - mean[:channels]) / std[:channels]
    batch = np.repeat(picture[None], spec.shape[0] or 1, axis=0)
    return (batch.transpose(0, 3, 1, 2) if spec.layout == "nchw" else batch).astype(spec.dtype)


@pytest.mark.parametrize("align", ["center", "top_left"])
@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_letterboxed_tensor_is_bit_for_bit_what_plain_code_makes(
    layout: Layout, dtype: str, color: Color, align: Literal["center", "top_left"]
) -> None:
    for size, frame in (((96, 128), _frame()), ((127, 65), _frame(641, 333)), ((64, 64), _frame(31, 97))):
        card = InputCard(size, align=align, pad_value=113)
        spec = _spec(size, layout=layout, dtype=dtype, color=color)
        tensor, _ = Fresh(card, spec)(frame)
        assert tensor.dtype == dtype
        np.testing.assert_array_equal(tensor, _letterboxed(frame, card, spec))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_mean_and_std_stand_in_the_networks_colour_order(layout: Layout) -> None:
    for mean, std in (IMAGENET, ((0.0, 0.5, 0.0), (1.0, 1.0, 1.0)), ((0.0, 0.0, 0.0), (1.0, 1.0, 0.5))):
        card, spec = InputCard((96, 128)), _spec(layout=layout, mean=mean, std=std)
        tensor, _ = Fresh(card, spec)(_frame())
        np.testing.assert_array_equal(tensor, _letterboxed(_frame(), card, spec))


def test_area_interpolation_is_used_where_the_card_says_so() -> None:
    card, spec = InputCard((96, 128), interpolation="area"), _spec()
    tensor, _ = Fresh(card, spec)(_frame())
    np.testing.assert_array_equal(tensor, _letterboxed(_frame(), card, spec))


def test_a_fixed_batch_is_filled_with_the_one_picture() -> None:
    card, spec = InputCard((96, 128)), _spec(batch=2)
    tensor, _ = Fresh(card, spec)(_frame())
    np.testing.assert_array_equal(tensor, _letterboxed(_frame(), card, spec))


def test_a_grey_frame_fills_every_channel() -> None:
    grey = _frame()[:, :, 0]
    colored = np.repeat(grey[:, :, None], 3, axis=2)
    for color in ("rgb", "bgr", "gray"):
        prepare = Fresh(InputCard((96, 128)), _spec(color=color))
        np.testing.assert_array_equal(prepare(grey)[0], prepare(colored)[0])


def test_nothing_outside_the_region_is_looked_at() -> None:
    region = (40, 30, 290, 190)
    frame = _frame().copy()
    prepare = Fresh(InputCard((96, 128)), _spec())
    expected, _ = prepare(np.ascontiguousarray(frame[30:190, 40:290]))
    frame[:30] = frame[190:] = 255
    frame[:, :40] = frame[:, 290:] = 0
    tensor, transform = prepare(frame, region)
    np.testing.assert_array_equal(tensor, expected)
    assert (transform.frame_width, transform.frame_height) == (333, 217)


def _block_in(tensor: Tensor) -> NDArray[np.float32]:
    """(1, 4) where the white block lies in the network's input, to a fraction of a pixel."""
    plane = tensor[0, 0]
    across, down = plane.max(axis=0), plane.max(axis=1)
    sides = []
    for line in (across, down):
        inside = np.flatnonzero(line > 0.5)
        first, last = int(inside[0]), int(inside[-1])
        # the edge lies where half of the white is reached, between two pixel centres
        before = float(line[first - 1])
        after = float(line[last + 1])
        sides.append(
            (
                first + 0.5 - (line[first] - 0.5) / (line[first] - before),
                last + 0.5 + (line[last] - 0.5) / (line[last] - after),
            )
        )
    (x1, x2), (y1, y2) = sides
    return np.array([[x1, y1, x2, y2]], np.float32)


@pytest.mark.parametrize("interpolation", ["linear", "area", "antialias"])
@pytest.mark.parametrize(
    "card",
    [
        {"resize": "letterbox", "align": "center"},
        {"resize": "letterbox", "align": "top_left"},
        {"resize": "stretch"},
        {"resize": "center_crop", "crop": (251, 319)},
    ],
)
def test_what_is_seen_in_the_tensor_comes_back_to_its_place_in_the_frame(
    card: dict[str, Any], interpolation: Literal["linear", "area", "antialias"]
) -> None:
    for width, height, region in (
        (1271, 717, None), (333, 511, None), (1920, 1080, (301, 99, 1802, 1001)),
        (641, 333, (0, 33, 641, 300)),
    ):  # fmt: skip
        frame = np.zeros((height, width, 3), np.uint8)
        x1, y1, x2, y2 = region or (0, 0, width, height)
        # in the middle third, at odd places
        block = (
            x1 + (x2 - x1) * 4 // 10,
            y1 + (y2 - y1) * 4 // 10,
            x1 + (x2 - x1) * 6 // 10,
            y1 + (y2 - y1) * 6 // 10,
        )
        frame[block[1] : block[3], block[0] : block[2]] = 255
        settings = InputCard((257, 325), interpolation=interpolation, pad_value=0, **card)
        tensor, transform = Fresh(settings, _spec(settings.crop or settings.size))(frame, region)
        (found,) = transform.boxes_to_frame(_block_in(tensor))
        # a network pixel is up to seven of the frame; a quarter of one is what the edge finder is good for
        pixel = max((x2 - x1) / 325, (y2 - y1) / 257, 1)
        assert np.abs(found - block).max() < 0.3 * pixel, (width, height, found, block)


def _antialiased(frame: Pixels, width: int, height: int) -> NDArray[np.float64]:
    """A triangle as wide as a pixel of the result, straight from its definition."""

    def weights(old: int, new: int) -> NDArray[np.float64]:
        reach = max(old / new, 1)
        middles = (np.arange(new)[:, None] + 0.5) * old / new
        matrix = np.maximum(0, 1 - np.abs(np.arange(old)[None] + 0.5 - middles) / reach)
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))

    old_height, old_width = frame.shape[:2]
    down, across = weights(old_height, height), weights(old_width, width)
    return np.asarray(np.einsum("yY,xX,YXc->yxc", down, across, frame, optimize=True))


def test_antialiasing_is_that_of_pil_and_torchvision() -> None:
    for size in ((48, 37), (211, 150), (300, 400)):
        frame = _frame(seed=3)
        card = InputCard(size, resize="stretch", interpolation="antialias")
        tensor, _ = Fresh(card, _spec(size, dtype="uint8", color="bgr", layout="nhwc"))(frame)
        wish = _antialiased(frame, size[1], size[0])
        # rounded after each direction, as PIL does
        assert np.abs(tensor[0] - wish).max() <= 1.1


def test_a_picture_of_the_networks_size_is_not_resampled() -> None:
    frame = _frame(128, 96)
    for interpolation in ("linear", "area", "antialias"):
        card = InputCard((96, 128), resize="stretch", interpolation=interpolation)
        tensor, _ = Fresh(card, _spec(dtype="uint8", color="bgr", layout="nhwc"))(frame)
        np.testing.assert_array_equal(tensor[0], frame)


def test_a_centre_crop_is_the_middle_of_the_resized_picture() -> None:
    frame = _frame(400, 256)
    card = InputCard((256, 256), resize="center_crop", crop=(224, 224))
    spec = _spec((224, 224), dtype="uint8", color="bgr", layout="nhwc")
    tensor, _ = Fresh(card, spec)(frame)
    np.testing.assert_array_equal(tensor[0], frame[16:240, 88:312])


def test_tensors_are_the_callers_to_keep() -> None:
    prepare = Fresh(InputCard((96, 128)), _spec(layout="nhwc", dtype="uint8", color="bgr"))
    first, _ = prepare(_frame(seed=1))
    kept = first.copy()
    second, _ = prepare(_frame(seed=2))
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, kept)
    assert second.flags.writeable
    assert second.flags.c_contiguous


def test_a_frame_that_needs_no_change_is_still_not_handed_out() -> None:
    frame = _frame(128, 96)
    tensor, _ = Fresh(InputCard((96, 128)), _spec(layout="nhwc", dtype="uint8", color="bgr"))(frame)
    assert not np.shares_memory(tensor, frame)


def test_threads_do_not_mix_their_frames() -> None:
    frames = [_frame(seed=seed) for seed in range(8)]
    prepare = Fresh(InputCard((96, 128), interpolation="antialias"), _spec())
    expected = [prepare(frame)[0] for frame in frames]

    def work(index: int) -> tuple[Tensor, Transform]:
        return prepare(frames[index % 8])

    with ThreadPoolExecutor(4) as pool:
        for index, (tensor, _) in enumerate(pool.map(work, range(80))):
            np.testing.assert_array_equal(tensor, expected[index % 8])


def test_a_real_photo_reaches_the_network_as_plain_code_makes_it(shared: Path) -> None:
    for path in sorted((shared / "assets/photos").glob("*.jpg")):
        photo = read(path).pixels
        card, spec = InputCard((640, 640)), _spec((640, 640))
        tensor, _ = Fresh(card, spec)(photo)
        np.testing.assert_array_equal(tensor, _letterboxed(photo, card, spec))


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        (_spec(dtype="uint8", scale=255), "uint8"),
        (_spec(dtype="uint8", mean=(1, 1, 1)), "uint8"),
        (_spec(dtype="int64"), "int64"),
        (_spec(mean=(0.5, 0.5)), "2 values"),
    ],
)
def test_a_network_that_cannot_be_fed_is_refused(spec: PictureSpec, match: str) -> None:
    with pytest.raises(ModelError, match=match):
        Fresh(InputCard((96, 128)), spec)


def test_a_crop_that_is_not_the_networks_size_is_refused_with_both() -> None:
    card = InputCard((256, 256), resize="center_crop", crop=(200, 200))
    with pytest.raises(ModelError, match=r"200x200.*224x224"):
        Fresh(card, _spec((224, 224)))
