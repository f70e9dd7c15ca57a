"""From a frame to the tensor that a network takes, and the way back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.antialias import antialiased
from edge_infer.errors import ModelError
from edge_infer.geometry import Fit, PixelBox, Transform, center_crop, letterbox, stretch
from edge_infer.model.card import InputCard
from edge_infer.tensor import Canvas, PictureSpec, Tensor

_INTERPOLATION = {"linear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA}
_DTYPES = ("uint8", "float16", "float32", "float64")


class Preprocess:
    """Does to a picture what is left to do before one network. Any thread may call it."""

    def __init__(self, card_input: InputCard, spec: PictureSpec) -> None:
        _check(card_input, spec)
        self._card = card_input
        self._spec = spec
        self._channels = 1 if spec.color == "gray" else 3
        self._planar = spec.layout == "nchw"
        mean, std = _by_channel(spec.mean, self._channels), _by_channel(spec.std, self._channels)
        levels = np.arange(256, dtype=np.float32)[:, None] / np.float32(spec.scale)
        # (1, 256, channels): what each grey level becomes, as OpenCV's LUT takes it
        self._table = ((levels - mean) / std)[None].astype(spec.dtype)
        # (width, channels), lying in memory like the tensor: numpy fills a hundred times faster with
        # whole rows than with single pixels
        row = np.tile(self._table[0, card_input.pad_value], (spec.width, 1))
        self._padding = row.T.copy().T if self._planar else row
        self._as_is = spec.dtype == "uint8"
        self._scratch = _Scratch()
        # a camera's frames are all alike; a large one may be looked at in hundreds of tiles
        self._placing = lru_cache(maxsize=1024)(self._place)

    def __call__(self, pixels: NDArray[np.uint8], region: PixelBox | None, canvas: Canvas) -> Transform:
        """BGR (H, W, 3) or grey (H, W) onto the canvas; the way back to the full frame's pixels.

        Only ``region`` is looked at. The frame is not copied.
        """
        frame_height, frame_width = pixels.shape[:2]
        placing = self._placing(frame_width, frame_height, region)
        x1, y1, x2, y2 = placing.part
        tensor, inside = canvas.tensor, placing.inside
        # in the order of pixels, however they lie in memory
        first = tensor[0].transpose(1, 2, 0) if self._planar else tensor[0]
        if canvas.padded != inside:
            canvas.padded = inside
            self._pad(first, *inside)
        self._write(pixels[y1:y2, x1:x2], placing.fit, first[inside])
        if len(tensor) > 1:
            # a network with a fixed batch answers one frame so many times
            tensor[1:] = tensor[0]
        return placing.transform

    def new(self) -> Canvas:
        """Memory for one input tensor."""
        spec, size = self._spec, (self._spec.height, self._spec.width)
        batch = spec.shape[0] or 1
        shape = (batch, self._channels, *size) if self._planar else (batch, *size, self._channels)
        return Canvas(np.empty(shape, spec.dtype))

    def _place(self, width: int, height: int, region: PixelBox | None) -> _Placing:
        part = x1, y1, x2, y2 = region or (0, 0, width, height)
        fit = self._fit(x2 - x1, y2 - y1)
        return _Placing(part, fit, fit.inside, fit.transform(part, width, height))

    def _fit(self, width: int, height: int) -> Fit:
        card, spec = self._card, self._spec
        if card.resize == "stretch":
            return stretch(spec.width, spec.height)
        if card.resize == "center_crop":
            return center_crop(width, height, card.size, spec.width, spec.height)
        return letterbox(width, height, spec.width, spec.height, card.align)

    def _pad(self, canvas: Tensor, rows: slice, columns: slice) -> None:
        canvas[: rows.start] = canvas[rows.stop :] = self._padding
        canvas[rows, : columns.start] = self._padding[: columns.start]
        canvas[rows, columns.stop :] = self._padding[columns.stop :]

    def _write(self, picture: NDArray[np.uint8], fit: Fit, inside: Tensor) -> None:
        if self._can_resize_into_place(picture, fit):
            how = _INTERPOLATION[self._card.interpolation]
            cv2.resize(picture, (fit.width, fit.height), inside, interpolation=how)
        else:
            self._fill(inside, self._resized(picture, fit))

    def _can_resize_into_place(self, picture: NDArray[np.uint8], fit: Fit) -> bool:
        same_pixels = self._as_is and not self._planar and self._spec.color == "bgr" and picture.ndim == 3
        whole = fit.width <= fit.network_width and fit.height <= fit.network_height
        return same_pixels and whole and self._card.interpolation in _INTERPOLATION

    def _resized(self, picture: NDArray[np.uint8], fit: Fit) -> NDArray[np.uint8]:
        """The part of the resized picture that lies in the network's input."""
        if (fit.height, fit.width) == picture.shape[:2]:
            return picture[fit.kept]
        if self._card.interpolation == "antialias":
            return antialiased(picture, fit)
        resized = self._scratch.get("resized", (fit.height, fit.width, *picture.shape[2:]))
        how = _INTERPOLATION[self._card.interpolation]
        return _pixels(cv2.resize(picture, (fit.width, fit.height), resized, interpolation=how))[fit.kept]

    def _fill(self, inside: Tensor, picture: NDArray[np.uint8]) -> None:
        if self._planar or self._channels == 1:
            # numpy and OpenCV are several times faster on planes than on a transposed picture
            for channel, plane in enumerate(self._planes(picture)):
                self._normalise(plane, self._table[:, :, channel], inside[:, :, channel])
        else:
            self._normalise(self._in_color(picture), self._table, inside)

    def _planes(self, picture: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """The picture's channels in the network's order."""
        size = picture.shape[:2]
        if self._channels == 1:
            gray = (
                picture
                if picture.ndim == 2
                else cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY, self._scratch.get("gray", size))
            )
            return [_pixels(gray)]
        if picture.ndim == 2:
            return [picture] * 3
        planes = cv2.split(picture, [self._scratch.get(f"plane {channel}", size) for channel in range(3)])
        ordered = planes if self._spec.color == "bgr" else planes[::-1]
        return [_pixels(plane) for plane in ordered]

    def _in_color(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if picture.ndim == 2:
            return _pixels(cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR))
        return picture if self._spec.color == "bgr" else _pixels(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))

    def _normalise(self, picture: NDArray[np.uint8], table: Tensor, out: Tensor) -> None:
        if self._as_is:
            out[...] = picture
        else:
            cv2.LUT(picture, table, out)


class _Placing(NamedTuple):
    """Where the part of a frame that is looked at goes."""

    part: PixelBox
    fit: Fit
    inside: tuple[slice, slice]
    transform: Transform


class _Scratch(threading.local):
    """Pictures in between, of each thread its own: fresh memory costs more than what is done with it."""

    def __init__(self) -> None:
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def get(self, use: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """What this thread used last for it, where the size is the same."""
        memory = self._memory.get(use)
        if memory is None or memory.shape != shape:
            memory = self._memory[use] = np.empty(shape, np.uint8)
        return memory


def _check(card: InputCard, spec: PictureSpec) -> None:
    identity = spec.scale == 1 and not any(spec.mean) and all(value == 1 for value in spec.std)
    if spec.dtype not in _DTYPES:
        raise ModelError(
            f"the network's input {spec.name} takes {spec.dtype} pixels", hint=f"known: {', '.join(_DTYPES)}"
        )
    if spec.dtype == "uint8" and not identity:
        raise ModelError(
            f"the network's input {spec.name} takes uint8 pixels, which cannot be normalised",
            hint="set input.scale: 1, mean: [0, 0, 0] and std: [1, 1, 1] in the model card",
        )
    cut = card.network_size
    if card.resize == "center_crop" and cut != (spec.height, spec.width):
        raise ModelError(
            f"the picture is cut to {cut[0]}x{cut[1]} (height x width), "
            f"the network's input {spec.name} takes {spec.height}x{spec.width}",
            hint="correct input.crop in the model card",
        )


def _by_channel(values: Sequence[float], channels: int) -> NDArray[np.float32]:
    array = np.array(values, np.float32)
    if channels == 1 and len(set(values)) == 1:
        array = array[:1]
    if array.shape not in ((1,), (channels,)):
        raise ModelError(
            f"{len(values)} values of mean or std for a network with {channels} colour channels",
            hint="correct input.mean and input.std in the model card",
        )
    return np.broadcast_to(array, (channels,))


def _pixels(image: object) -> NDArray[np.uint8]:
    return np.asarray(image, np.uint8)
