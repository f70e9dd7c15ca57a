"""A whole site on disk: a YAML file that uses every key, a tiny real network, a recording, certificates."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support import networks

GOOD = """\
format: 1
site: plant1
line: l3
device: ipc7
state_dir: state
mqtt:
  host: broker.plant1.example
  port: 8883
  protocol: "5"
  user: ipc7
  password:
    file: secret
  tls:
    ca: ca.crt
    cert: ipc7.crt
    key: ipc7.key
  topic_prefix: "vision/v1/{site}/{line}/{device}"
cameras:
  top:
    type: rtsp
    url: "rtsp://10.0.0.9/s"
    user: u
    password:
      env: EDGE_INFER_TEST_CAMERA
    transport: tcp
    max_age_s: 0.5
  tape:
    type: files
    path: tape
    loop: false
    realtime: false
  usb:
    type: v4l2
    path: /dev/video9
    width: 1280
    height: 720
    fps: 30
    fourcc: MJPG
  scene:
    type: synthetic
    fps: 10
    seed: 1
    frames: 400
    defect_rate: 0.2
models:
  seals:
    path: seals
    backend:
      type: openvino
      device: CPU
      fallback: [CPU]
  plain:
    path: seals
    backend:
      type: onnxruntime
stations:
  cap:
    camera: top
    trigger:
      type: every
      every_s: 0.5
    model: seals
    deadline_ms: 500
    region:
      unit: fraction
      box: [0, 0.2, 1, 0.8]
    rules:
      - name: enough-bottles
        count:
          labels: [bottle]
          min_score: 0.3
          at_least: 3
      - name: no-tear
        count:
          labels: [tear]
          at_most: 0
        zone:
          unit: fraction
          polygon: [[0, 0], [1, 0], [1, 1]]
        min_area_px: 400
    confirm:
      k: 3
      n: 5
    hold_s: 1
    publish:
      every_s: 1
    line_stop:
      consecutive: 5
  part:
    camera: scene
    trigger:
      type: camera
    model: plain
    rules:
      - name: cap
        count:
          labels: [bottle]
          at_least: 1
  asked:
    camera: usb
    trigger:
      type: mqtt
    model: plain
    rules:
      - name: cap
        count:
          labels: [bottle]
          at_least: 1
  replay:
    camera: tape
    model: plain
    publish: change
    rules:
      - name: cap
        count:
          labels: [bottle]
          at_least: 1
outbox:
  max_bytes: 500MB
  commit: fsync
commands:
  allow: [ping, get_status]
  per_minute: 60
metrics:
  address: 127.0.0.1
  port: 9464
  textfile: own.prom
  every_s: 15
  sysfs: /sys
recipes:
  night:
    cap:
      region: null
      hold_s: 2
"""

# of nobody, holds from 2020 to 2120
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBETCBuaADAgECAgEBMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMMB21hZGUtdXAw
IBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBIxEDAOBgNVBAMMB21h
ZGUtdXAwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASZGumRmJOFnIoonusJvJVO
Pq7V+kiNLiXOmxg2EyH8Op1TqPaGNzHFmFu//BGxNN25XFHMm4fAFbiilhFmSbsZ
MAoGCCqGSM49BAMCA0cAMEQCIBTUAdxhXOD1nMyN8l3OBDXpDCTwKw4eDDH7CU5/
ktDbAiAuKplXVnn18m+Q65P2eE5gq4twSsDoBnWJ/pU5BD9JNg==
-----END CERTIFICATE-----
"""

CARD = """\
format: 1
name: seals
network: model.onnx
labels: [bottle, tear]
"""


def write_site(folder: Path, text: str = GOOD) -> Path:
    """The YAML file with everything that GOOD names beside it."""
    write_model(folder / "seals")
    (folder / "tape").mkdir(exist_ok=True)
    for name in ("tape/1.png", "secret", "ipc7.key"):
        (folder / name).write_text("made up\n")
    (folder / "ipc7.key").chmod(0o600)
    for name in ("ca.crt", "ipc7.crt"):
        (folder / name).write_text(CERTIFICATE)
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def write_model(folder: Path, card: str = CARD, classes: int = 2) -> Path:
    """A folder with a model card and a network of Ultralytics' v8 shape for 64x64 pictures; finds nothing."""
    folder.mkdir(exist_ok=True)
    (folder / "model.yaml").write_text(card, encoding="utf-8")
    networks.rows(folder / "model.onnx", np.zeros((1, 4 + classes, 84), np.float32))
    return folder
