"""Which decoder a head needs."""

from __future__ import annotations

import pytest

from edge_infer.decoders import DECODERS
from edge_infer.model.head import Head, Unclear, grid_cells
from edge_infer.model.heads import BUILT, classes_of, tell_head
from edge_infer.model.told import Told
from edge_infer.tensor import TensorSpec

SILENT = Told()
RAW = Told(exporter="Ultralytics", labels=("a", "b"), end2end=False)


def outputs(*shapes: tuple[int | None, ...]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(f"output{i}", shape, "float32") for i, shape in enumerate(shapes))


@pytest.mark.parametrize(
    ("shape", "size", "classes", "told", "decoder"),
    [
        # channels first, a column a grid cell: no other head is written like that
        ((1, 7, 8400), (640, 640), None, SILENT, "yolov8"),
        ((1, 6, 8400), (640, 640), 2, SILENT, "yolov8"),
        ((1, 6, 8400), (640, 640), None, SILENT, "yolov8"),
        ((1, 84, 33600), (1280, 1280), None, SILENT, "yolov8"),
        ((1, 84, 34000), (640, 640), None, SILENT, "yolov8"),
        ((1, 84, 6300), (480, 640), None, SILENT, "yolov8"),
        ((None, 6, None), (640, 640), 2, RAW, "yolov8"),
        # rows first, as some converters turn it
        ((1, 8400, 7), (640, 640), 3, SILENT, "yolov8"),
        # three anchors a cell
        ((1, 25200, 85), (640, 640), None, SILENT, "yolov5"),
        ((1, 25200, 6), (640, 640), None, SILENT, "yolov5"),
        ((1, 25200, 6), (640, 640), 1, SILENT, "yolov5"),
        ((1, 6300, 8), (320, 320), 3, SILENT, "yolov5"),
        # final rows
        ((1, 300, 6), (640, 640), 3, SILENT, "yolo-end2end"),
        ((1, 300, 6), (640, 640), 2, Told(end2end=True), "yolo-end2end"),
        ((1, 300, 6), (640, 640), 2, Told(end2end=False, nms_inside=True), "yolo-end2end"),
        ((1, 100, 6), (640, 640), 80, Told(exporter="Ultralytics", end2end=True), "yolo-end2end"),
        # not built yet, and never taken for final rows
        ((1, 300, 84), (640, 640), 80, SILENT, "rtdetr"),
        ((1, 300, 6), (640, 640), 2, Told(head="RTDETRDecoder", end2end=False), "rtdetr"),
    ],
)
def test_shapes_grids_labels_and_metadata_tell_the_head(
    shape: tuple[int | None, ...], size: tuple[int, int], classes: int | None, told: Told, decoder: str
) -> None:
    head = tell_head(outputs(shape), size, classes, told)
    assert isinstance(head, Head)
    assert head.decoder == decoder


@pytest.mark.parametrize(
    ("shape", "size", "classes", "fitting"),
    [
        # both YOLOX exports have one row a cell
        ((1, 3549, 85), (416, 416), 80, {"yolox", "yolox-raw"}),
        # one class and objectness, or two classes without
        ((1, 8400, 6), (640, 640), None, {"yolov8", "yolox", "yolox-raw"}),
        # final rows, or box and two class scores of RT-DETR
        ((1, 300, 6), (640, 640), 2, {"yolo-end2end", "rtdetr"}),
        ((1, 300, 6), (640, 640), None, {"yolo-end2end", "rtdetr"}),
    ],
)
def test_what_several_decoders_can_read_is_asked_for_and_not_guessed(
    shape: tuple[int | None, ...], size: tuple[int, int], classes: int | None, fitting: set[str]
) -> None:
    unclear = tell_head(outputs(shape), size, classes, SILENT)
    assert isinstance(unclear, Unclear)
    assert set(unclear.fitting) == fitting


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 3, 40, 40, 8), (1, 3, 20, 20, 8), (1, 3, 10, 10, 8)),
        ((1, 100, 4), (1, 100, 5)),
        ((1, 2, 200, 7),),
        ((1, 1000),),
        ((None, None, None),),
        ((1, 7, 1234),),
        (),
    ],
)
def test_shapes_of_no_known_head_are_unclear(shapes: tuple[tuple[int | None, ...], ...]) -> None:
    assert isinstance(tell_head(outputs(*shapes), (640, 640), 3, SILENT), Unclear)


def test_anchor_grids_are_named() -> None:
    unclear = tell_head(outputs((1, 3, 40, 40, 8), (1, 3, 20, 20, 8)), (320, 320), 3, SILENT)
    assert isinstance(unclear, Unclear)
    assert "raw anchor grids" in unclear.why


def test_labels_that_fit_nothing_leave_the_head_that_the_shapes_tell() -> None:
    # five labels could be four box values and objectness: the layout must not change with them
    assert tell_head(outputs((1, 7, 8400)), (640, 640), 5, SILENT) == Head("yolov8", 3)
    assert tell_head(outputs((1, 7, 8400)), (640, 640), 2, SILENT) == Head("yolov8", 3)


@pytest.mark.parametrize(
    ("decoder", "shape", "classes"),
    [
        ("yolov8", (1, 7, 8400), 3), ("yolov8", (1, 8400, 7), 3), ("yolov8", (1, None, None), None),
        ("yolov5", (1, 25200, 85), 80), ("yolox", (1, 8400, 6), 1), ("yolox-raw", (1, 8400, 85), 80),
        ("yolo-end2end", (1, 300, 6), None),
    ],
)  # fmt: skip
def test_a_decoder_that_the_card_names_tells_the_number_of_classes(
    decoder: str, shape: tuple[int | None, ...], classes: int | None
) -> None:
    assert classes_of(decoder, outputs(shape), (640, 640)) == classes


@pytest.mark.parametrize(
    ("decoder", "shapes"),
    [
        ("yolo-end2end", ((1, 7, 8400),)), ("yolov8", ((1, 4, 8400),)), ("yolox", ((1, 8400, 5),)),
        ("yolov5", ((1, 3, 40, 40, 8),)), ("yolov8", ((1, 7, 8400), (1, 32, 160, 160))),
    ],
)  # fmt: skip
def test_a_decoder_that_cannot_read_the_outputs_is_refused(
    decoder: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert isinstance(classes_of(decoder, outputs(*shapes), (640, 640)), Unclear)


def test_cells_are_counted_for_sizes_that_are_not_square() -> None:
    assert 8400 in grid_cells((640, 640))
    assert 3549 in grid_cells((416, 416))
    assert 60 * 80 + 30 * 40 + 15 * 20 in grid_cells((480, 640))


def test_every_head_that_is_told_has_a_decoder() -> None:
    assert set(BUILT) == set(DECODERS)
