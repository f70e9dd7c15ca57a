"""Reads anomalib v1's ``metadata.json`` beside the network: the score's threshold and range."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_infer.errors import ModelError
from edge_infer.model.card import AnomalyCard
from edge_infer.model.told import Told
from edge_infer.tensor import TensorSpec

METADATA = "metadata.json"

_SIGN = "image_threshold"
_SCORE = (("pred_scores.min", "pred_scores.max"), ("min", "max"))
_MAP = (("anomaly_maps.min", "anomaly_maps.max"), ("min", "max"))
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def read_anomalib(network: Path, outputs: Sequence[TensorSpec]) -> Told | None:
    """None where the outputs are not a lone map or score, or no such file says what they mean.

    ModelError where it is damaged: without its numbers no score means anything.
    """
    if len(outputs) != 1 or not _is_raw(outputs[0]):
        return None
    file = network.parent / METADATA
    if not file.is_file():
        return None
    try:
        entries = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{file} beside the network cannot be read: {' '.join(str(error).split())}",
            hint="export the network again, or remove the file and say `anomaly:` in a model.yaml",
        ) from error
    if not isinstance(entries, dict) or _SIGN not in entries:
        return None
    _refuse_crop(file, entries.get("transform"))
    mean, std = _normalisation(entries.get("transform"))
    return Told(exporter="anomalib", task="anomaly", anomaly=_ranges(file, entries), mean=mean, std=std)


def _is_raw(output: TensorSpec) -> bool:
    is_map = len(output.shape) in (3, 4) and output.shape[1] in (1, None)
    return output.dtype.startswith("float") and (is_map or output.shape in ((1,), (None,), (1, 1), (None, 1)))


def _ranges(file: Path, entries: Mapping[str, object]) -> AnomalyCard | None:
    """None where scores were normalised in another way, or not at all."""
    low, high = _range(file, entries, _SCORE)
    if low is None or high is None:
        return None
    threshold = _number(file, _SIGN, entries)
    map_low, map_high = _range(file, entries, _MAP)
    key = "pixel_threshold"
    map_threshold = _number(file, key, entries) if key in entries else threshold
    own = None if map_low is None or map_high is None else (map_threshold, map_low, map_high)
    return AnomalyCard(threshold, low, high, own)


def _range(
    file: Path, entries: Mapping[str, object], keys: Sequence[tuple[str, str]]
) -> tuple[float | None, float | None]:
    for low_key, high_key in keys:
        if low_key in entries and high_key in entries:
            low, high = _number(file, low_key, entries), _number(file, high_key, entries)
            if not low < high:
                raise _wrong(file, f"{high_key} {high:g} is not above {low_key} {low:g}")
            return low, high
    return None, None


def _number(file: Path, key: str, entries: Mapping[str, object]) -> float:
    value = entries[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(file, f"{key} is not a number: {str(value)[:80]}")
    return float(value)


def _wrong(file: Path, what: str) -> ModelError:
    return ModelError(
        f"{file}: {what}",
        hint="export the network again, or say `anomaly:` in a model.yaml and remove the file",
    )


def _refuse_crop(file: Path, transform: object) -> None:
    """A picture that is stretched first and cut then has no place in a card; the first versions did it."""
    if any(str(step.get("__class_fullname__")).endswith("CenterCrop") for step in _steps(transform)):
        raise ModelError(
            f"{file}: pictures are resized and then cut before this network, which cannot be followed",
            hint="export it with a newer anomalib, which cuts inside the network, or train without the crop",
        )


def _steps(transform: object) -> list[Mapping[str, object]]:
    inner = transform.get("transform") if isinstance(transform, dict) else None
    steps = inner.get("transforms") if isinstance(inner, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _normalisation(
    transform: object,
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """mean, std of pictures divided by 255, in either form that anomalib has written."""
    if not isinstance(transform, dict):
        return None, None
    if transform.get("normalization") == "imagenet":
        return _IMAGENET
    for step in _steps(transform):
        if str(step.get("__class_fullname__")).endswith("Normalize"):
            mean, std = _numbers(step.get("mean")), _numbers(step.get("std"))
            if mean and std:
                return mean, std
    return None, None


def _numbers(value: object) -> tuple[float, ...]:
    """One or three, else none."""
    if not isinstance(value, list) or len(value) not in (1, 3):
        return ()
    numbers = [float(each) for each in value if isinstance(each, int | float) and math.isfinite(each)]
    return tuple(numbers) if len(numbers) == len(value) else ()
