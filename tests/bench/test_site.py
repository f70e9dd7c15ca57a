"""All stations of a site at once, on real runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer.bench.frames import Frames, read
from edge_infer.bench.measured import Measured
from edge_infer.bench.site import measure_site
from edge_infer.config.site import load_site
from edge_infer.errors import BackendError
from tests.support.sites import write_model

RULES = [{"name": "no-tear", "count": {"labels": ["tear"], "at_most": 0}}]
CAMERA = {"type": "synthetic", "max_age_s": 60}
"""On a busy machine a frame may wait."""


def station(**keys: Any) -> dict[str, Any]:
    return {"camera": "top", "model": "seals", "deadline_ms": 60_000, "rules": RULES, **keys}


def write(folder: Path, stations: Mapping[str, Any], **keys: Any) -> Path:
    write_model(folder / "seals")
    site = {
        "format": 1,
        "site": "plant1",
        "line": "l3",
        "device": "ipc7",
        "mqtt": {"host": "localhost"},
        "cameras": {"top": CAMERA},
        "models": {"seals": {"path": "seals", "backend": {"type": "onnxruntime"}}},
        "stations": stations,
        **keys,
    }
    path = folder / "site.yaml"
    path.write_text(json.dumps(site), encoding="utf-8")
    return path


def measure(path: Path, frames: Frames | None = None, seconds: float = 0.6) -> Measured:
    return measure_site(load_site(path), frames, seconds, lambda *_: None)


def test_every_station_has_its_share_of_one_network(tmp_path: Path) -> None:
    measured = measure(write(tmp_path, {name: station() for name in ("a", "b", "c")}))
    assert [one.station for one in measured.stations] == ["a", "b", "c"]
    assert sum(one.share for one in measured.stations) == pytest.approx(1)
    assert all(one.share > 0.1 for one in measured.stations)
    assert all(one.undefined == 0 for one in measured.stations)
    assert 0 < measured.fairness <= 1
    judged = sum(one.total for one in measured.turns.pipeline)
    assert sum(one.frames["seals"] for one in measured.turns.pipeline) == judged > 0


def test_stations_with_models_of_their_own_are_measured_together(tmp_path: Path) -> None:
    models = {
        "seals": {"path": "seals", "backend": {"type": "onnxruntime"}},
        "again": {"path": "seals", "backend": {"type": "openvino"}},
    }
    measured = measure(write(tmp_path, {"a": station(), "b": station(model="again")}, models=models))
    assert measured.model == "seals, again"
    assert measured.backend == "onnxruntime, openvino"
    assert set(measured.turns.pipeline[0].frames) == {"seals", "again"}
    assert len(measured.runtimes) == 2


def test_a_station_that_waits_for_parts_is_measured_on_every_frame(tmp_path: Path) -> None:
    asked = station(trigger={"type": "mqtt"})
    paced = station(trigger={"type": "every", "every_s": 3600})
    measured = measure(write(tmp_path, {"a": asked, "b": paced}))
    assert all(one.share > 0.2 for one in measured.stations)
    assert all(one.undefined == 0 for one in measured.stations)


def test_a_camera_shows_its_own_recording(tmp_path: Path) -> None:
    # noise: an even picture would be too dark or too bright to judge
    pixels = np.random.default_rng(1).integers(0, 256, (48, 80, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "tape.png"), pixels)
    path = write(
        tmp_path, {"a": station()}, cameras={"top": {"type": "files", "path": "tape.png", "max_age_s": 60}}
    )
    assert measure(path).frames.size == (80, 48)


def test_a_folder_that_is_watched_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    watched = {"type": "files", "path": "parts", "watch": True, "max_age_s": 60}
    path = write(tmp_path, {"a": station(trigger={"type": "camera"})}, cameras={"top": watched})
    assert measure(path).frames.size == (1920, 1080)


def test_given_frames_take_the_place_of_the_cameras(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "given.png"), pixels)
    path = write(tmp_path, {"a": station()})
    assert measure(path, read(tmp_path / "given.png")).frames.size == (32, 32)


def test_a_station_that_can_judge_none_of_the_frames_is_told_with_the_reason(tmp_path: Path) -> None:
    outside = {"unit": "pixel", "box": [5000, 0, 6000, 100]}
    path = write(tmp_path, {"good": station(), "blind": station(region=outside)})
    with pytest.raises(BackendError, match=r"station blind judges none of these frames: .*region"):
        measure(path)


def test_a_black_picture_is_no_measurement_of_the_network(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "black.png"), np.zeros((48, 80, 3), np.uint8))
    with pytest.raises(BackendError, match=r"station a judges none .*; name frames"):
        measure(write(tmp_path, {"a": station()}), read(tmp_path / "black.png"))


def test_a_device_that_is_not_there_is_told_with_the_model(tmp_path: Path) -> None:
    backend = {"type": "onnxruntime", "device": "NOSUCH"}
    path = write(tmp_path, {"a": station()}, models={"seals": {"path": "seals", "backend": backend}})
    with pytest.raises(BackendError, match=r"model seals cannot run: .*NOSUCH"):
        measure(path)
