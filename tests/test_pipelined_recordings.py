"""Recordings give the same decisions however many frames are in the network at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.real_networks import write_card
from tests.support.runs import RESULTS, Run, Subscribe, site, whole

FRAMES = 30
RULES = [{"name": "three-bottles", "count": {"labels": ["bottle"], "min_score": 0.5, "at_least": 3}}]
VARIES = (
    "resultId",
    "jobId",
    "streamId",
    "creationTime",
    "capturedAt",
    "ageMs",
    "processingTimes",
    "internalConfigurationId",
)


@pytest.fixture
def tape(shared: Path, tmp_path: Path) -> Path:
    """Every tenth frame of a real line, and beside it a real network's card."""
    write_card(tmp_path, shared, "yolox_nano/yolox_nano")
    folder = tmp_path / "tape"
    folder.mkdir()
    video = cv2.VideoCapture(str(shared / "assets/videos/bottle-detection.mp4"))
    for number in range(FRAMES):
        for _ in range(10):
            assert video.grab()
        cv2.imwrite(str(folder / f"{number:03}.png"), video.retrieve()[1])
    return folder


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_every_result_is_the_same_frame_by_frame(
    mosquitto: Mosquitto, tape: Path, run: Run, subscribe: Subscribe, runtime: str
) -> None:
    told = []
    for name, backend in (
        ("one", {"profile": "latency"}),
        ("many", {"profile": "throughput", "requests": 4}),
    ):
        heard = subscribe(mosquitto, RESULTS)
        path = site(
            tape.parent / name,
            mosquitto,
            cameras={"tape": {"type": "files", "path": str(tape)}},
            models={"m": {"path": str(tape.parent), "backend": {"type": runtime, **backend}}},
            stations={
                "cap": {"camera": "tape", "model": "m", "rules": RULES, "confirm": {"k": 2, "n": 3}},
                "rim": {
                    "camera": "tape",
                    "model": "m",
                    "rules": RULES,
                    "region": {"unit": "fraction", "box": [0, 0, 0.5, 1]},
                },
            },
        )
        assert run(path).wait() == 0
        heard.wait(lambda got: len(got) >= 2 * FRAMES, "/result")
        results = heard.messages("/result")
        whole(results)
        heard.close()
        told.append([_lasting(one.json) for one in results])
    by_station = [
        {name: [one for one in each if one["station"] == name] for name in ("cap", "rim")} for each in told
    ]
    assert by_station[0] == by_station[1]
    assert [one["seq"] for one in by_station[1]["cap"]] == list(range(1, FRAMES + 1))
    assert {one["decision"] for one in by_station[1]["cap"]} >= {"OK", "NOK"}


def _lasting(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in VARIES}
