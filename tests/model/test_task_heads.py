"""What a network is for is told by its metadata, names and shapes, or asked for; never guessed in silence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from edge_infer.errors import ConfigError, ModelError
from edge_infer.model.card import AnomalyCard
from edge_infer.model.load import load_model
from tests.support import networks, tasks

Sides = Sequence[int]


def _answers(**shapes: Any) -> dict[str, Any]:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def _bare(tmp_path: Path, shapes: dict[str, Sides], **more: Any) -> Path:
    return tasks.network(tmp_path / "m.onnx", _answers(**shapes), **more)


def _with_card(tmp_path: Path, text: str) -> Path:
    (tmp_path / "model.yaml").write_text(f"format: 1\nname: t\nnetwork: m.onnx\n{text}")
    return tmp_path


CELLS = tasks.SIZE[0] * tasks.SIZE[1] // 64 * 21 // 16


@pytest.mark.parametrize(
    ("task", "extra", "keypoints"),
    [("segment", 32, None), ("obb", 1, None), ("pose", 51, (17, 3)), ("pose", 8, (4, 2))],
)
@pytest.mark.parametrize(
    "how",
    [("yolov8", "False", "{}"), ("yolo-end2end", "True", "{}"), ("yolo-end2end", "False", "{'nms': True}")],
)
def test_ultralytics_heads_of_any_number_of_classes_need_nothing(
    tmp_path: Path, task: str, extra: int, keypoints: tuple[int, int] | None, how: tuple[str, str, str]
) -> None:
    decoder, end2end, args = how
    for classes in (1, 2, 9):
        labels = [f"part {index}" for index in range(classes)]
        raw = decoder == "yolov8"
        shapes: dict[str, Sides] = {
            "output0": (1, 4 + classes + extra, CELLS) if raw else (1, 300, 6 + extra)
        }
        if task == "segment":
            shapes["output1"] = (1, 32, 24, 40)
        more = {"kpt_shape": str(list(keypoints))} if keypoints else {}
        metadata = networks.ultralytics(labels, task=task, end2end=end2end, args=args, **more)
        card = load_model(_bare(tmp_path, shapes, metadata=metadata))
        assert (card.task, card.decoder, card.labels) == (task, decoder, tuple(labels))
        assert (card.keypoints, card.warnings) == (keypoints, ())
        assert (card.input.resize, card.input.interpolation) == ("letterbox", "linear")


def test_masks_are_told_by_their_prototypes_in_any_order_and_number(tmp_path: Path) -> None:
    network = _bare(tmp_path, {"b": (1, 12, 24, 40), "a": (1, 4 + 3 + 12, CELLS)})
    card = load_model(network)
    assert (card.task, card.decoder, len(card.labels)) == ("segment", "yolov8", 3)
    assert card.origins["task"] == "network"
    network = _bare(tmp_path, {"a": (1, 3 * CELLS, 5 + 9 + 32), "b": (1, 32, 24, 40)})
    assert (load_model(network).decoder, len(load_model(network).labels)) == ("yolov5", 9)


def test_the_number_of_masks_is_no_number_of_classes(tmp_path: Path) -> None:
    metadata = networks.ultralytics([f"c{i}" for i in range(80)], task="segment")
    network = _bare(tmp_path, {"a": (1, 45, CELLS), "b": (1, 32, 24, 40)}, metadata=metadata)
    with pytest.raises(ModelError, match="80 labels, but the network's head has 9 classes"):
        load_model(network)


@pytest.mark.parametrize(
    ("rest", "keypoints", "is_guess"),
    [(6, (2, 3), True), (9, (3, 3), False), (4, (2, 2), False), (51, (17, 3), False)],
)
def test_key_points_are_counted_by_the_labels_where_no_metadata_tells(
    tmp_path: Path, rest: int, keypoints: tuple[int, int], is_guess: bool
) -> None:
    _bare(tmp_path, {"output0": (1, 4 + 2 + rest, CELLS)})
    card = load_model(_with_card(tmp_path, "task: pose\nlabels: [a, b]\n"))
    assert card.keypoints == keypoints
    assert ("without visibility" in " ".join(card.warnings)) is is_guess


def test_a_pose_head_without_labels_asks_for_them_and_a_card_without_its_task_is_refused(
    tmp_path: Path,
) -> None:
    network = _bare(tmp_path, {"output0": (1, 11, CELLS)})
    with pytest.raises(ConfigError, match="told by kpt_shape or by labels"):
        load_model(_with_card(tmp_path, "task: pose\n"))
    # seven classes of boxes have as many channels: the labels tell that they are not
    with pytest.raises(ConfigError, match="1 labels, but the network's head has 7 classes"):
        load_model(_with_card(tmp_path, "labels: [part]\n"))
    assert load_model(network).task == "detect"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[3]", "kpt_shape"), ("'x'", "kpt_shape"), ("[0, 3]", "kpt_shape"), ("[17, 4]", "kpt_shape"),
    ],
)  # fmt: skip
def test_damaged_key_point_metadata_is_named(tmp_path: Path, text: str, wrong: str) -> None:
    metadata = networks.ultralytics(["a"], task="pose", kpt_shape=text)
    with pytest.raises(ModelError, match=wrong):
        load_model(_bare(tmp_path, {"output0": (1, 11, CELLS)}, metadata=metadata))


@pytest.mark.parametrize(
    ("last", "logits"),
    [("Softmax", False), ("Sigmoid", False), ("LogSoftmax", True), (None, True), ("Relu", None)],
)
@pytest.mark.parametrize("as_ir", [False, True])
def test_logits_and_probabilities_are_told_apart_by_what_computes_them(
    tmp_path: Path, last: str | None, logits: bool | None, as_ir: bool
) -> None:
    network = _bare(tmp_path, {"scores": (1, 5)}, last=last)
    card = load_model(networks.as_ir(network) if as_ir else network)
    assert (card.task, card.decoder, card.labels[0]) == ("classify", "classify", "class0")
    if (last, as_ir) != ("LogSoftmax", True):
        # OpenVINO takes it apart
        assert card.logits is logits
    assert any("by their values" in warning for warning in card.warnings) is (card.logits is None)


def test_a_classifier_is_fed_as_its_reference_does(tmp_path: Path) -> None:
    metadata = networks.ultralytics(["a", "b"], task="classify", imgsz="[96, 160]")
    card = load_model(_bare(tmp_path, {"output0": (1, 2)}, last="Softmax", metadata=metadata))
    assert (card.input.resize, card.input.interpolation) == ("center_crop", "antialias")
    resized = load_model(_with_card(tmp_path, "input: {size: [128, 192]}\nlabels: [a, b]\n")).input
    assert (resized.size, resized.crop) == ((128, 192), tasks.SIZE)


def test_rows_of_seven_are_no_classifier_of_seven_classes(tmp_path: Path) -> None:
    network = networks.shaped(tmp_path / "m.onnx", {"output": ("n", 7)})
    assert load_model_or_refusal(network) != "classify"
    _with_card(tmp_path, "labels: [a, b, c, d, e, f, g]\ntask: classify\n")
    assert load_model(tmp_path).task == "classify"


def load_model_or_refusal(network: Path) -> str:
    try:
        return load_model(network).task
    except ModelError as error:
        return str(error)


@pytest.mark.parametrize("shape", [(1, 3, *tasks.SIZE), (1, 3, 24, 40)])
def test_a_map_of_classes_is_told_by_its_shape(tmp_path: Path, shape: Sides) -> None:
    card = load_model(_bare(tmp_path, {"out": shape}))
    assert (card.task, len(card.labels), card.background, card.input.resize) == (
        "semantic",
        3,
        "none",
        "stretch",
    )
    named = load_model(_with_card(tmp_path, "labels: [background, cap, tear]\n"))
    assert (named.labels, named.background) == (("cap", "tear"), "first")


def test_one_map_is_asked_what_it_is(tmp_path: Path) -> None:
    network = _bare(tmp_path, {"output": (1, 1, *tasks.SIZE)})
    with pytest.raises(ModelError, match=r"metadata\.json.*`task: anomaly` or `task: semantic`"):
        load_model(network)
    assert load_model(_with_card(tmp_path, "task: semantic\nlabels: [tear]\n")).labels == ("tear",)
    with pytest.raises(ConfigError, match="nothing tells from which score on"):
        load_model(_with_card(tmp_path, "task: anomaly\n"))
    card = load_model(_with_card(tmp_path, "decoder: anomaly\nanomaly: {threshold: 5, min: 2, max: 12}\n"))
    assert (card.task, card.anomaly, card.labels) == ("anomaly", AnomalyCard(5, 2, 12), ())


METADATA: dict[str, Any] = {"image_threshold": 5.0, "pixel_threshold": 6, "min": 2.0, "max": 12.0}


def test_anomalib_v1_is_read_from_the_file_beside_it(tmp_path: Path) -> None:
    network = _bare(tmp_path, {"output": (1, 1, *tasks.SIZE)})
    beside = tmp_path / "metadata.json"
    beside.write_text(json.dumps(METADATA))
    card = load_model(network)
    assert (card.task, card.anomaly) == ("anomaly", AnomalyCard(5, 2, 12, (6, 2, 12)))
    assert (card.input.resize, card.input.interpolation) == ("stretch", "antialias")
    assert card.origins["anomaly"] == "network"
    # newer ones keep score and map apart, and other keys do not disturb
    more = {"pred_scores.min": 1, "pred_scores.max": 21, "anomaly_maps.min": 0, "anomaly_maps.max": 30}
    beside.write_text(json.dumps({**METADATA, **more, "task": "segmentation"}))
    assert load_model(network).anomaly == AnomalyCard(5, 1, 21, (6, 0, 30))
    card = load_model(_with_card(tmp_path, "anomaly: {threshold: 4, min: 0, max: 9}\n"))
    assert (card.anomaly, card.origins["anomaly"]) == (AnomalyCard(4, 0, 9), "card")


@pytest.mark.parametrize(
    "transform",
    [
        {"image_size": [96, 160], "normalization": "imagenet"},
        {"transform": {"transforms": [{"__class_fullname__": "Resize"}, {"__class_fullname__": "Normalize",
         "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}]}},
    ],
)  # fmt: skip
def test_anomalibs_normalisation_is_read_in_both_forms(tmp_path: Path, transform: Any) -> None:
    network = _bare(tmp_path, {"output": (1, 1, *tasks.SIZE)})
    (tmp_path / "metadata.json").write_text(json.dumps({**METADATA, "transform": transform}))
    card = load_model(network)
    assert (card.input.mean, card.input.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    (tmp_path / "metadata.json").write_text(json.dumps({**METADATA, "transform": {"normalization": "none"}}))
    assert load_model(network).input.mean == (0, 0, 0)


def test_a_crop_between_resizing_and_the_network_is_refused_and_not_left_out(tmp_path: Path) -> None:
    network = _bare(tmp_path, {"output": (1, 1, *tasks.SIZE)})
    steps = [{"__class_fullname__": "Resize"}, {"__class_fullname__": "albumentations.CenterCrop"}]
    entries = {**METADATA, "transform": {"transform": {"transforms": steps}}}
    (tmp_path / "metadata.json").write_text(json.dumps(entries))
    with pytest.raises(ModelError, match="resized and then cut"):
        load_model(network)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be read"), ("\xff", "cannot be read"),
        (json.dumps({**METADATA, "image_threshold": "high"}), "image_threshold is not a number"),
        (json.dumps({**METADATA, "max": float("nan")}), "max is not a number"),
        (json.dumps({**METADATA, "max": 2.0}), "max 2 is not above min 2"),
        (json.dumps({"image_threshold": 5}), "nothing tells from which score on"),
    ],
)  # fmt: skip
def test_damaged_anomaly_metadata_is_named_and_never_half_used(tmp_path: Path, text: str, why: str) -> None:
    network = _bare(tmp_path, {"output": (1, 1, *tasks.SIZE)})
    (tmp_path / "metadata.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=why):
        load_model(network)


def test_somebody_elses_metadata_json_is_left_alone(tmp_path: Path) -> None:
    network = networks.shaped(tmp_path / "m.onnx", {"output0": (1, 7, 8400)})
    (tmp_path / "metadata.json").write_text("{ broken")
    assert load_model(network).task == "detect"


V2: dict[str, Sides] = {"pred_score": (1, 1), "anomaly_map": (1, 1, *tasks.SIZE)}


def test_anomalib_v2_is_told_by_the_names_of_its_outputs(tmp_path: Path) -> None:
    sensitivities = [("image_sensitivity", "float32", ()), ("pixel_sensitivity", "float32", ())]
    card = load_model(_bare(tmp_path, V2, inputs=sensitivities))
    assert (card.task, card.decoder, card.anomaly, card.labels) == ("anomaly", "anomaly", None, ())
    assert card.warnings == ()


def test_an_input_that_nobody_knows_is_named_and_refused(tmp_path: Path) -> None:
    network = _bare(tmp_path, V2, inputs=[("image_sensitivity", "float32", ()), ("mood", "float32", (1, 2))])
    with pytest.raises(ModelError, match="inputs mood 1x2"):
        load_model(network)


@pytest.mark.parametrize(
    ("shape", "graph_crop"), [((84, 140), (84, 140)), (tasks.SIZE, None), ((24, 40), None), ((48, 80), None)]
)
def test_a_map_of_the_middle_is_a_guess_that_is_said(
    tmp_path: Path, shape: tuple[int, int], graph_crop: tuple[int, int] | None
) -> None:
    _bare(tmp_path, {**V2, "anomaly_map": (1, 1, *shape)})
    card = load_model(tmp_path / "m.onnx")
    assert card.input.graph_crop == graph_crop
    assert ("graph_crop: [84, 140]" in " ".join(card.warnings)) is (graph_crop is not None)
    settled = load_model(_with_card(tmp_path, "input: {graph_crop: [96, 160]}\n"))
    assert (settled.input.graph_crop, settled.warnings) == (tasks.SIZE, ())


def test_a_decoder_that_has_no_such_task_is_refused_with_those_that_have(tmp_path: Path) -> None:
    _bare(tmp_path, {"a": (1, 4 + 3 + 12, CELLS), "b": (1, 12, 24, 40)})
    with pytest.raises(ConfigError, match=r"decoder yolox has no segment networks.*yolov8 or yolov5"):
        load_model(_with_card(tmp_path, "decoder: yolox\ntask: segment\n"))
    assert load_model(_with_card(tmp_path, "decoder: yolov8\n")).task == "segment"


@pytest.mark.parametrize("as_ir", [False, True])
def test_logits_are_told_by_the_output_that_holds_the_classes(tmp_path: Path, *, as_ir: bool) -> None:
    network = _bare(tmp_path, {"features": (1, 8, 6, 10), "prob": (1, 3)})
    model = onnx.load(network)
    [last] = [node for node in model.graph.node if node.output[0] == "prob"]
    last.CopyFrom(helper.make_node("Softmax", list(last.input), ["prob"], axis=1))
    onnx.save(model, network)
    path = networks.as_ir(network) if as_ir else network
    (tmp_path / "model.yaml").write_text(f"format: 1\nname: t\nnetwork: {path.name}\ntask: classify\n")
    card = load_model(tmp_path)
    assert (len(card.labels), card.logits) == (3, False)


@pytest.mark.parametrize(
    "shapes", [{"output": (1, 2, *tasks.SIZE)}, {"score": (1, 2)}, {**V2, "pred_score": (1, 2)}]
)
def test_an_anomaly_network_that_also_says_how_normal_a_picture_is_is_refused(
    tmp_path: Path, shapes: dict[str, Sides]
) -> None:
    _bare(tmp_path, shapes)
    with pytest.raises(ModelError, match="must give one score"):
        load_model(_with_card(tmp_path, "task: anomaly\nanomaly: {threshold: 5, min: 2, max: 12}\n"))
