"""Reads OpenVINO's rt_info/model_info, as Model API, Geti and Ultralytics write it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edge_infer.errors import ModelError
from edge_infer.model.card import Resize
from edge_infer.model.told import Told

_RESIZE: dict[str, Resize] = {
    "standard": "stretch",
    "fit_to_window_letterbox": "letterbox",
    "crop": "center_crop",
}
_YES = ("yes", "true", "1")


def read_model_info(path: Path, info: Mapping[str, str]) -> Told | None:
    """None where there is no such information; ModelError where it cannot be read or followed."""
    if "model_type" not in info:
        return None
    if info.get("embedded_processing", "").lower() in _YES:
        raise ModelError(
            f"{path} holds its own resizing and normalisation (embedded_processing), "
            "which this version cannot judge yet",
            hint="use the network as it was before Model API saved it",
        )
    resize_type = info.get("resize_type")
    if resize_type and resize_type not in _RESIZE:
        raise ModelError(
            f"{path}: its resize_type {resize_type} is not known",
            hint="use one of " + ", ".join(_RESIZE),
        )
    scale, mean, std = _normalisation(path, info)
    reverse = info.get("reverse_input_channels")
    return Told(
        exporter="Model API",
        labels=_labels(info.get("labels", "")),
        resize=_RESIZE[resize_type] if resize_type else None,
        pad_value=_pad(path, info.get("pad_value")),
        # Model API is given BGR pictures; YES: the network wants RGB
        color=None if not reverse else "rgb" if reverse.lower() in _YES else "bgr",
        scale=scale,
        mean=mean,
        std=std,
        score_threshold=_fraction(path, "confidence_threshold", info),
        nms_iou=_fraction(path, "iou_threshold", info),
    )


def _labels(text: str) -> tuple[str, ...] | None:
    # spaces divide names, a space in a name is written _: it cannot be told from a real one, so it stays
    return tuple(text.split()) or None


def _numbers(path: Path, key: str, text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in (text or "").replace(",", " ").strip("[]() ").split())
    except ValueError as error:
        raise ModelError(
            f"{path}: {key} in its model_info is not a list of numbers: {text}",
            hint="say `input:` in a model.yaml",
        ) from error


def _normalisation(
    path: Path, info: Mapping[str, str]
) -> tuple[float | None, tuple[float, ...] | None, tuple[float, ...] | None]:
    """(x - mean_values) / scale_values in the card's form."""
    mean = _numbers(path, "mean_values", info.get("mean_values"))
    scale = _numbers(path, "scale_values", info.get("scale_values"))
    if min(scale, default=1) <= 0:
        raise ModelError(
            f"{path}: scale_values in its model_info divide by zero: {info['scale_values']}",
            hint="say `input: {scale: ...}` in a model.yaml",
        )
    if not mean and not scale:
        return None, None, None
    if not any(mean) and len(set(scale)) == 1:
        return scale[0], None, None
    return 1.0, mean or None, scale or None


def _pad(path: Path, text: str | None) -> int | None:
    numbers = _numbers(path, "pad_value", text)
    return int(numbers[0]) if numbers else None


def _fraction(path: Path, key: str, info: Mapping[str, str]) -> float | None:
    numbers = _numbers(path, key, info.get(key))
    if numbers and not 0 <= numbers[0] <= 1:
        raise ModelError(
            f"{path}: {key} in its model_info does not lie in 0..1: {info[key]}",
            hint="say `score_threshold:` and `nms_iou:` in a model.yaml",
        )
    return numbers[0] if numbers else None
