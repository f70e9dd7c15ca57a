"""Cameras that hang turned, mirrored or behind a bending lens, in the running service with a real network.

Zones, regions and results stay in the camera's pixels: what a technician sees is what stands in the file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from tests.support.mosquitto import Mosquitto
from tests.support.real_networks import write_card
from tests.support.runs import Run, Subscribe
from tests.test_network import overlap

Points = NDArray[np.float64]
Map = Callable[[Points], Points]
COEFFICIENTS = np.array([-0.18, 0.03, 0.001, -0.001, 0.0])


@dataclass(frozen=True)
class Hung:
    """How a camera hangs, and what its station does about it."""

    keys: dict[str, Any]
    take: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
    """From the upright picture to the camera's."""
    to_camera: Map
    """The same for points."""


def matrix(width: int, height: int) -> NDArray[np.float64]:
    return np.array([[0.9 * width, 0, width / 2], [0, 0.9 * width, height / 2], [0, 0, 1]])


def bend(points: Points, width: int, height: int) -> Points:
    focal, center = 0.9 * width, np.array([width / 2, height / 2])
    rays = np.concatenate([(points - 0.5 - center) / focal, np.ones((len(points), 1))], axis=1)
    bent, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), matrix(width, height), COEFFICIENTS)
    return np.asarray(bent, np.float64).reshape(-1, 2) + 0.5


def taken_bent(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    ys, xs = np.mgrid[0:height, 0:width].astype(np.float64)
    seen = np.stack([xs.ravel(), ys.ravel()], axis=1)[:, None]
    straight = cv2.undistortPoints(seen, matrix(width, height), COEFFICIENTS, P=matrix(width, height))
    across, down = straight.reshape(height, width, 2).astype(np.float32).transpose(2, 0, 1)
    return np.asarray(cv2.remap(picture, across, down, cv2.INTER_LINEAR), np.uint8)


def hung(width: int, height: int) -> dict[str, Hung]:
    """Written down by hand: shares nothing with the product."""
    w, h = width, height
    return {
        "upright": Hung({}, lambda p: p, lambda q: q),
        "left": Hung(
            {"rotate": 90},
            lambda p: np.ascontiguousarray(np.rot90(p)),
            lambda q: np.stack([q[:, 1], w - q[:, 0]], axis=1),
        ),
        "over": Hung({"rotate": 180}, lambda p: np.ascontiguousarray(p[::-1, ::-1]), lambda q: [w, h] - q),
        "right": Hung(
            {"rotate": 270},
            lambda p: np.ascontiguousarray(np.rot90(p, 3)),
            lambda q: np.stack([h - q[:, 1], q[:, 0]], axis=1),
        ),
        "mirrored": Hung(
            {"flip": "horizontal"},
            lambda p: np.ascontiguousarray(p[:, ::-1]),
            lambda q: np.stack([w - q[:, 0], q[:, 1]], axis=1),
        ),
        "bent": Hung({"undistort": "lens.yaml"}, taken_bent, lambda q: bend(q, w, h)),
    }


def box_in_camera(box: NDArray[np.float64], to_camera: Map) -> NDArray[np.float32]:
    x1, y1, x2, y2 = box
    xs, ys = np.linspace(x1, x2, 30), np.linspace(y1, y2, 30)
    sides = [(xs, 0 * xs + y1), (xs, 0 * xs + y2), (0 * ys + x1, ys), (0 * ys + x2, ys)]
    points = to_camera(np.concatenate([np.stack(side, axis=1) for side in sides]))
    return np.concatenate([points.min(axis=0), points.max(axis=0)]).astype(np.float32)


def dogs(result: dict[str, Any]) -> list[NDArray[np.float32]]:
    """Best score first."""
    found = [one for one in result["resultContent"] if one["label"] == "dog"]
    return [np.array(one["box"], np.float32) for one in sorted(found, key=lambda one: -one["score"])]


@dataclass(frozen=True)
class Site:
    path: Path
    hung: dict[str, Hung]
    upright: tuple[NDArray[np.float64], NDArray[np.float64]]
    """The two dogs in the upright picture."""


def write(folder: Path, shared: Path, broker: Mosquitto, backend: str) -> Site:
    """A camera for each way to hang; each station looks for one dog, in a zone around it."""
    picture = np.asarray(cv2.imread(str(shared / "assets/photos/pets.jpg")), np.uint8)
    height, width = picture.shape[:2]
    folder.mkdir()
    (folder / "yolox").mkdir()
    write_card(folder / "yolox", shared, "yolox_nano/yolox_nano")
    (folder / "password").write_text(broker.password)
    (folder / "lens.yaml").write_text(
        yaml.safe_dump(
            {
                "image_width": width,
                "image_height": height,
                "camera_matrix": {"data": matrix(width, height).ravel().tolist()},
                "distortion_coefficients": {"data": COEFFICIENTS.tolist()},
            }
        )
    )
    answer = subprocess.run(
        [sys.executable, "-m", "edge_infer", "infer", str(folder / "yolox"),
         str(shared / "assets/photos/pets.jpg"), "--json"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = [one for one in json.loads(answer.stdout)["detections"] if one["label"] == "dog"]
    first, second = (np.array(one["box"], np.float64) for one in found[:2])
    ways = hung(width, height)
    cameras, stations = {}, {}
    for name, way in ways.items():
        (folder / name).mkdir()
        assert cv2.imwrite(str(folder / name / "1.png"), way.take(picture))
        x1, y1, x2, y2 = (float(side) for side in box_in_camera(first, way.to_camera))
        zone = {"unit": "pixel", "polygon": [[x1, y1], [x2, y1], [x2, y2], [x1, y2]]}
        cameras[name] = {"type": "files", "path": name}
        rule = {"name": "one", "count": {"labels": ["dog"], "min_score": 0.5, "at_least": 1, "at_most": 1}}
        stations[name] = {"camera": name, "model": "yolox", "rules": [{**rule, "zone": zone}], **way.keys}
    data = {
        "format": 1, "site": "plant1", "line": "l3", "device": "ipc7", "state_dir": "state",
        "mqtt": {
            "host": broker.host, "port": broker.port, "user": broker.user, "password": {"file": "password"}
        },
        "cameras": cameras,
        "models": {"yolox": {"path": "yolox", "backend": {"type": backend}}},
        "stations": stations,
        "evidence": {"min_free_bytes": 0, "ok_every": 1, "publish": ["drawn"]},
    }  # fmt: skip
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return Site(path, ways, (first, second))


def outline(box: NDArray[np.float32], scale: float = 1.0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    x1, y1, x2, y2 = (round(float(side) * scale) for side in box)
    xs, ys = np.arange(x1, x2), np.arange(y1, y2)
    return (
        np.concatenate([ys, ys, 0 * xs + y1, 0 * xs + y2 - 1]),
        np.concatenate([0 * ys + x1, 0 * ys + x2 - 1, xs, xs]),
    )


def is_drawn(drawn: NDArray[np.uint8], plain: NDArray[np.uint8], box: NDArray[np.float32]) -> bool:
    """Around the box the picture is another one, within 3 pixels."""
    scale = drawn.shape[1] / plain.shape[1]
    shown = cv2.resize(plain, (drawn.shape[1], drawn.shape[0]), interpolation=cv2.INTER_AREA)
    changed = (cv2.absdiff(drawn, shown).max(axis=2) > 60).astype(np.uint8)
    near = cv2.dilate(changed, np.ones((7, 7), np.uint8))
    rows, columns = outline(box, scale)
    inside = (rows >= 0) & (rows < near.shape[0]) & (columns >= 0) & (columns < near.shape[1])
    return float(near[rows[inside], columns[inside]].mean()) > 0.85


@pytest.fixture(params=["openvino", "onnxruntime"])
def site(shared: Path, tmp_path: Path, mosquitto: Mosquitto, request: pytest.FixtureRequest) -> Site:
    return write(tmp_path / "site", shared, mosquitto, request.param)


def test_the_same_dogs_are_found_in_camera_pixels_however_the_camera_hangs(
    site: Site, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/#")
    running = run(site.path)
    assert running.wait(90) == 0, running.log
    for name, way in site.hung.items():
        heard.wait(lambda got: len(got) >= 1, f"/{name}/result")
        result = heard.messages(f"/{name}/result")[0].json
        seen = dogs(result)
        assert len(seen) >= 2, (name, result)
        for dog in site.upright:
            expected = box_in_camera(dog, way.to_camera)
            assert max(overlap(one, expected) for one in seen) > 0.9, (name, expected, seen)
        assert (result["decision"], result["rules"][0]["seen"]) == ("OK", 1), (name, result)
        heard.wait(lambda got: len(got) >= 1, f"/{name}/image/drawn")
        payload = heard.messages(f"/{name}/image/drawn")[0].payload
        drawn = np.asarray(cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR), np.uint8)
        plain = np.asarray(cv2.imread(str(site.path.parent / name / "1.png")), np.uint8)
        assert all(is_drawn(drawn, plain, box) for box in seen[:2]), f"{name}: the evidence"


@pytest.mark.parametrize("name", ["left", "bent"])
def test_grab_draws_the_whole_frame_of_the_camera_with_its_findings_where_they_are(
    shared: Path, tmp_path: Path, mosquitto: Mosquitto, name: str
) -> None:
    site = write(tmp_path / "site", shared, mosquitto, "onnxruntime")
    aim = tmp_path / "aim.png"
    done = subprocess.run(
        [sys.executable, "-m", "edge_infer", "grab", str(site.path), name, "--draw", "--out", str(aim)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain = np.asarray(cv2.imread(str(site.path.parent / name / "1.png")), np.uint8)
    drawn = np.asarray(cv2.imread(str(aim)), np.uint8)
    assert drawn.shape == plain.shape, "as the camera sees it, not as the network does"
    for dog in site.upright:
        assert is_drawn(drawn, plain, box_in_camera(dog, site.hung[name].to_camera)), name


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, "there is no calibration"),
        ("camera_matrix: [1, 2]\n", "distortion_coefficients"),
        ("a: [\n", "is no YAML"),
    ],
)
def test_check_names_a_wrong_calibration_with_line_and_column(
    shared: Path, tmp_path: Path, mosquitto: Mosquitto, text: str | None, wanted: str
) -> None:
    site = write(tmp_path / "site", shared, mosquitto, "onnxruntime")
    lens = site.path.parent / "lens.yaml"
    lens.unlink() if text is None else lens.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "edge_infer", "check", str(site.path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    lines = site.path.read_text().splitlines()
    (number,) = (at for at, line in enumerate(lines, 1) if "undistort:" in line)
    column = lines[number - 1].index("lens.yaml") + 1
    assert done.returncode == 78
    (told,) = (line for line in done.stderr.splitlines() + done.stdout.splitlines() if "undistort" in line)
    assert f"site.yaml:{number}:{column}: stations.bent.undistort: " in told
    assert wanted in told
