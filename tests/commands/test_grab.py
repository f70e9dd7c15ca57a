"""``edge-infer grab``: what it saves is what the camera sent."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer import cli
from edge_infer.commands import grab as grab_module
from edge_infer.picture import read
from edge_infer.settings import Secrets
from edge_infer.sources.files import Files
from tests.support import networks
from tests.support.gige_camera import GigeCamera
from tests.support.rtsp_camera import RtspCamera, read_stamp

Grab = Callable[..., tuple[int, str, str]]

SITE = """\
format: 1
site: plant1
line: l3
device: ipc7
mqtt: {{host: 127.0.0.1}}
cameras:
  top: {camera}
models:
  seals: {{path: seals, backend: {{type: onnxruntime}}}}
stations:
  cap:
    camera: top
    model: seals
    trigger: {{type: {trigger}}}
    region: {{unit: pixel, box: [8, 8, {right}, 40]}}
    rules:
      - name: no-tear
        count: {{labels: [tear], at_most: 0}}
        zone: {{unit: pixel, polygon: [[30, 20], [50, 20], [50, 36]]}}
"""


@pytest.fixture
def grab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Grab:
    """Exit code, standard output, standard error; called in an empty folder."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["edge-infer", "grab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return int(ended.value.code or 0), out, err

    return call


def write_site(folder: Path, camera: str, *, trigger: str = "continuous", right: int = 60) -> Path:
    """A site whose network finds a tear at 10..22, 12..24 of the region."""
    model = folder / "seals"
    model.mkdir()
    answer = np.zeros((1, 3, 6), np.float32)
    answer[0, 0] = [10, 12, 22, 24, 0.9, 1]
    networks.rows(model / "model.onnx", answer)
    (model / "model.yaml").write_text(
        "format: 1\nname: seals\nnetwork: model.onnx\ndecoder: yolo-end2end\nlabels: [cap, tear]\n"
        "input: {resize: stretch}\n"
    )
    path = folder / "site.yaml"
    path.write_text(SITE.format(camera=camera, trigger=trigger, right=right))
    return path


@pytest.fixture
def picture(tmp_path: Path) -> NDArray[np.uint8]:
    """The one in tape/."""
    pixels = np.random.default_rng(5).integers(0, 80, (48, 64, 3), np.uint8)
    (tmp_path / "tape").mkdir()
    assert cv2.imwrite(str(tmp_path / "tape" / "1.png"), pixels)
    return pixels


def test_the_whole_frame_is_saved_untouched(grab: Grab, tmp_path: Path, picture: NDArray[np.uint8]) -> None:
    site = write_site(tmp_path, "{type: files, path: tape}")
    assert grab(site, "cap") == (0, "cap.png: 64x48, region 8 8 60 40\n", "")
    assert np.array_equal(read(Path("cap.png")).pixels, picture)


def test_draw_shows_region_zone_and_findings(grab: Grab, tmp_path: Path, picture: NDArray[np.uint8]) -> None:
    site = write_site(tmp_path, "{type: files, path: tape}")
    code, out, err = grab(site, "cap", "--draw", "--out", "aim.png")
    assert (code, out, err) == (0, "aim.png: 64x48, region 8 8 60 40, 1 found\n", "")
    changed = (read(Path("aim.png")).pixels != picture).any(axis=2)
    # the region's corner, the zone's, and the box's: 52/64 of 22 right of the region's left edge
    assert changed[8, 8]
    assert changed[20, 30]
    assert changed[8 + 12 // 2 + 2, 8 + round(22 * 52 / 64) - 1]
    assert not changed[2, 60]


@pytest.mark.usefixtures("picture")
def test_json_is_one_object(grab: Grab, tmp_path: Path) -> None:
    site = write_site(tmp_path, "{type: files, path: tape}")
    code, out, err = grab(site, "cap", "--draw", "--json", "--out", "aim.jpg")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    assert answer.pop("captured_at").endswith("+00:00")
    assert answer == {
        "station": "cap",
        "camera": "top",
        "file": "aim.jpg",
        "width": 64,
        "height": 48,
        "warnings": [],
        "region": [8, 8, 60, 40],
        "found": 1,
    }


def test_a_region_outside_the_frame_is_said_and_the_picture_still_saved(
    grab: Grab, tmp_path: Path, picture: NDArray[np.uint8]
) -> None:
    site = write_site(tmp_path, "{type: files, path: tape}", right=900)
    code, out, err = grab(site, "cap")
    assert (code, out) == (1, "cap.png: 64x48\n")
    assert "cap: the region" in err
    assert "does not lie in a frame of 64x48" in err
    assert np.array_equal(read(Path("cap.png")).pixels, picture)


def test_a_station_triggered_by_its_camera_gets_the_frame_of_a_part(grab: Grab, tmp_path: Path) -> None:
    site = write_site(tmp_path, "{type: synthetic, frames: 60}", trigger="camera")
    code, out, _ = grab(site, "cap")
    assert (code, out.partition(":")[0]) == (0, "cap.png")
    from edge_infer.sources.synthetic import Synthetic

    source = Synthetic(type="synthetic", frames=60).open("top", Secrets({}))
    frame = source.read(1)
    while frame is not None and not frame.triggers:
        frame = source.read(1)
    assert frame is not None
    assert np.array_equal(read(Path("cap.png")).pixels, frame.pixels)


def test_a_real_camera_gives_a_frame_of_now(grab: Grab, tmp_path: Path) -> None:
    with RtspCamera() as camera:
        site = write_site(tmp_path, f'{{type: rtsp, url: "{camera.url}"}}')
        asked_s = time.monotonic()
        code, out, err = grab(site, "cap")
        assert (code, out, err) == (0, "cap.png: 640x360, region 8 8 60 40\n", "")
    stamp = read_stamp(read(Path("cap.png")).pixels)
    assert stamp is not None
    assert stamp.time_s > asked_s


def test_a_damaged_picture_is_passed_over_for_a_whole_one(grab: Grab, tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    (tmp_path / "tape" / "1.jpg").write_bytes(b"\xff\xd8\xff\xe0 half")
    assert cv2.imwrite(str(tmp_path / "tape" / "2.png"), np.full((48, 64, 3), 55, np.uint8))
    site = write_site(tmp_path, "{type: files, path: tape}")
    assert grab(site, "cap")[0] == 0
    assert read(Path("cap.png")).pixels.mean() == 55


def test_nothing_but_damage_is_saved_and_said(grab: Grab, tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    (tmp_path / "tape" / "1.jpg").write_bytes(b"\xff\xd8\xff\xe0 half")
    site = write_site(tmp_path, "{type: files, path: tape}")
    code, _, err = grab(site, "cap", "--draw")
    assert code == 1
    assert "cap: damaged: " in err
    assert "1.jpg" in err


@pytest.mark.usefixtures("picture")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cab"], 'has no station cab; did you mean "cap"?'),
        (["zzz"], "has no station zzz; known: cap"),
        (["cap", "--out", "aim.gif"], "aim.gif: a picture is written as PNG or JPEG"),
        (["cap", "--out", "absent/aim.png"], "cannot write absent/aim.png"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_1(
    grab: Grab,
    tmp_path: Path,
    arguments: list[str],
    text: str,
) -> None:
    site = write_site(tmp_path, "{type: files, path: tape}")
    code, out, err = grab(site, *arguments)
    assert (code, out) == (1, "")
    assert text in err
    assert err.count("\n") == 1
    assert not list(Path().iterdir())


def test_a_camera_that_is_not_there_is_one_line(grab: Grab, tmp_path: Path) -> None:
    site = write_site(tmp_path, '{type: rtsp, url: "rtsp://127.0.0.1:9/s"}')
    code, out, err = grab(site, "cap")
    assert (code, out) == (1, "")
    assert err.startswith("camera top: rtsp://127.0.0.1:9/s refuses the connection; ")
    assert err.count("\n") == 1


def test_a_wrong_configuration_is_exit_78(grab: Grab, tmp_path: Path) -> None:
    site = write_site(tmp_path, "{type: files, path: absent}")
    code, out, err = grab(site, "cap")
    assert (code, out) == (78, "")
    assert f"{site}:7:" in err


def test_an_empty_watched_folder_says_what_it_waits_for(
    grab: Grab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.setattr(grab_module, "FRAME_S", 0.3)
    site = write_site(tmp_path, "{type: files, path: in, watch: true}", trigger="camera")
    assert grab(site, "cap") == (
        1,
        "",
        "camera top gave no frame within 0.3 s; put a picture into its folder meanwhile\n",
    )


@pytest.fixture
def industrial() -> Iterator[GigeCamera]:
    with GigeCamera("127.0.0.3", "T3") as camera:
        yield camera


def test_a_frame_of_an_industrial_camera_that_runs_freely(
    industrial: GigeCamera, grab: Grab, tmp_path: Path
) -> None:
    code, out, err = grab(write_site(tmp_path, f"{{type: gige, address: {industrial.address}}}"), "cap")
    assert (code, err) == (0, "")
    assert out.startswith("cap.png: 512x512")


@pytest.mark.usefixtures("picture")
def test_a_driver_that_hangs_does_not_hang_the_terminal(
    grab: Grab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = threading.Event()
    monkeypatch.setattr(grab_module, "DEADLINE_S", 0.3)
    monkeypatch.setattr(Files, "open", lambda *_: wake.wait(30))
    site = write_site(tmp_path, "{type: files, path: tape}")
    asked_s = time.monotonic()
    code, out, err = grab(site, "cap")
    assert time.monotonic() - asked_s < 5
    wake.set()
    assert (code, out) == (1, "")
    assert err == (
        "gave up on station cap after 0.3 s; its camera's driver or its model's runtime hangs; "
        "is the device sound?\n"
    )


def test_help_loads_no_camera() -> None:
    code = (
        "import sys; from edge_infer.commands.grab import grab; grab(['--help'], standalone_mode=False); "
        "print('heavy:', *(lib for lib in ('av', 'cv2', 'onnxruntime', 'openvino') if lib in sys.modules))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert printed.stdout.splitlines()[-1] == "heavy:"
