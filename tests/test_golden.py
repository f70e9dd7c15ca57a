"""Golden pictures: written from the reference, and a model that answers otherwise never judges."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer.backends import BACKENDS
from edge_infer.errors import ConfigError, EdgeInferError, ModelError
from edge_infer.golden import Report, verify, write
from edge_infer.model.golden import EXACT, ROUGH, Comparison, Expectation, iou, mask_iou, run_lengths
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.picture import read
from edge_infer.registry import resolve
from tests.support import networks

CARD = """\
# judged on line 3
format: 1
name: colours   # red, green and blue squares
network: model.onnx
labels: [red, green, blue]
input: {color: rgb}
"""


@pytest.fixture
def model(shared: Path, tmp_path: Path) -> Path:
    """A network that tells colours, with one golden picture."""
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copyfile(shared / "cases/open/A43/model.onnx", folder / "model.onnx")
    (folder / "model.yaml").write_text(CARD + "decoder: yolo-end2end\n")
    return folder


@pytest.fixture
def picture(shared: Path) -> Path:
    return shared / "cases/open/A43/p_1280x720.png"


def report(model: Path, backend: str = "onnxruntime", **settings: Any) -> Report:
    network = Network.open(load_model(model), resolve(BACKENDS, backend)(type=backend, **settings))
    try:
        return verify(network)
    finally:
        network.close()


def test_copies_expectations_and_entries_are_written_and_the_cards_comments_stay(
    model: Path, picture: Path
) -> None:
    before = (model / "model.yaml").read_text()
    reference, (one,) = write(model, [picture])
    assert (reference.backend, reference.device, reference.precision) == ("onnxruntime", "CPU", "f32")
    assert one.found == 3
    assert (model / "golden/p_1280x720.png").read_bytes() == picture.read_bytes()
    expected = json.loads((model / "golden/p_1280x720.json").read_text())
    assert (expected["width"], expected["height"]) == (1280, 720)
    assert {each["label"] for each in expected["detections"]} == {"red", "green", "blue"}
    text = (model / "model.yaml").read_text()
    assert text == before + ("golden:\n  - {image: golden/p_1280x720.png, expect: golden/p_1280x720.json}\n")


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_the_same_network_and_card_pass_on_every_backend(model: Path, picture: Path, backend: str) -> None:
    write(model, [picture])
    told = report(model, backend)
    assert told.problems == ()
    assert told.tolerance == EXACT
    assert told.lowest_iou is not None
    assert told.lowest_iou >= 0.99
    assert told.largest_score_difference <= 1e-3
    assert "1 golden picture: largest score difference" in str(told)


def test_writing_again_renews_the_expectation_and_names_no_picture_twice(model: Path, picture: Path) -> None:
    write(model, [picture, picture])
    text = (model / "model.yaml").read_text()
    assert text.count("golden/p_1280x720.png") == 1
    (model / "golden/p_1280x720.json").write_text("{}")
    write(model, [model / "golden/p_1280x720.png"])
    assert (model / "model.yaml").read_text() == text
    assert report(model).problems == ()


def test_another_picture_of_the_same_name_never_replaces_a_golden_one(
    model: Path, picture: Path, tmp_path: Path
) -> None:
    other = tmp_path / picture.name
    cv2.imwrite(str(other), np.zeros((64, 64, 3), np.uint8))
    jpeg = tmp_path / f"{picture.stem}.jpg"
    cv2.imwrite(str(jpeg), np.zeros((64, 64, 3), np.uint8))
    write(model, [picture])
    _, (one, two) = write(model, [other, jpeg])
    assert (one.image.name, one.found) == ("p_1280x720-2.png", 0)
    assert (two.image.name, two.expect.name) == ("p_1280x720-3.jpg", "p_1280x720-3.json")
    assert (model / "golden/p_1280x720.png").read_bytes() == picture.read_bytes()
    assert report(model).pictures == 3
    assert report(model).problems == ()


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_a_changed_network_fails(model: Path, picture: Path, shared: Path, backend: str) -> None:
    write(model, [picture])
    shutil.copyfile(shared / "cases/open/A43/model_bgr.onnx", model / "model.onnx")
    told = report(model, backend)
    assert any("red" in problem for problem in told.problems)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_a_changed_colour_in_the_card_fails(model: Path, picture: Path, backend: str) -> None:
    write(model, [picture])
    card = model / "model.yaml"
    card.write_text(card.read_text().replace("color: rgb", "color: bgr"))
    assert report(model, backend).problems


def test_a_swapped_picture_fails_even_where_nothing_is_found_in_either(model: Path, tmp_path: Path) -> None:
    pictures = [tmp_path / "a.png", tmp_path / "b.png"]
    for grey, path in enumerate(pictures):
        cv2.imwrite(str(path), np.full((64, 64, 3), grey, np.uint8))
    write(model, pictures)
    a, b = model / "golden/a.png", model / "golden/b.png"
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    told = report(model)
    assert [problem.partition(":")[0] for problem in told.problems] == ["a.png", "b.png"]
    assert "is not the picture that a.json was made from" in told.problems[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: {**one, "score": one["score"] - 0.0015}, "has the score"),
        (lambda one: {**one, "box": [side + 3 for side in one["box"]]}, "lies elsewhere"),
        (lambda one: {**one, "label": "gray"}, "is missing"),
        (lambda one: {**one, "class_id": one["class_id"] + 1}, "is missing"),
        (lambda one: {**one, "keypoints": [[1, 2, 1]]}, "other parts"),
    ],
)
def test_every_difference_beyond_the_tolerance_is_told(
    model: Path, picture: Path, change: Any, said: str
) -> None:
    write(model, [picture])
    file = model / "golden/p_1280x720.json"
    expected = json.loads(file.read_text())
    expected["detections"][0] = change(expected["detections"][0])
    file.write_text(json.dumps(expected))
    assert any(said in problem for problem in report(model).problems)


def test_one_object_more_or_less_fails(model: Path, picture: Path) -> None:
    write(model, [picture])
    file = model / "golden/p_1280x720.json"
    expected = json.loads(file.read_text())
    (first, *rest) = expected["detections"]
    file.write_text(json.dumps({**expected, "detections": rest}))
    assert "was found and is not expected" in report(model).problems[0]
    faint = {**first, "score": 0.2505, "box": [600, 600, 700, 700]}
    file.write_text(json.dumps({**expected, "detections": [*expected["detections"], faint]}))
    # so near to the threshold that one runtime finds it and the other does not
    assert report(model).problems == ()
    file.write_text(
        json.dumps({**expected, "detections": [*expected["detections"], {**faint, "score": 0.3}]})
    )
    assert "is missing" in report(model).problems[0]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 2}', b"\xff\xfe", b'{"format": 1}'])
def test_a_damaged_expectation_fails_and_is_named(model: Path, picture: Path, damage: bytes) -> None:
    write(model, [picture])
    (model / "golden/p_1280x720.json").write_bytes(damage)
    (problem,) = report(model).problems
    assert "p_1280x720.json is no golden expectation" in problem


def test_a_damaged_picture_fails(model: Path, picture: Path) -> None:
    write(model, [picture])
    golden = model / "golden/p_1280x720.png"
    golden.write_bytes(golden.read_bytes()[:-20])
    assert "p_1280x720.png" in report(model).problems[0]


def test_nothing_is_written_where_one_picture_cannot_be_used(
    model: Path, picture: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    before = (model / "model.yaml").read_bytes()
    with pytest.raises(EdgeInferError, match=r"bad\.png"):
        write(model, [picture, bad])
    assert (model / "model.yaml").read_bytes() == before
    assert not (model / "golden").exists()


def test_an_answer_of_nan_is_no_expectation(model: Path, picture: Path, shared: Path) -> None:
    shutil.copyfile(shared / "cases/open/A42/model_allnan.onnx", model / "model.onnx")
    (model / "model.yaml").write_text(CARD)
    with pytest.raises(ModelError, match="not finite"):
        write(model, [picture])
    assert not (model / "golden").exists()


def test_a_bare_network_has_no_card_to_write_into(model: Path, picture: Path) -> None:
    with pytest.raises(ConfigError, match=r"write a model\.yaml"):
        write(model / "model.onnx", [picture])


def test_a_card_that_cannot_be_continued_stays_as_it_is_and_the_line_to_write_is_told(
    model: Path, picture: Path
) -> None:
    card = model / "model.yaml"
    card.write_text(card.read_text() + "golden: &g []\n")
    before = card.read_bytes()
    with pytest.raises(ConfigError, match=r"golden: \[\{image: golden/p_1280x720\.png, expect: "):
        write(model, [picture])
    assert card.read_bytes() == before
    assert not (model / "golden").exists()


def test_the_cards_mode_stays(model: Path, picture: Path) -> None:
    (model / "model.yaml").chmod(0o640)
    write(model, [picture])
    assert (model / "model.yaml").stat().st_mode & 0o777 == 0o640
    assert not list(model.glob("**/*.part"))


def test_an_ir_is_its_own_reference_in_float32(model: Path, picture: Path) -> None:
    networks.as_ir(model / "model.onnx")
    card = model / "model.yaml"
    card.write_text(card.read_text().replace("model.onnx", "model.xml"))
    reference, _ = write(model, [picture])
    assert (reference.backend, reference.precision) == ("openvino", "f32")
    assert report(model, "openvino").problems == ()


def test_fewer_bits_are_judged_by_a_wider_tolerance_that_is_told(model: Path, picture: Path) -> None:
    write(model, [picture])
    told = report(model, "openvino", precision="bf16")
    assert told.tolerance == ROUGH
    assert "at most 0.05" in str(told)


def test_a_threshold_that_hides_what_was_found_fails(model: Path, picture: Path) -> None:
    write(model, [picture])
    network = Network.open(replace(load_model(model), score_threshold=0.99), resolve(BACKENDS, "openvino")())
    assert any("score_threshold" in problem for problem in verify(network).problems)
    network.close()


def test_another_threshold_in_the_card_wants_the_expectation_again(model: Path, picture: Path) -> None:
    write(model, [picture])
    (model / "model.yaml").write_text((model / "model.yaml").read_text() + "score_threshold: 0.1\n")
    (problem,) = report(model).problems
    assert "score_threshold 0.25, the card says 0.1" in problem


def test_rows_that_are_not_finite_fail_beside_the_right_ones(model: Path, picture: Path) -> None:
    write(model, [picture])
    expected = Expectation.read(model / "golden/p_1280x720.json")
    network = Network.open(load_model(model), resolve(BACKENDS, "onnxruntime")(type="onnxruntime"))
    found = network.infer(read(picture).pixels).findings
    comparison = Comparison(EXACT)
    comparison.add("p", expected, replace(found, nan_rows=3))
    network.close()
    assert comparison.problems == ["p: 3 rows of the network's output are not finite"]


def test_masks_are_kept_as_run_lengths_and_compared_by_their_pixels() -> None:
    masks: Iterator[Any] = iter(np.random.default_rng(1).random((4, 7, 9)) > 0.6)
    for mask in (*masks, np.zeros((7, 9), bool), np.ones((7, 9), bool)):
        runs = run_lengths(mask)
        assert sum(runs) == mask.size
        assert sum(runs[1::2]) == mask.sum()
        assert mask_iou(runs, runs) == 1
    one, other = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    one[:2], other[1:3] = True, True
    assert mask_iou(run_lengths(one), run_lengths(other)) == pytest.approx(1 / 3)
    assert mask_iou([10**15], [16]) == 0
    assert mask_iou([-5, 21], [16]) == 0


def test_iou_of_boxes() -> None:
    assert iou((0, 0, 2, 2), (0, 0, 2, 2)) == 1
    assert iou((0, 0, 2, 2), (1, 0, 3, 2)) == pytest.approx(1 / 3)
    assert iou((0, 0, 1, 1), (2, 2, 3, 3)) == 0
    assert iou((1, 1, 1, 1), (1, 1, 1, 1)) == 1


def test_an_expectation_is_read_as_it_was_written(model: Path, picture: Path) -> None:
    _, (one,) = write(model, [picture])
    expected = Expectation.read(one.expect)
    assert Expectation.model_validate_json(expected.text()) == expected


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("case", ["A08", "A10", "A12", "A14", "A37", "A39"])
def test_corners_masks_key_points_and_anomalies_are_held_too(
    shared: Path, tmp_path: Path, case: str, backend: str
) -> None:
    folder = shared / "cases/open" / case
    for name in ("model.onnx", "metadata.json"):
        if (folder / name).exists():
            shutil.copyfile(folder / name, tmp_path / name)
    expected = json.loads((folder / "expected.json").read_text())
    labels = f"labels: [{', '.join(expected['labels'])}]\n" if expected.get("labels") else ""
    (tmp_path / "model.yaml").write_text(f"format: 1\nname: x\nnetwork: model.onnx\n{labels}")
    _, written = write(tmp_path, [folder / image["file"] for image in expected["images"][:2]])
    assert all(one.found for one in written if "empty" not in one.image.name)
    assert report(tmp_path, backend).problems == ()

    # whatever number is changed far enough, in whatever part, it is noticed
    file = next(one.expect for one in written if one.found)
    whole = json.loads(file.read_text())
    for kind in {"detections", "classes", "anomaly"} & whole.keys():
        entry = whole[kind][0] if isinstance(whole[kind], list) else whole[kind]
        for key, value in entry.items():
            if key in ("label", "class_id", "angle", "is_anomalous"):
                continue
            entry[key] = changed(value)
            file.write_text(json.dumps(whole))
            assert report(tmp_path, backend).problems, f"{kind}.{key}"
            entry[key] = value


def changed(value: Any) -> Any:
    if isinstance(value, float):
        return value - 0.01
    if value and isinstance(value[0], list):
        return [[part + 30 for part in value[0]], *value[1:]]
    if isinstance(value[0], int):
        return [value[0] + 5000, value[1], value[2] - 5000, *value[3:]]
    return [part + 30 for part in value]
