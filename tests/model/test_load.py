"""A card completed from model.yaml, the network file and defaults, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edge_infer.errors import ConfigError, ModelError
from edge_infer.model.heads import BUILT
from edge_infer.model.load import load_model
from tests.support import networks

RAW_640 = {"output0": (1, 7, 8400)}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A raw three-class head that says nothing about itself."""
    return networks.shaped(tmp_path / "raw.onnx", RAW_640)


def write(folder: Path, text: str, network: str = "raw.onnx") -> Path:
    (folder / "model.yaml").write_text(f"format: 1\nname: test\nnetwork: {network}\n{text}")
    return folder


def mistakes(folder: Path) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_model(folder)
    assert refused.value.exit_code == 78
    return str(refused.value).splitlines()


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as refused:
        load_model(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_bare_network_with_metadata_needs_nothing_else(tmp_path: Path) -> None:
    network = networks.shaped(
        tmp_path / "caps.onnx", RAW_640, metadata=networks.ultralytics(["cap", "tear", "it's, ok"])
    )
    card = load_model(network)
    assert (card.name, card.decoder, card.task) == ("caps", "yolov8", "detect")
    assert card.labels == ("cap", "tear", "it's, ok")
    assert (card.input.size, card.input.color, card.input.scale) == ((640, 640), "rgb", 255)
    assert (card.score_threshold, card.nms_iou, card.max_detections) == (0.25, 0.45, 300)
    assert card.warnings == ()
    assert {key: card.origins[key] for key in ("labels", "decoder", "input.size", "input.color")} == {
        "labels": "network", "decoder": "network", "input.size": "network", "input.color": "default",
    }  # fmt: skip


def test_the_card_has_the_last_word_and_its_origin_is_remembered(tmp_path: Path, raw: Path) -> None:
    folder = write(
        tmp_path,
        "version: '3'\nlabels: [a, b, c]\nscore_threshold: 0.5\nnms_iou: 0.7\nmax_detections: 7\n"
        "license: MIT\ninput: {resize: stretch, interpolation: area, color: bgr, scale: 1,"
        " mean: [1, 2, 3], std: [4]}\n",
    )
    card = load_model(folder)
    assert card == load_model(folder / "model.yaml")
    assert (card.name, card.version, card.license) == ("test", "3", "MIT")
    assert (card.score_threshold, card.nms_iou, card.max_detections) == (0.5, 0.7, 7)
    look = card.input
    assert (look.resize, look.interpolation, look.color, look.scale) == ("stretch", "area", "bgr", 1)
    assert (look.mean, look.std) == ((1, 2, 3), (4, 4, 4))
    assert card.network == raw
    assert all(card.origins[key] == "card" for key in ("labels", "input.color", "version", "input.std"))


def test_without_a_card_there_is_a_configuration_error(tmp_path: Path) -> None:
    assert mistakes(tmp_path)[0].startswith(f"{tmp_path}/model.yaml: there is no such file")
    assert "no such folder" in mistakes(tmp_path / "none")[0]


def test_every_mistake_of_a_card_is_told_at_once_with_its_place(tmp_path: Path, raw: Path) -> None:
    folder = write(
        tmp_path,
        "lables: [a]\nscore_threshold: 2\ntask: detekt\ninput: {colour: bgr, crop: [3, 0]}\n"
        "anchors: [[1, 2, 3]]\n",
    )
    lines = mistakes(folder)
    assert [line.removeprefix(f"{folder}/model.yaml:")[:2] for line in lines] == [
        "4:",
        "5:",
        "6:",
        "7:",
        "7:",
        "8:",
    ]
    assert 'did you mean "labels"' in lines[0]
    assert 'did you mean "detect"' in lines[2]
    assert 'did you mean "color"' in lines[3]
    assert raw.exists()


def test_yolox_is_fed_as_its_own_exporter_feeds_it_unless_the_card_says_otherwise(
    tmp_path: Path, shared: Path
) -> None:
    text = "decoder: yolox-raw\nlabels_file: {}\n".format(shared / "assets/coco80.txt")
    network = str(shared / "assets/yolox_nano/yolox_nano.onnx")
    look = load_model(write(tmp_path, text, network)).input
    assert (look.align, look.color, look.scale) == ("top_left", "bgr", 1)
    look = load_model(write(tmp_path, text + "input: {color: rgb}\n", network)).input
    assert (look.align, look.color, look.scale) == ("top_left", "rgb", 1)


def test_a_card_beside_a_network_that_is_named_is_not_ignored_in_silence(tmp_path: Path, raw: Path) -> None:
    folder = write(tmp_path, "labels: [a, b, c]\n")
    assert any("name the folder" in warning for warning in load_model(raw).warnings)
    assert not load_model(folder).warnings


def test_a_mean_of_bytes_under_a_scale_of_255_is_questioned(tmp_path: Path, raw: Path) -> None:
    text = "labels: [a, b, c]\ninput: {mean: [123.7, 116.3, 103.5], std: [58.4, 57.1, 57.4]"
    assert any("scale: 1" in warning for warning in load_model(write(tmp_path, text + "}\n")).warnings)
    assert not load_model(write(tmp_path, text + ", scale: 1}\n")).warnings
    assert raw.exists()


def test_one_label_too_few_may_be_an_angle(tmp_path: Path, raw: Path) -> None:
    assert "task: obb" in mistakes(write(tmp_path, "labels: [a, b]\n"))[0]
    assert raw.exists()


def test_detr_with_a_label_too_many_is_called_a_guess(tmp_path: Path, shared: Path) -> None:
    network = str(shared / "cases/open/A21/model.onnx")
    card = load_model(write(tmp_path, "labels: [red, green, blue, nothing]\n", network))
    assert (card.decoder, card.origins["decoder"]) == ("rtdetr", "guess")
    assert any("decoder: detr" in warning for warning in card.warnings)
    card = load_model(write(tmp_path, "labels: [red, green, blue]\ndecoder: detr\n", network))
    assert not card.warnings


def test_a_crop_that_is_not_used_is_said(tmp_path: Path, raw: Path) -> None:
    folder = write(tmp_path, "labels: [a, b, c]\ninput: {resize: letterbox, crop: [32, 32]}\n")
    assert any("input.crop" in warning for warning in load_model(folder).warnings)
    assert raw.exists()


@pytest.mark.parametrize("size", ["", "size: [320, 640], "])
def test_a_crop_that_is_said_not_to_be_used_is_not_used(tmp_path: Path, size: str) -> None:
    sides = ("height", "width") if size else (640, 640)
    networks.shaped(tmp_path / "raw.onnx", {"o": (1, 7, "anchors")}, ("batch", 3, *sides))
    text = f"decoder: yolov8\nlabels: [a, b, c]\ninput: {{{size}resize: letterbox, crop: [32, 64]}}\n"
    card = load_model(write(tmp_path, text)).input
    assert card.crop is None
    assert card.network_size == card.size == ((320, 640) if size else (640, 640))


def test_files_that_a_card_names_and_that_are_not_there_are_mistakes_of_the_card(tmp_path: Path) -> None:
    folder = write(
        tmp_path, "labels_file: names.txt\ngolden: [{image: a.png, expect: a.json}]\n", "none.onnx"
    )
    lines = mistakes(folder)
    assert len(lines) == 4
    for line, key in zip(lines, ("network", "labels_file", "golden", "golden"), strict=True):
        assert key in line
        assert "there is no file" in line


@pytest.mark.parametrize(
    ("labels", "names", "extra"),
    [
        ("[a, b]", 2, ""),
        ("[a, b, c, d, e]", 5, ""),
        ("{3: d}", 4, ""),
        ("[a, b, c]", 3, "background: last\n"),
    ],
)
def test_labels_that_do_not_fit_the_head_are_refused_with_both_numbers(
    tmp_path: Path, raw: Path, labels: str, names: int, extra: str
) -> None:
    folder = write(tmp_path, f"labels: {labels}\n{extra}\n")
    (line,) = mistakes(folder)
    assert line.startswith(f"{folder}/model.yaml:4:")
    classes = 2 if extra else 3
    assert f"{names} labels, but the network's head has {classes} classes" in line
    assert raw.exists()


def test_metadata_that_contradicts_its_own_head_is_refused_with_both_numbers(tmp_path: Path) -> None:
    network = networks.shaped(tmp_path / "m.onnx", RAW_640, metadata=networks.ultralytics(["a", "b"]))
    assert "2 labels, but the network's head has 3 classes" in refusal(network)


def test_a_mapping_may_name_some_classes_and_says_so(tmp_path: Path, raw: Path) -> None:
    card = load_model(write(tmp_path, "labels: {1: tear}\n"))
    assert card.labels == ("class0", "tear", "class2")
    assert "1 of 3 classes" in card.warnings[0]
    assert raw.exists()


def test_labels_that_nobody_names_are_a_guess_that_is_said(raw: Path) -> None:
    card = load_model(raw)
    assert card.labels == ("class0", "class1", "class2")
    assert card.origins["labels"] == "guess"
    assert "3 classes" in card.warnings[0]


def test_rows_that_hold_a_class_id_need_labels(tmp_path: Path) -> None:
    network = networks.shaped(tmp_path / "rows.onnx", {"output0": (1, 300, 6)})
    (tmp_path / "model.yaml").write_text("format: 1\nname: x\nnetwork: rows.onnx\ndecoder: yolo-end2end\n")
    (line,) = mistakes(tmp_path)
    assert "labels" in line
    assert "does not tell how many" in line
    assert "decoder" in refusal(network)


def test_what_cannot_be_known_names_the_key_to_set(tmp_path: Path) -> None:
    network = networks.shaped(tmp_path / "raw.onnx", {"output": (1, 3549, 85)}, (1, 3, 416, 416))
    assert "say `decoder:` (yolov8 or yolox or yolox-raw or nanodet) in a model.yaml" in refusal(network)
    folder = write(tmp_path, f"labels: [{', '.join(f'l{i}' for i in range(80))}]\n")
    (line,) = mistakes(folder)
    assert "decoder: " in line
    assert "say `decoder:` (yolox or yolox-raw)" in line
    write(tmp_path, "decoder: yolox-raw\n")
    assert load_model(tmp_path).decoder == "yolox-raw"


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("segment", "fit no segment head"), ("obb", "3 labels, but the network's head has 2 classes"),
        ("pose", "fit no pose head"), ("classify", "not one alone holds class scores"),
        ("semantic", "not one map of classes"), ("track", "cannot judge the task track"),
    ],
)  # fmt: skip
def test_a_head_that_is_not_what_its_task_needs_is_refused_and_not_read_as_boxes(
    tmp_path: Path, task: str, why: str
) -> None:
    # the pose head of one class has as many channels as boxes of seven
    network = networks.shaped(
        tmp_path / "m.onnx", RAW_640, metadata=networks.ultralytics(["a", "b", "c"], task=task)
    )
    assert why in refusal(network)


@pytest.mark.parametrize(
    ("decoder", "wants"),
    [
        ("ssd", "one output (1, 1, N, 7)"), ("detr", "outputs called logits and pred_boxes"),
        ("nms", "boxes, scores and classes"), ("yolov5-raw", "a grid of anchors a stride"),
    ],
)  # fmt: skip
def test_a_decoder_that_does_not_fit_the_outputs_is_refused_and_says_what_it_wants(
    tmp_path: Path, raw: Path, decoder: str, wants: str
) -> None:
    (line,) = mistakes(write(tmp_path, f"decoder: {decoder}\n"))
    assert f"decoder: the decoder {decoder} wants {wants}" in line
    assert "output0 1x7x8400" in line
    assert raw.exists()


def test_inputs_that_nobody_knows_are_named_and_refused(tmp_path: Path) -> None:
    network = networks.rows(tmp_path / "m.onnx", np.zeros((1, 300, 6)), inputs=[("threshold", "float32", ())])
    text = refusal(network)
    assert "nobody knows what to feed" in text
    assert "threshold scalar" in text


def test_free_sizes_come_from_the_metadata_and_are_multiples_of_32(tmp_path: Path) -> None:
    free = ("batch", 3, "height", "width")
    network = networks.shaped(
        tmp_path / "m.onnx", {"o": (1, 7, "anchors")}, free,
        metadata=networks.ultralytics(["a", "b", "c"], imgsz="[480, 630]"),
    )  # fmt: skip
    card = load_model(network)
    assert card.input.size == (480, 640)
    assert "[480, 630] became [480, 640]" in card.warnings[0]
    assert card.origins["input.size"] == "network"


def test_free_sizes_that_nobody_tells_are_asked_for(tmp_path: Path) -> None:
    free = ("batch", 3, "height", "width")
    network = networks.shaped(tmp_path / "raw.onnx", {"o": (1, 7, "anchors")}, free)
    assert "say `input: {size: [height, width]}`" in refusal(network)
    folder = write(tmp_path, "decoder: yolov8\ninput: {size: [320, 640]}\n")
    assert load_model(folder).input.size == (320, 640)


def test_a_size_that_is_not_the_networks_is_refused_with_both(tmp_path: Path, raw: Path) -> None:
    (line,) = mistakes(write(tmp_path, "labels: [a, b, c]\ninput: {size: [320, 320]}\n"))
    assert "[320, 320] given, but the network's input is fixed at [640, 640]" in line
    assert raw.exists()


def test_channels_last_and_grey_are_read_from_the_shape(tmp_path: Path) -> None:
    for shape, layout, color in (
        ((1, 640, 640, 3), "nhwc", "rgb"),
        ((1, 1, 640, 640), "nchw", "gray"),
        ((1, 640, 640, 1), "nhwc", "gray"),
    ):
        card = load_model(networks.shaped(tmp_path / "m.onnx", RAW_640, shape))
        assert (card.input.layout, card.input.color, card.input.size) == (layout, color, (640, 640))
        assert len(card.input.mean) == (1 if color == "gray" else 3)


def test_a_layout_that_may_be_either_is_asked_for(tmp_path: Path) -> None:
    network = networks.shaped(tmp_path / "raw.onnx", RAW_640, (1, "c", "h", "w"))
    assert "say `layout: nchw` or `nhwc`" in refusal(network)
    folder = write(tmp_path, "decoder: yolov8\ninput: {layout: nchw, size: [640, 640]}\n")
    assert load_model(folder).input.layout == "nchw"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("layout: nhwc", "is nchw; leave `layout` out"),
        ("color: gray", "takes 3 channels"),
        ("mean: [1, 2]", "2 numbers, the network takes 3 channels"),
    ],
)
def test_an_input_that_contradicts_the_network_is_a_mistake(
    tmp_path: Path, raw: Path, keys: str, said: str
) -> None:
    (line,) = mistakes(write(tmp_path, f"labels: [a, b, c]\ninput: {{{keys}}}\n"))
    assert said in line
    assert raw.exists()


def test_uint8_inputs_take_the_pixels_as_they_are(tmp_path: Path) -> None:
    networks.shaped(tmp_path / "raw.onnx", RAW_640, dtype="uint8")
    assert load_model(write(tmp_path, "labels: [a, b, c]\n")).input.scale == 1
    (line,) = mistakes(write(tmp_path, "labels: [a, b, c]\ninput: {scale: 255}\n"))
    assert "uint8" in line


def test_a_fixed_batch_is_said(tmp_path: Path) -> None:
    card = load_model(networks.shaped(tmp_path / "m.onnx", RAW_640, (2, 3, 640, 640)))
    assert any("batch is fixed at 2" in warning for warning in card.warnings)


@pytest.mark.parametrize(
    ("shape", "said"), [((1, 3, 640), "no input takes a picture"), ((1, 5, 9, 9), "channels")]
)
def test_an_input_that_is_no_picture_is_refused(tmp_path: Path, shape: tuple[int, ...], said: str) -> None:
    assert said in refusal(networks.shaped(tmp_path / "m.onnx", RAW_640, shape))


def test_the_card_in_the_documentation_can_be_loaded_and_names_every_decoder(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    card = page.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "model.yaml").write_text(card, encoding="utf-8")
    networks.shaped(tmp_path / "model.onnx", {"output0": (1, 6, 8400)})
    assert load_model(tmp_path).labels == ("cap", "tear")
    assert all(f"`{decoder}`" in page for decoder in BUILT)
