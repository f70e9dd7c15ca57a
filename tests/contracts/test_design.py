# ruff: noqa: E501 - the examples stand as they were promised
"""What scripts outside the repository rely on: the YAML, the card, the command line, the JSON keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest

from edge_infer.config.site import load_site
from edge_infer.messages.command import VERBS
from edge_infer.messages.kinds import KINDS
from edge_infer.messages.status import StatusMessage
from edge_infer.messages.topics import TOPICS
from edge_infer.model.card_file import CardFile
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.result import Decision, ReasonCode, json_schema
from edge_infer.yamlfile import load

SITE = """\
format: 1
site: plant1                  # ids are text, [A-Za-z0-9_-]{1,40}
line: l3
device: ipc7                  # default: host name
state_dir: /var/lib/edge-infer        # default $STATE_DIRECTORY, else ~/.local/state/edge-infer
mqtt:
  host: broker.plant1.example
  port: 8883
  protocol: "5"               # or "3.1.1"
  user: ipc7
  password: {credential: mqtt-password}      # secrets: {file: path} {env: NAME} {credential: NAME}
  tls: {ca: ca.crt, cert: ipc7.crt, key: ipc7.key}
  topic_prefix: "vision/v1/{site}/{line}/{device}"
cameras:
  top: {type: rtsp, url: "rtsp://10.0.0.9/s", user: u, password: {env: CAM}, max_age_s: 0.5}
  tape: {type: files, path: videos/bottles.mp4, loop: false, realtime: false}    # file, folder or glob
  scene: {type: synthetic, fps: 10, seed: 1, frames: 400, defect_rate: 0.2}
models:
  seals: {path: models/seals, backend: {type: openvino, device: NPU, fallback: [CPU]}}    # without fallback: none
stations:
  cap:
    camera: top
    trigger: {type: continuous}
    model: seals
    deadline_ms: 500
    region: {unit: fraction, box: [0, 0.2, 1, 0.8]}
    rules:
      - {name: enough-bottles, count: {labels: [bottle], min_score: 0.3, at_least: 3}}
      - {name: no-tear, count: {labels: [tear], at_most: 0}, zone: {unit: fraction, polygon: [[0,0],[1,0],[1,1],[0,1]]}, min_area_px: 400}
    confirm: {k: 3, n: 5}
    hold_s: 1
    publish: change           # every (each inspection) | change | {every_s: 1}; triggered stations: every
    line_stop: {consecutive: 5}       # that many NOK or UNDEFINED in a row -> event
evidence: {max_bytes: 2GB, max_age_days: 30, min_free_bytes: 1GB, ok_every: 1000}
outbox: {max_bytes: 500MB, commit: fsync}
recipes: {}                   # reserved: named sets of station settings, switched by command
"""

CARD = """\
format: 1
name: seals
version: "3"
network: model.onnx          # or model.xml
task: detect                 # detect segment obb pose classify semantic anomaly; read from the network where it says
decoder: yolov8              # only where it cannot be told, see below
labels: [cap, tear]          # or {1: cap, 7: tear}, or labels_file: names.txt
background: none             # none first last: a class column that means nothing
anchors: [[10,13, 16,30, 33,23]]     # raw grids only, a list a stride
input:
  size: [640, 640]           # height, width; for networks with free sizes
  resize: letterbox          # letterbox stretch center_crop
  interpolation: linear      # linear area antialias; the default follows the exporter (facts/exporters.md)
  align: center              # center top_left: where a letterboxed picture lies; YOLOX is top_left
  crop: [224, 224]           # center_crop only
  graph_crop: [224, 224]     # the network itself crops the centre: maps cover only that part
  pad_value: 114
  color: rgb                 # rgb bgr gray; rgb is the stated default
  layout: nchw               # read from the network where it can be told
  scale: 255                 # x / scale, then (x - mean) / std, in the network's colour order; 1 for uint8 inputs
  mean: [0, 0, 0]
  std: [1, 1, 1]
score_threshold: 0.25
nms_iou: 0.45
max_detections: 300
anomaly: {threshold: 0.5, min: 0, max: 1}
golden: [{image: golden/ok-1.png, expect: golden/ok-1.json}]
license: Apache-2.0
"""

RESULT_KEYS = {
    "decision", "reasons", "rules", "capturedAt", "ageMs", "trigger", "backend", "device", "station", "streamId",
    "seq", "resultContent", "internalRecipeId", "jobId", "schema", "resultId", "internalConfigurationId",
    "isPartial", "isSimulated", "resultState", "creationTime", "processingTimes", "hasTransferableDataOnFile",
    "source", "bootId", "clock",
}  # fmt: skip


def edge_infer(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge_infer", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_key_of_the_site_as_designed_is_accepted(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/bottles.mp4").symlink_to(shared / "assets/videos/bottle-detection.mp4")
    for name in ("ca.crt", "ipc7.crt", "ipc7.key"):
        (tmp_path / name).touch()
    (tmp_path / "models/seals").mkdir(parents=True)
    (tmp_path / "models/seals/model.onnx").symlink_to(shared / "assets/yolox_nano/yolox_nano.onnx")
    (tmp_path / "labels.txt").write_text("bottle\ntear\n" + "".join(f"c{i}\n" for i in range(78)))
    (tmp_path / "models/seals/model.yaml").write_text(
        "format: 1\nname: seals\nnetwork: model.onnx\ndecoder: yolox-raw\nlabels_file: ../../labels.txt\n"
    )
    site = load_site(tmp_path / "site.yaml")
    assert site.topic_prefix == "vision/v1/plant1/l3/ipc7"
    assert site.outbox.max_bytes == 500_000_000
    assert site.stations["cap"].rules[1].min_area_px == 400
    assert site.cameras["scene"].recorded
    assert not site.cameras["top"].recorded


def test_every_key_of_the_card_as_designed_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(CARD)
    card = load(tmp_path / "model.yaml").validate(CardFile)
    assert card.network == tmp_path / "model.onnx"


def test_a_result_has_every_key_that_subscribers_were_promised() -> None:
    schema = json_schema()
    assert set(schema["required"]) >= RESULT_KEYS - {"schema"} - {"isPartial", "hasTransferableDataOnFile"}
    assert set(schema["properties"]) >= RESULT_KEYS
    assert set(schema["$defs"]["ResultTrigger"]["properties"]) >= {"type", "partId", "receivedAt"}
    assert set(schema["$defs"]["Device"]["properties"]) == {"requested", "running"}
    assert set(schema["$defs"]["DetectionContent"]["properties"]) == {"type", "label", "score", "box"}
    assert set(schema["$defs"]["RuleOutcome"]["properties"]) == {"name", "decision", "seen"}


def test_the_topics_are_those_that_subscribers_were_promised() -> None:
    # written out: the reference, the schemas and their tests follow the code's own table
    promised = {
        "result": ("{station}/result", "no", "outbox"),
        "gap": ("{station}/gap", "no", "outbox"),
        "event": ("event", "no", "outbox"),
        "decision": ("{station}/decision", "expiring", "state"),
        "last": ("{station}/last", "expiring", "state"),
        "counts": ("{station}/counts", "yes", "state"),
        "status": ("status", "yes", "state"),
        "info": ("info", "yes", "state"),
        "stats": ("stats", "no", "state"),
        "camera": ("camera/{camera}", "yes", "state"),
        "image": ("{station}/image/{kind}", "no", "state"),
        "reply": (None, "no", "state"),
    }
    sent = {
        one.name: (one.below, one.retained, "outbox" if one.outbox else "state") for one in TOPICS if one.sent
    }
    assert sent == promised
    assert {one.below for one in TOPICS if not one.sent} == {"cmd/{verb}", "{station}/cmd/{verb}"}
    verbs = {
        "start_single_job", "snapshot", "set_threshold", "select_recipe", "reset_counts", "reload",
        "get_status", "get_result", "ping",
    }  # fmt: skip
    assert set(VERBS) == verbs
    result = next(one for one in TOPICS if one.name == "result")
    assert set(result.user) >= {"schema", "seq", "streamId"}
    assert result.maybe == ("delayed",)
    assert MqttSettings.model_fields["valid_s"].default == 5
    assert MqttSettings.model_fields["topic_prefix"].default == "vision/v1/{site}/{line}/{device}"


def test_the_words_are_those_that_subscribers_were_promised() -> None:
    assert get_args(Decision) == ("OK", "NOK", "UNDEFINED")
    reasons = """stale frozen dark bright blurred covered moved damaged deadline overload nan backend_failed
        camera_lost golden_failed settling restarted rule_not_evaluable"""
    assert set(get_args(ReasonCode)) == set(reasons.split())
    assert set(get_args(StatusMessage.model_fields["state"].annotation)) == {"online", "offline", "stopped"}
    assert {"line_stop", "camera", "configuration_loaded"} <= set(KINDS)


def test_exit_codes_are_the_promised_ones(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("format: 2\n")
    (tmp_path / "bad.onnx").write_bytes(b"")
    assert edge_infer("--version").returncode == 0
    assert edge_infer("no-such-command").returncode == 2
    assert edge_infer("run").returncode == 2
    assert edge_infer("check", tmp_path / "bad.yaml").returncode == 78
    assert edge_infer("run", tmp_path / "missing.yaml").returncode == 78
    refused = edge_infer("infer", tmp_path / "bad.onnx", tmp_path / "a.png", "--json")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert edge_infer("infer", tmp_path, tmp_path / "a.png").returncode == 78


@pytest.mark.parametrize(
    "arguments", [["check", "--schema"], ["--help"], ["model", "inspect", "MODEL", "--json"]]
)
def test_a_full_disk_behind_the_output_is_told_not_a_bug(arguments: list[str]) -> None:
    bundled = str(files("edge_infer.bundled") / "bottles")
    command = [sys.executable, "-m", "edge_infer", *(bundled if one == "MODEL" else one for one in arguments)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert "bug" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    os.mkfifo(tmp_path / "pipe.onnx")
    assert edge_infer("check", tmp_path / "pipe.yaml").returncode == 78
    refused = edge_infer("infer", tmp_path / "pipe.onnx", "a.png")
    assert (refused.returncode, "not a regular file" in refused.stderr) == (1, True)
    assert edge_infer("model", "inspect", "/dev/zero").returncode in (1, 78)


def test_a_bug_is_exit_3_with_a_report_file_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import edge_infer.yamlfile\n"
        "def broken(path): raise ZeroDivisionError('boom')\n"
        "edge_infer.yamlfile.load = broken\n"
    )
    command = [sys.executable, "-m", "edge_infer", "check", "x.yaml"]
    environment = {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    (report,) = tmp_path.glob("edge-infer-*.txt")
    assert str(report) in done.stderr
    assert "ZeroDivisionError: boom" in report.read_text()


def test_every_command_has_help() -> None:
    for command in (["demo"], ["run"], ["check"], ["infer"], ["batch"], ["grab"], ["model", "inspect"]):
        done = edge_infer(*command, "--help")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Usage: ")


@pytest.mark.parametrize("module", ["edge_infer.cli", "edge_infer.config.site"])
def test_importing_loads_no_runtime_no_opencv_and_no_video(module: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert loaded.isdisjoint({"onnxruntime", "openvino", "cv2", "av", "onnx", "torch"})
