"""Reads ``model_info``, as Model API, Geti and Ultralytics write it into an IR or an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edge_infer.errors import ModelError
from edge_infer.model.card import Align, AnomalyCard, Resize, Task
from edge_infer.model.told import Told

_RESIZE: dict[str, tuple[Resize, Align]] = {
    "standard": ("stretch", "center"),
    "fit_to_window": ("letterbox", "top_left"),
    "fit_to_window_letterbox": ("letterbox", "center"),
    "crop": ("center_crop", "center"),
}
# "YOLO" says nothing: Ultralytics writes it for every task
_TASKS: dict[str, Task] = {
    "ssd": "detect", "yolov5": "detect", "yolov8": "detect", "yolo11": "detect", "yolox": "detect",
    "classification": "classify", "segmentation": "semantic", "anomalydetection": "anomaly",
    "maskrcnn": "segment", "detrinstseg": "segment", "yolo-seg": "segment",
}  # fmt: skip
# of these types every key that is missing has this meaning; of the others Model API guesses too
_PLAIN = ("ssd", "classification", "segmentation", "maskrcnn", "detrinstseg")
_YES = ("yes", "true", "1")
_ABSENT = ("", "none")


def read_model_info(path: Path, info: Mapping[str, str]) -> Told | None:
    """None where there is no such information; ModelError where it cannot be read or followed."""
    if "model_type" not in info:
        return None
    return _ModelInfo(path, info).told()


class _ModelInfo:
    def __init__(self, path: Path, info: Mapping[str, str]) -> None:
        self._path = path
        # a key that is there without a value is written as None
        self._info = {key: text for key, text in info.items() if text.strip().lower() not in _ABSENT}
        self._kind = info["model_type"].lower()
        self._embedded = self._says("embedded_processing")

    def told(self) -> Told:
        self._refuse_what_cannot_be_followed()
        plain = self._kind in _PLAIN and not self._embedded
        resize, align = self._resize()
        scale, mean, std = self._normalisation()
        reverse = self._info.get("reverse_input_channels")
        if self._embedded:
            # inside the graph, where it is the identity for a picture that has the size already
            scale, mean, std = 1.0, None, None
        elif plain and (scale, mean, std) == (None, None, None):
            scale = 1.0
        # Model API is given BGR pictures; YES: the network itself wants RGB, and what is saved turns them
        rgb = None if reverse is None and not plain else self._says("reverse_input_channels")
        return Told(
            exporter="Model API",
            task=_TASKS.get(self._kind),
            labels=self._labels(),
            size=self._size(),
            size_is_exact=self._embedded or None,
            resize="stretch" if plain and resize is None else resize,
            align=align,
            pad_value=self._pad(),
            color="bgr" if self._embedded else None if rgb is None else "rgb" if rgb else "bgr",
            scale=scale,
            mean=mean,
            std=std,
            score_threshold=self._fraction("confidence_threshold"),
            nms_iou=self._fraction("iou_threshold"),
            anomaly=self._anomaly(),
            warnings=self._warnings(),
        )

    def _says(self, key: str) -> bool:
        return self._info.get(key, "").strip().lower() in _YES

    def _refuse_what_cannot_be_followed(self) -> None:
        for key, kinds in (("multilabel", "several labels a picture"), ("hierarchical", "a tree of labels")):
            if self._says(key):
                raise ModelError(
                    f"{self._path} gives {kinds} ({key}), which this version cannot judge",
                    hint="train it with one label a picture",
                )
        if self._says("intensity_repeat_channels"):
            raise ModelError(
                f"{self._path} makes three channels of a grey picture itself (intensity_repeat_channels), "
                "which this version cannot feed",
                hint="save the network without it",
            )
        mode = self._intensity()
        if mode not in ("none", "scale_to_unit") and (mode == "percentile" or not self._embedded):
            raise ModelError(
                f"{self._path}: its intensity_mode {mode} is not known",
                hint="use none or scale_to_unit",
            )
        frame = self._pair("input_frame_height", "input_frame_width")
        if self._embedded and frame not in (None, self._pair("orig_height", "orig_width")):
            raise ModelError(
                f"{self._path} was saved for frames of {frame} (input_frame_height, input_frame_width) only",
                hint="save it without them",
            )

    def _intensity(self) -> str:
        return self._info.get("intensity_mode", "none").strip().lower()

    def _resize(self) -> tuple[Resize | None, Align | None]:
        text = self._info.get("resize_type")
        if text is None:
            return None, None
        if text not in _RESIZE:
            raise ModelError(
                f"{self._path}: its resize_type {text} is not known", hint="use one of " + ", ".join(_RESIZE)
            )
        return _RESIZE[text]

    def _labels(self) -> tuple[str, ...] | None:
        # spaces divide names, a space in a name is written _: it cannot be told from a real one, so it stays
        return tuple(self._info.get("labels", "").split()) or None

    def _size(self) -> tuple[int, int] | None:
        size = self._pair("orig_height", "orig_width")
        if self._embedded and size is None:
            raise ModelError(
                f"{self._path} holds its own resizing (embedded_processing) and does not say to what",
                hint="save it again with orig_height and orig_width, or use the network before that",
            )
        return size if self._embedded else None

    def _pair(self, *keys: str) -> tuple[int, int] | None:
        numbers = [int(number) for key in keys for number in self._numbers(key)[:1]]
        if len(numbers) != len(keys):
            return None
        if min(numbers) < 1:
            raise ModelError(f"{self._path}: {' and '.join(keys)} in its model_info are no size: {numbers}")
        return numbers[0], numbers[1]

    def _normalisation(self) -> tuple[float | None, tuple[float, ...] | None, tuple[float, ...] | None]:
        """((x / unit) - mean_values) / scale_values in the card's form."""
        mean, scale = self._numbers("mean_values"), self._numbers("scale_values")
        if min(scale, default=1) <= 0:
            raise ModelError(
                f"{self._path}: scale_values in its model_info divide by zero: {self._info['scale_values']}",
                hint="say `input: {scale: ...}` in a model.yaml",
            )
        unit = None
        if self._intensity() == "scale_to_unit":
            unit = next(iter(self._numbers("intensity_max_value")), 255.0)
        if not mean and not scale:
            return unit, None, None
        if unit is None and not any(mean) and len(set(scale)) == 1:
            return scale[0], None, None
        return unit or 1.0, mean or None, scale or None

    def _pad(self) -> int | None:
        numbers = self._numbers("pad_value")
        return int(numbers[0]) if numbers else None

    def _fraction(self, key: str) -> float | None:
        numbers = self._numbers(key)
        if numbers and not 0 <= numbers[0] <= 1:
            raise ModelError(
                f"{self._path}: {key} in its model_info does not lie in 0..1: {self._info[key]}",
                hint="say `score_threshold:` and `nms_iou:` in a model.yaml",
            )
        return numbers[0] if numbers else None

    def _anomaly(self) -> AnomalyCard | None:
        """(score - threshold) / normalization_scale + 0.5, the map with a threshold of its own."""
        scale = next(iter(self._numbers("normalization_scale")), None)
        threshold = next(iter(self._numbers("image_threshold")), None)
        if self._kind != "anomalydetection" or scale is None or threshold is None:
            return None
        if scale <= 0:
            raise ModelError(
                f"{self._path}: normalization_scale in its model_info divides by zero: {scale:g}",
                hint="say `anomaly:` in a model.yaml",
            )
        of_map = next(iter(self._numbers("pixel_threshold")), threshold)
        return AnomalyCard(threshold, 0.0, scale, (of_map, 0.0, scale))

    def _warnings(self) -> tuple[str, ...]:
        warnings = []
        if (way := self._info.get("interpolation_mode", "LINEAR").upper()) != "LINEAR":
            warnings.append(
                f"its interpolation_mode {way} is not known here: linear is used, scores may differ"
            )
        if self._says("agnostic_nms"):
            warnings.append("its agnostic_nms is not followed: boxes are suppressed within each class only")
        if "tile_size" in self._info:
            warnings.append(
                f"it was made for tiles of {self._info['tile_size']} pixels (tile_size): small objects "
                "in a large picture may be missed; say `input: {tiles: {size: [height, width]}}` in a "
                "model.yaml"
            )
        return tuple(warnings)

    def _numbers(self, key: str) -> tuple[float, ...]:
        text = self._info.get(key, "")
        try:
            return tuple(float(part) for part in text.replace(",", " ").strip("[]() ").split())
        except ValueError as error:
            raise ModelError(
                f"{self._path}: {key} in its model_info is not a list of numbers: {text}",
                hint="say `input:` in a model.yaml",
            ) from error
