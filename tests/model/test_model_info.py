"""OpenVINO's model_info, as Model API, Geti and Ultralytics write it: followed, said or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edge_infer.backends import BACKENDS
from edge_infer.errors import ModelError
from edge_infer.model.card import AnomalyCard
from edge_infer.model.load import load_model
from edge_infer.model.model_api import read_model_info
from edge_infer.network import Network
from edge_infer.registry import resolve
from tests.support import networks

HERE = Path("model.xml")
YOLO = {
    "model_type": "YOLO", "reverse_input_channels": "YES", "scale_values": "255", "pad_value": "114",
    "resize_type": "fit_to_window_letterbox", "labels": "red green blue",
}  # fmt: skip
RED = (150, 150, 240)


def told(**info: str) -> Any:
    found = read_model_info(HERE, {"model_type": "YOLO", **info})
    assert found is not None
    return found


def saved(network: Path, info: dict[str, str], *, embed: tuple[int, int] | None = None) -> Path:
    """An IR as Model API saves it; ``embed``: with resizing to height, width and normalisation inside."""
    import openvino
    from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

    model = openvino.Core().read_model(network)
    if embed:
        processor = PrePostProcessor(model)
        picture = processor.input(0)
        picture.tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC"))
        picture.tensor().set_color_format(ColorFormat.BGR).set_shape([1, -1, -1, 3])
        picture.model().set_layout(openvino.Layout("NCHW"))
        picture.preprocess().convert_element_type(openvino.Type.f32).resize(
            ResizeAlgorithm.RESIZE_LINEAR, *embed
        )
        picture.preprocess().convert_color(ColorFormat.RGB).scale(255.0)
        model = processor.build()
    for key, value in info.items():
        model.set_rt_info(value, ["model_info", key])
    ir = network.with_suffix(".xml")
    openvino.save_model(model, ir, compress_to_fp16=False)
    return ir


def found_red(
    model: Path, folder: Path, backend: str = "openvino", size: tuple[int, int] = (641, 333)
) -> Any:
    """The one spot that the network sees, and where it was drawn."""
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    box = (round(width * 0.40), round(height * 0.35), round(width * 0.70), round(height * 0.60))
    pixels[box[1] : box[3], box[0] : box[2]] = RED
    (folder / "model.yaml").write_text(f"format: 1\nname: x\nnetwork: {model.name}\ndecoder: yolo-end2end\n")
    card = load_model(folder)
    network = Network.open(card, resolve(BACKENDS, backend)(type=backend))
    detections = network.infer(pixels).findings.detections
    network.close()
    assert detections is not None
    (one,) = detections
    assert one.box == pytest.approx(box, abs=1.5 * max(width, height) / 64 + 0.5)
    return one, card


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"resize_type": "standard"},
        {"resize_type": "fit_to_window", "pad_value": "0"},
        {"resize_type": "crop"},
        {"scale_values": "58.4 57.1 57.4", "mean_values": "123.7 116.3 103.5"},
        {"scale_values": "0.229 0.224 0.225", "mean_values": "0.485 0.456 0.406",
         "intensity_mode": "scale_to_unit", "intensity_max_value": "255"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [(641, 333), (333, 641), (64, 64)])
def test_what_an_ir_says_of_its_input_makes_every_box_right(
    tmp_path: Path, info: dict[str, str], size: tuple[int, int]
) -> None:
    normal: dict[str, Any] = {}
    if info.get("intensity_mode"):
        normal = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    elif "mean_values" in info:
        normal = {
            "mean": [value / 255 for value in (123.7, 116.3, 103.5)],
            "std": [value / 255 for value in (58.4, 57.1, 57.4)],
        }
    network = networks.spot(tmp_path / "m.onnx", (1, 3, 64, 96 if "crop" in str(info) else 64), **normal)
    one, card = found_red(saved(network, {**YOLO, **info}), tmp_path, size=size)
    assert (one.label, card.labels) == ("red", ("red", "green", "blue"))
    assert one.score == pytest.approx(max(RED) / 255, abs=0.01)
    assert card.origins["input.resize"] == card.origins["labels"] == "network"


@pytest.mark.parametrize("way", ["fit_to_window_letterbox", "standard", "fit_to_window"])
@pytest.mark.parametrize("size", [(641, 333), (333, 641), (100, 100)])
def test_a_network_that_resizes_and_normalises_inside_is_given_pictures_of_its_own_size(
    tmp_path: Path, way: str, size: tuple[int, int]
) -> None:
    network = networks.spot(tmp_path / "m.onnx", (1, 3, 72, 100))
    info = {
        **YOLO,
        "resize_type": way,
        "embedded_processing": "YES",
        "orig_height": "72",
        "orig_width": "100",
    }
    one, card = found_red(saved(network, info, embed=(72, 100)), tmp_path, size=size)
    assert card.input.size == (72, 100)
    assert (card.input.color, card.input.scale) == ("bgr", 1)
    assert one.label == "red"
    assert one.score == pytest.approx(max(RED) / 255, abs=0.01)


def test_a_size_in_the_card_cannot_change_what_is_inside_the_network(tmp_path: Path) -> None:
    network = networks.spot(tmp_path / "m.onnx", (1, 3, 72, 100))
    info = {**YOLO, "embedded_processing": "YES", "orig_height": "72", "orig_width": "100"}
    ir = saved(network, info, embed=(72, 100))
    (tmp_path / "model.yaml").write_text(
        f"format: 1\nname: x\nnetwork: {ir.name}\ndecoder: yolo-end2end\ninput: {{size: [64, 64]}}\n"
    )
    with pytest.raises(Exception, match=r"brings every picture to \(72, 100\)"):
        load_model(tmp_path)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_an_onnx_file_of_model_api_says_the_same(tmp_path: Path, backend: str) -> None:
    network = networks.spot(tmp_path / "m.onnx", (1, 3, 64, 64))
    model = onnx.load(network)
    onnx.helper.set_model_props(
        model, {f"model_info {key}": value for key, value in {**YOLO, "reverse_input_channels": "NO"}.items()}
    )
    onnx.save(model, network)
    one, card = found_red(network, tmp_path, backend)
    assert card.input.color == "bgr"
    # the network was given BGR, so its third channel is the brightest
    assert one.label == "blue"


def test_keys_that_are_missing_mean_what_model_api_takes_for_them() -> None:
    plain = told(model_type="SSD")
    assert (plain.resize, plain.color, plain.scale, plain.task) == ("stretch", "bgr", 1.0, "detect")
    unknown = told(model_type="YOLO")
    assert (unknown.resize, unknown.color, unknown.scale, unknown.task) == (None, None, None, None)
    none = told(scale_values="None", labels="", orig_height="None", path_to_labels="None")
    assert (none.scale, none.labels, none.size) == (None, None, None)


@pytest.mark.parametrize(
    ("way", "resize", "align"),
    [
        ("standard", "stretch", "center"), ("fit_to_window", "letterbox", "top_left"),
        ("fit_to_window_letterbox", "letterbox", "center"), ("crop", "center_crop", "center"),
    ],
)  # fmt: skip
def test_every_resize_type_has_its_own_place_for_the_picture(way: str, resize: str, align: str) -> None:
    found = told(resize_type=way)
    assert (found.resize, found.align) == (resize, align)


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("Classification", "classify"), ("Segmentation", "semantic"), ("AnomalyDetection", "anomaly"),
        ("MaskRCNN", "segment"), ("YOLO-seg", "segment"), ("YOLO11", "detect"), ("ssd", "detect"),
    ],
)  # fmt: skip
def test_the_type_tells_the_task(kind: str, task: str) -> None:
    assert told(model_type=kind).task == task


def test_an_anomaly_models_threshold_and_range_are_read() -> None:
    info = {"model_type": "AnomalyDetection", "image_threshold": "5", "normalization_scale": "10"}
    assert told(**info).anomaly == AnomalyCard(5, 0, 10, (5, 0, 10))
    assert told(**info, pixel_threshold="6").anomaly == AnomalyCard(5, 0, 10, (6, 0, 10))
    assert told(model_type="AnomalyDetection").anomaly is None


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"embedded_processing": "True"}, "does not say to what"),
        ({"embedded_processing": "YES", "orig_height": "0", "orig_width": "5"}, "no size"),
        ({"embedded_processing": "YES", "orig_height": "64", "orig_width": "64",
          "input_frame_height": "1080", "input_frame_width": "1920"}, "frames of (1080, 1920)"),
        ({"multilabel": "True"}, "several labels"),
        ({"hierarchical": "True"}, "tree of labels"),
        ({"intensity_mode": "percentile"}, "percentile"),
        ({"intensity_mode": "window"}, "window"),
        ({"intensity_repeat_channels": "True"}, "grey"),
        ({"resize_type": "stretch_a_bit"}, "stretch_a_bit"),
        ({"mean_values": "1 2 x"}, "mean_values"),
        ({"model_type": "AnomalyDetection", "image_threshold": "1", "normalization_scale": "0"}, "zero"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_its_key(info: dict[str, str], said: str) -> None:
    with pytest.raises(ModelError) as refused:
        told(**info)
    assert said in str(refused.value)
    assert str(refused.value).startswith("model.xml")


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"interpolation_mode": "CUBIC"}, "interpolation_mode CUBIC"),
        ({"agnostic_nms": "True"}, "agnostic_nms"),
        ({"tile_size": "400"}, "tiles of 400 pixels"),
    ],
)
def test_what_is_not_followed_is_said_with_every_answer(
    tmp_path: Path, info: dict[str, str], said: str
) -> None:
    ir = saved(networks.spot(tmp_path / "m.onnx"), {**YOLO, **info})
    _, card = found_red(ir, tmp_path)
    assert any(said in warning for warning in card.warnings)


def test_metadata_beside_an_ir_is_read_before_the_shorter_names_in_it(tmp_path: Path) -> None:
    ir = saved(networks.spot(tmp_path / "m.onnx"), {**YOLO, "labels": "deep_red grün blue"})
    (tmp_path / "metadata.yaml").write_text(
        "stride: 32\ntask: detect\nimgsz: [64, 64]\nnames:\n  0: deep red\n  1: grün\n  2: it's, blue\n"
        "end2end: true\n",
        encoding="utf-8",
    )
    card = load_model(ir)
    assert card.labels == ("deep red", "grün", "it's, blue")
    assert (card.input.color, card.input.scale, card.decoder) == ("rgb", 255, "yolo-end2end")
