"""What exporters write beside the graph."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge_infer.errors import EdgeInferError, ModelError
from edge_infer.model.labels import read_labels
from edge_infer.model.load import load_model
from edge_infer.model.model_api import read_model_info
from edge_infer.model.ultralytics import read_ultralytics
from tests.support import networks

HERE = Path("model.onnx")
NEWEST = {
    "description": "Ultralytics YOLO11n model", "author": "Ultralytics", "version": "8.4.190",
    "stride": "32", "task": "detect", "head": "Detect", "batch": "1", "imgsz": "[480, 640]",
    "names": "{0: 'cap', 1: \"it's, ok\", 2: 'Füllstand ß'}",
    "args": "{'nms': None, 'dynamic': False}", "channels": "3", "end2end": "False",
}  # fmt: skip


def test_ultralytics_props_are_python_literals() -> None:
    told = read_ultralytics(HERE, NEWEST)
    assert told is not None
    assert told.labels == ("cap", "it's, ok", "Füllstand ß")
    assert (told.task, told.size, told.head) == ("detect", (480, 640), "Detect")
    assert (told.end2end, told.nms_inside) == (False, None)


def test_older_ultralytics_without_args_and_end2end_says_nothing_of_them() -> None:
    older = {key: NEWEST[key] for key in ("stride", "task", "imgsz", "names")}
    told = read_ultralytics(HERE, older)
    assert told is not None
    assert (told.end2end, told.nms_inside, told.head) == (None, None, None)


def test_yolov5_props_name_only_the_labels() -> None:
    told = read_ultralytics(HERE, {"stride": "32", "names": "{0: 'a', 1: 'b'}"})
    assert told is not None
    assert (told.labels, told.task, told.size) == (("a", "b"), None, None)


def test_nms_inside_is_told_only_by_the_arguments() -> None:
    told = read_ultralytics(HERE, {**NEWEST, "args": "{'nms': True}"})
    assert told is not None
    assert (told.end2end, told.nms_inside) == (False, True)


def test_props_of_somebody_else_are_left_alone() -> None:
    assert read_ultralytics(HERE, {"author": "me"}) is None
    assert read_ultralytics(HERE, {}) is None


@pytest.mark.parametrize(
    "names",
    [
        "{0: 'a'",
        "__import__('os').system('true')",
        "{0: 'a', 2: 'b'}",
        "{'x': 'y'}",
        "7",
        "{" * 500,
        "{0: '\\ud83d'}",
    ],
)
def test_damaged_labels_are_refused_and_never_run(names: str) -> None:
    with pytest.raises(ModelError, match="say `labels:`"):
        read_ultralytics(HERE, {**NEWEST, "names": names})


@pytest.mark.parametrize("imgsz", ["[]", "[0, 640]", "big", "[1, 2, 3]", "-640"])
def test_a_damaged_size_is_refused(imgsz: str) -> None:
    with pytest.raises(ModelError, match="imgsz"):
        read_ultralytics(HERE, {**NEWEST, "imgsz": imgsz})


def test_metadata_yaml_beside_an_ir_keeps_labels_that_yaml_takes_for_something_else(tmp_path: Path) -> None:
    ir = networks.as_ir(networks.shaped(tmp_path / "m.onnx", {"output0": (1, 3, 640, 640)}))
    rewrite_output(ir, (1, 7, 8400))
    (tmp_path / "metadata.yaml").write_text(
        "stride: 32\ntask: detect\nimgsz:\n- 640\n- 640\nend2end: false\nargs:\n  nms: false\n"
        "names:\n  0: no\n  1: 007\n  2: two words\n"
    )
    card = load_model(ir)
    assert card.labels == ("no", "007", "two words")
    assert (card.decoder, card.origins["labels"]) == ("yolov8", "network")


def test_broken_metadata_yaml_is_named(tmp_path: Path) -> None:
    ir = networks.as_ir(networks.shaped(tmp_path / "m.onnx", {"output0": (1, 3, 640, 640)}))
    (tmp_path / "metadata.yaml").write_text("names: [a\n")
    with pytest.raises(ModelError, match=r"metadata\.yaml"):
        load_model(ir)


def rewrite_output(ir: Path, shape: tuple[int, ...]) -> None:
    sides = "".join(f"<dim>{side}</dim>" for side in shape)
    before, mark, result = ir.read_text().partition('type="Result"')
    ir.write_text(before + mark + re.sub(r"<dim>.*</dim>", sides, result, count=1, flags=re.DOTALL))


def test_model_info_of_an_ir_is_read(tmp_path: Path) -> None:
    import openvino

    core = openvino.Core()
    network = core.read_model(networks.shaped(tmp_path / "m.onnx", {"output0": (1, 3, 640, 640)}))
    for key, value in {
        "model_type": "YOLO11", "labels": "cap torn_label tear", "reverse_input_channels": "NO",
        "scale_values": "58.4 57.1 57.4", "mean_values": "123.7 116.3 103.5", "resize_type": "standard",
        "pad_value": "0", "confidence_threshold": "0.4", "iou_threshold": "0.6",
    }.items():  # fmt: skip
        network.set_rt_info(value, ["model_info", key])
    ir = tmp_path / "m.xml"
    openvino.save_model(network, ir)
    rewrite_output(ir, (1, 7, 8400))

    card = load_model(ir)

    assert card.labels == ("cap", "torn_label", "tear")
    look = card.input
    assert (look.color, look.resize, look.pad_value, look.scale) == ("bgr", "stretch", 0, 1)
    assert (look.mean, look.std) == ((123.7, 116.3, 103.5), (58.4, 57.1, 57.4))
    assert (card.score_threshold, card.nms_iou) == (0.4, 0.6)
    assert card.origins["nms_iou"] == card.origins["input.color"] == "network"


def test_one_scale_for_all_channels_is_a_scale() -> None:
    told = read_model_info(
        HERE, {"model_type": "YOLO", "scale_values": "255", "reverse_input_channels": "YES"}
    )
    assert told is not None
    assert (told.scale, told.mean, told.std, told.color) == (255, None, None, "rgb")


@pytest.mark.parametrize(
    "info",
    [
        {"scale_values": "0"}, {"scale_values": "a"}, {"confidence_threshold": "7"},
        {"resize_type": "fit_to_windows"}, {"embedded_processing": "True"},
    ],
)  # fmt: skip
def test_model_info_that_cannot_be_followed_is_refused(info: dict[str, str]) -> None:
    with pytest.raises(ModelError):
        read_model_info(HERE, {"model_type": "YOLO", **info})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "names no label"), (b"\n \n", "names no label"), (b"a\n\nb\n", ":2: an empty line"),
        (b"a\nf\xfcll\n", ":2: not UTF-8"),
    ],
)  # fmt: skip
def test_a_label_file_that_would_shift_classes_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(content)
    with pytest.raises(EdgeInferError, match=r"names\.txt") as refused:
        read_labels(path)
    assert said in str(refused.value)


def test_a_label_file_may_have_a_byte_order_mark_other_line_ends_and_empty_lines_at_its_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffgrün\r\n二\r\n\r\n\r\n".encode())
    assert read_labels(path) == ("grün", "二")
