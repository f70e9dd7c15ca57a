"""Which family a head of several outputs belongs to, what is usual for it, and what has to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_infer.errors import ConfigError, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.model.head import Head, Unclear
from edge_infer.model.heads import tell_head
from edge_infer.model.load import load_model
from edge_infer.model.told import Told
from edge_infer.tensor import TensorSpec
from tests.support import networks

SIZE = (640, 640)
Sides = tuple[int | None, ...]
Shapes = dict[str, Sides | tuple[Sides, str]]

YUNET: Shapes = {
    f"{kind}_{stride}": (1, (640 // stride) ** 2, columns)
    for kind, columns in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10))
    for stride in (8, 16, 32)
}
NANODET: Shapes = {
    f"{kind}_pred_stride_{stride}": (1, (640 // stride) ** 2, columns)
    for kind, columns in (("cls", 3), ("dis", 32))
    for stride in (8, 16, 32)
}
GRIDS: Shapes = {"a": (1, 3, 80, 80, 8), "b": (1, 3, 40, 40, 8), "c": (1, 3, 20, 20, 8)}
ANCHORS = ((10.0, 13, 16, 30, 33, 23), (30.0, 61, 62, 45, 59, 119), (116.0, 90, 156, 198, 373, 326))
EFFICIENT: Shapes = {
    "num_dets": ((1, 1), "int32"), "det_boxes": (1, 100, 4), "det_scores": (1, 100),
    "det_classes": ((1, 100), "int32"),
}  # fmt: skip
TF_NAMES = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
TF: Shapes = dict(zip(TF_NAMES, ((1, 100, 4), (1, 100), (1, 100), (1,)), strict=True))
UNNAMED: Shapes = {"x": ((1, 1), "int64"), "y": (1, 50, 4), "z": (1, 50), "w": ((1, 50), "int64")}
SSD: Shapes = {"detection_out": (1, 1, 200, 7)}
RFDETR: Shapes = {"dets": (1, 300, 4), "labels": (1, 300, 4)}
OWN_EXPORT: Shapes = {"labels": ((1, 300), "int64"), "boxes": (1, 300, 4), "scores": (1, 300)}


def outputs(shapes: Shapes) -> tuple[TensorSpec, ...]:
    specs = []
    for name, shape in shapes.items():
        sides, dtype = (shape[0], str(shape[1])) if isinstance(shape[0], tuple) else (shape, "float32")
        specs.append(TensorSpec(name, sides, dtype))
    return tuple(specs)


@pytest.mark.parametrize(
    ("shapes", "classes", "head"),
    [
        (EFFICIENT, None, Head("nms", None)),
        (dict(reversed(EFFICIENT.items())), 3, Head("nms", None)),
        (UNNAMED, 3, Head("nms", None)),
        ({"dets": (1, 100, 5), "labels": ((1, 100), "int64")}, 3, Head("nms", None)),
        ({"boxes": (None, 5), "labels": ((None,), "int64")}, 3, Head("nms", None)),
        ({"output": (None, 7)}, 3, Head("nms", None)),
        ({"boxes": (1, 8400, 4), "scores": (1, 3, 8400), "chosen": ((None, 3), "int64")}, 3, Head("nms", 3)),
        ({"detection_out": (1, 1, 200, 7)}, 3, Head("ssd", None, "first")),
        (TF, 3, Head("tf-detection", None, "first")),
        (TF | {"raw_detection_boxes": (1, 1917, 4)}, 3, Head("tf-detection", None, "first")),
        # TensorRT has the same names and whole numbers
        (TF | {"detection_classes": ((1, 100), "int32")}, 3, Head("nms", None)),
        ({"logits": (1, 100, 4), "pred_boxes": (1, 100, 4)}, 3, Head("detr", 4, "last")),
        ({"pred_boxes": (1, 300, 4), "logits": (1, 300, 4)}, 4, Head("rtdetr", 4)),
        ({"pred_logits": (1, 300, 80), "pred_boxes": (1, 300, 4)}, 80, Head("rtdetr", 80)),
        ({"dets": (1, 300, 4), "labels": (1, 300, 4)}, 3, Head("rfdetr", 4, "last")),
        ({"labels": (1, 300, 91), "dets": (1, 300, 4)}, None, Head("rfdetr", 91, "last")),
        (RFDETR | {"masks": (1, 300, 160, 160)}, 3, Head("rfdetr", 4, "last")),
        ({"output": (1, 8400, 4), "913": (1, 8400, 3)}, None, Head("yolo-nas", 3)),
        ({"913": (1, 8400, 3), "output": (1, 8400, 4)}, 3, Head("yolo-nas", 3)),
        ({"pred_scores": (1, 8400, 4), "pred_bboxes": (1, 8400, 4)}, 4, Head("yolo-nas", 4)),
        ({"scores": (1, 23500, 2), "boxes": (1, 23500, 4)}, None, Head("ultraface", 2, "first")),
        (YUNET, None, Head("yunet", 1)),
        (NANODET, None, Head("nanodet", 3)),
        ({"output": (1, 8500, 112)}, 80, Head("nanodet", 80)),
        ({"758": (1, 8, 40, 40)}, 3, Head("fastestdet", 3)),
        # decoded rows beside the grids that they were made of
        ({"output": (1, 25200, 8)} | GRIDS, 3, Head("yolov5", 3)),
    ],
)  # fmt: skip
def test_names_shapes_and_types_tell_the_family(shapes: Shapes, classes: int | None, head: Head) -> None:
    assert tell_head(outputs(shapes), SIZE, classes, Told()) == head


def test_labels_of_rtdetr_mean_its_own_export_where_it_asks_for_the_pictures_size() -> None:
    assert tell_head(outputs(OWN_EXPORT), SIZE, 3, Told(), inputs=("orig_target_sizes",)) == Head(
        "rtdetr", None
    )
    assert tell_head(outputs(OWN_EXPORT), SIZE, 3, Told()) == Head("nms", None)


@pytest.mark.parametrize(("columns", "classes"), [(6, None), (7, 3), (84, 80)])
def test_ultralytics_rtdetr_is_told_by_its_head(columns: int, classes: int | None) -> None:
    told = Told(exporter="Ultralytics", head="RTDETRDecoder", end2end=False)
    assert tell_head(outputs({"output0": (1, 300, columns)}), SIZE, 2, told) == Head("rtdetr", classes)


@pytest.mark.parametrize(
    ("shapes", "classes", "key", "fitting"),
    [
        # softmax with no-object, or sigmoid without
        ({"logits": (1, 100, 4), "pred_boxes": (1, 100, 4)}, None, "decoder", {"detr", "rtdetr"}),
        (GRIDS, 3, "anchors", {"yolov5-raw"}),
        # a grid, or a map of classes
        ({"758": (1, 8, 40, 40)}, None, "decoder", {"fastestdet"}),
        # four classes: either may be the boxes
        ({"output": (1, 8400, 4), "913": (1, 8400, 4)}, 4, "decoder", set()),
        ({"output": (1, 300, 7)}, 3, "decoder", {"rtdetr", "nms"}),
        # rows of a grid, if anybody knew how many
        ({"output": (1, None, 7)}, 3, "decoder", set()),
        ({"2861": (1, 100, 5), "2855": (1, 100, 4)}, 4, "decoder", {"detr", "rtdetr", "rfdetr"}),
    ],
)
def test_what_nobody_can_know_is_asked_for(
    shapes: Shapes, classes: int | None, key: str, fitting: set[str]
) -> None:
    unclear = tell_head(outputs(shapes), SIZE, classes, Told())
    assert isinstance(unclear, Unclear)
    assert (unclear.key, set(unclear.fitting)) == (key, fitting)


def test_anchors_of_the_card_settle_raw_grids() -> None:
    assert tell_head(outputs(GRIDS), SIZE, 3, Told(), anchors=ANCHORS) == Head("yolov5-raw", 3)
    turned = tell_head(outputs(GRIDS), SIZE, 3, Told(), anchors=ANCHORS[::-1])
    assert isinstance(turned, Unclear)
    assert "larger anchors before smaller" in turned.why


# the card as a whole


def _load(
    folder: Path, shapes: Shapes, text: str, picture: Sequence[int | str] = (1, 3, 640, 640)
) -> ModelCard:
    plain = {spec.name: tuple(side or "n" for side in spec.shape) for spec in outputs(shapes)}
    networks.shaped(folder / "m.onnx", plain, picture)
    (folder / "model.yaml").write_text(f"format: 1\nname: x\nnetwork: m.onnx\n{text}\n")
    return load_model(folder)


def test_what_is_usual_for_a_family_is_a_default_and_the_card_has_the_last_word(tmp_path: Path) -> None:
    card = _load(tmp_path, SSD, "labels: [a, b]")
    look = card.input
    assert (look.resize, look.color, look.scale, card.background) == ("stretch", "bgr", 1, "first")
    keys = ("input.resize", "input.color", "input.scale", "background")
    assert {card.origins[key] for key in keys} == {"default"}
    assert any("nothing says how pictures are fed" in warning for warning in card.warnings)

    card = _load(tmp_path, SSD, "labels: [a, b]\nbackground: none\ninput: {color: rgb, resize: letterbox}")
    assert (card.input.resize, card.input.color, card.background) == ("letterbox", "rgb", "none")
    assert not card.warnings


def test_mean_and_std_are_usual_only_for_the_usual_scale_and_follow_the_colour(tmp_path: Path) -> None:
    mean = (0.485, 0.456, 0.406)
    assert _load(tmp_path, RFDETR, "").input.mean == mean
    assert _load(tmp_path, RFDETR, "input: {color: bgr}").input.mean == mean[::-1]
    plain = _load(tmp_path, RFDETR, "input: {scale: 1}").input
    assert (plain.mean, plain.std) == ((0, 0, 0), (1, 1, 1))
    gray = _load(tmp_path, RFDETR, "", (1, 1, 640, 640)).input
    assert gray.mean == pytest.approx((sum(mean) / 3,))


def test_a_network_that_resizes_pictures_itself_needs_no_size(tmp_path: Path) -> None:
    card = _load(tmp_path, TF, "labels: [a, b]", (1, "h", "w", 3))
    assert (card.decoder, card.input.size, card.origins["input.size"]) == (
        "tf-detection",
        (640, 640),
        "default",
    )
    written = _load(tmp_path, TF, "labels: [a, b]\ninput: {size: [320, 480]}", (1, "h", "w", 3))
    assert written.input.size == (320, 480)
    with pytest.raises(ConfigError, match="has no fixed size"):
        _load(tmp_path, RFDETR, "labels: [a, b, c]", (1, 3, "h", "w"))


@pytest.mark.parametrize(
    ("decoder", "shapes", "classes"),
    [
        ("detr", {"2861": (1, 100, 5), "2855": (1, 100, 4)}, 4),
        ("rfdetr", {"2861": (1, 100, 5), "2855": (1, 100, 4)}, 4),
        ("rtdetr", {"2861": (1, 100, 5), "2855": (1, 100, 4)}, 5),
        # super-gradients writes the boxes first
        ("yolo-nas", {"output": (1, 8400, 4), "913": (1, 8400, 4)}, 4),
        ("nms", {"output0": (1, 300, 7)}, None),
        ("fastestdet", {"758": (1, 8, 40, 40)}, 3),
        ("nanodet", {"output": (1, 8500, 36)}, 4),
        ("yolov5-raw", {"x": (1, 24, 80, 80), "y": (1, 24, 40, 40), "z": (1, 24, 20, 20)}, 3),
    ],
)
def test_a_decoder_that_the_card_names_reads_what_names_do_not_tell(
    tmp_path: Path, decoder: str, shapes: Shapes, classes: int | None
) -> None:
    labels = ", ".join("abcdefgh"[: classes or 8])
    anchors = f"anchors: {[list(one) for one in ANCHORS]}" if decoder == "yolov5-raw" else ""
    card = _load(tmp_path, shapes, f"labels: [{labels}]\ndecoder: {decoder}\n{anchors}")
    assert (card.decoder, len(card.labels), card.origins["decoder"]) == (decoder, classes or 8, "card")


def test_bytes_are_never_normalised_whatever_is_usual(tmp_path: Path) -> None:
    networks.shaped(tmp_path / "m.onnx", {"dets": (1, 300, 4), "labels": (1, 300, 4)}, dtype="uint8")
    look = load_model(tmp_path / "m.onnx").input
    assert (look.scale, look.mean, look.std) == (1, (0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize(
    ("shapes", "text", "labels", "background"),
    [
        (SSD, "labels: [__background__, a, b]", ("a", "b"), "first"),
        (SSD, "labels: {1: a, 3: b}", ("class0", "a", "class2", "b"), "none"),
        (RFDETR, "labels: [a, b, c]", ("a", "b", "c"), "last"),
        (RFDETR, "labels: [a, b, c, background]", ("a", "b", "c"), "last"),
        (RFDETR, "labels: [a, b, c, d]\nbackground: none", ("a", "b", "c", "d"), "none"),
        (RFDETR, "", ("class0", "class1", "class2"), "last"),
        ({"output0": (1, 7, 8400)}, "labels: [background, a, b]", ("background", "a", "b"), "none"),
        ({"scores": (1, 23500, 2), "boxes": (1, 23500, 4)}, "", ("face",), "first"),
        ({"scores": (1, 23500, 2), "boxes": (1, 23500, 4)}, "labels: {1: head}", ("head",), "first"),
        ({"scores": (1, 23500, 2), "boxes": (1, 23500, 4)}, "labels: [BACKGROUND, face]", ("face",), "first"),
        (YUNET, "", ("face",), "none"),
    ],
)  # fmt: skip
def test_labels_leave_the_background_out(
    tmp_path: Path, shapes: Shapes, text: str, labels: tuple[str, ...], background: str
) -> None:
    card = _load(tmp_path, shapes, text)
    assert (card.labels, card.background) == (labels, background)


def test_labels_that_do_not_fit_beside_the_background_are_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="labels: 4 labels, but the network's head has 3 classes"):
        _load(tmp_path, RFDETR, "labels: [a, b, c, d]")


def test_rows_that_name_classes_by_number_need_labels(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="labels: nothing names the classes"):
        _load(tmp_path, SSD, "")
    with pytest.raises(ModelError, match=r"say `labels: \[\.\.\.\]` in a model.yaml"):
        load_model(tmp_path / "m.onnx")


def test_raw_grids_ask_for_anchors_by_that_key(tmp_path: Path) -> None:
    for text in ("labels: [a, b, c]", "labels: [a, b, c]\ndecoder: yolov5-raw"):
        with pytest.raises(ConfigError, match=r"anchors: .*raw anchor grids.*say `anchors: ") as refused:
            _load(tmp_path, GRIDS, text)
        assert len(str(refused.value).splitlines()) == 1
