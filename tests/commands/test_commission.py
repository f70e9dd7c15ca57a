"""``edge-infer commission``: stores what a station's picture is like and tells each limit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from edge_infer.imagehealth.reference import load, path_of
from tests.support.rtsp_camera import RtspCamera
from tests.support.runs import RULE
from tests.support.sites import write_model


def write_site(folder: Path, camera: dict[str, Any], **station: Any) -> Path:
    write_model(folder / "model")
    data = {
        "format": 1, "site": "plant1", "line": "l3", "device": "ipc7", "state_dir": "state",
        "mqtt": {"host": "127.0.0.1"},
        "cameras": {"top": camera},
        "models": {"m": {"path": "model"}},
        "stations": {"cap": {"camera": "top", "model": "m", "rules": [RULE], **station}},
    }  # fmt: skip
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def commission(*arguments: object) -> subprocess.CompletedProcess[str]:
    """As its own process."""
    command = [sys.executable, "-m", "edge_infer", "commission", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def test_a_recording_is_commissioned_and_each_check_has_its_limit(shared: Path, tmp_path: Path) -> None:
    video = shared / "assets/videos/bottle-detection.mp4"
    region = {"unit": "fraction", "box": [0, 0.25, 1, 1]}
    site = write_site(tmp_path, {"type": "files", "path": str(video)}, region=region)
    done = commission(site, "cap", "--seconds", "20")
    assert (done.returncode, done.stderr) == (0, "")
    first, heading, *lines = done.stdout.splitlines()
    assert first.startswith("cap: 20 frames of 640x360, region 0 90 640 360: ")
    assert heading.split() == ["check", "lowest", "median", "highest", "limit"]
    assert [line.split()[0] for line in lines] == ["dark", "bright", "covered", "blurred", "moved"]
    reference = load(path_of(tmp_path / "state", "cap"))
    assert reference is not None
    assert (reference.frames, reference.region, reference.camera) == (20, (0, 90, 640, 360), "top")
    assert all(reference.limit(check) is not None for check in reference.measured)


def test_a_network_camera_is_commissioned_over_the_time_asked_for(tmp_path: Path) -> None:
    with RtspCamera() as camera:
        site = write_site(tmp_path, {"type": "rtsp", "url": camera.url})
        done = commission(site, "--json", "--frames", "8", "--seconds", "1.6")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert (answer["station"], answer["frames"], answer["width"], answer["height"]) == ("cap", 8, 640, 360)
    assert set(answer["checks"]) == {"dark", "bright", "covered", "blurred", "moved"}
    assert answer["checks"]["moved"]["limit"] == pytest.approx(0.025)
    assert Path(answer["file"]).is_file()


def test_a_triggered_station_is_commissioned_with_its_parts(tmp_path: Path) -> None:
    site = write_site(
        tmp_path, {"type": "synthetic", "frames": 300, "seed": 1}, trigger={"type": "camera", "delay_ms": 50}
    )
    done = commission(site, "--json", "--frames", "6")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["frames"] == 6


def test_a_dark_picture_is_stored_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    values = np.random.default_rng(1)
    for number in range(6):
        pixels = values.integers(0, 20, (120, 160, 3), np.uint8)
        assert cv2.imwrite(str(tmp_path / f"tape/{number}.png"), pixels)
    done = commission(write_site(tmp_path, {"type": "files", "path": "tape"}))
    assert done.returncode == 0
    assert "cap: warning: the picture is dark: its mean brightness is" in done.stderr
    assert "nothing in the picture stays where it is while parts pass" in done.stdout


def test_a_sharp_picture_full_of_texture_is_not_called_blurred(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    values = np.random.default_rng(1)
    photo = cv2.imread(str(shared / "assets/photos/pets.jpg"))
    assert photo is not None
    for number in range(6):
        noisy = np.clip(photo + values.normal(0, 2, photo.shape), 0, 255).astype(np.uint8)
        assert cv2.imwrite(str(tmp_path / f"tape/{number}.png"), noisy)
    done = commission(write_site(tmp_path, {"type": "files", "path": "tape"}))
    assert done.returncode == 0
    assert "picture is blurred" not in done.stderr
    assert "cap: warning: blur will not be found; is the picture sharp? its edges hardly stand" in done.stderr


def test_what_cannot_be_commissioned_is_one_line_and_the_old_reference_stays(tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    assert cv2.imwrite(str(tmp_path / "tape/1.png"), np.zeros((12, 16, 3), np.uint8))
    site = write_site(tmp_path, {"type": "files", "path": "tape"})
    old = path_of(tmp_path / "state", "cap")
    old.parent.mkdir(parents=True)
    old.write_text("old")
    done = commission(site)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cap: 1 frames are too few to learn from")
    assert old.read_text() == "old"
    assert "has no station cup; did you mean" in commission(site, "cup").stderr


def test_check_says_which_stations_were_not_commissioned(shared: Path, tmp_path: Path) -> None:
    video = shared / "assets/videos/bottle-detection.mp4"
    site = write_site(tmp_path, {"type": "files", "path": str(video)})

    def check() -> str:
        command = [sys.executable, "-m", "edge_infer", "check", str(site)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    assert "not commissioned on this machine: cap" in check()
    assert commission(site).returncode == 0
    assert "not commissioned" not in check()
