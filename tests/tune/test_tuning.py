"""From a model and frames to the tuned folder, with the real runtimes and quantisers."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edge_infer.backends import BACKENDS
from edge_infer.errors import EdgeInferError
from edge_infer.golden import verify, write
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.quantize import SUFFIX, QuantizeError
from edge_infer.registry import resolve
from edge_infer.tune import tuning
from edge_infer.tune.agreement import Limits
from edge_infer.tune.calibration import write_tensors
from edge_infer.tune.choice import choose
from edge_infer.tune.energy import Meter
from edge_infer.tune.frames import Place, pictures
from edge_infer.tune.tuning import Outcome, Wishes, tune
from tests.support import networks
from tests.support.filesystems import SmallDisk
from tests.support.line_frames import write_line

BOTTLES = Path(__file__).parents[2] / "models/bottles"
QUICK = Wishes(seconds=0.05, rounds=1, devices={"onnxruntime": ("CPU",)}, calibration=8)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_line(tmp_path_factory.mktemp("line"), 42)


@pytest.fixture
def bottles(tmp_path: Path) -> Path:
    """The bundled model with a licence."""
    folder = tmp_path / "bottles"
    folder.mkdir()
    for name in ("model.onnx", "model.yaml"):
        shutil.copyfile(BOTTLES / name, folder / name)
    (folder / "LICENSE").write_text("Apache License\n", encoding="utf-8")
    return folder


def run(model: Path, data: Path, wishes: Wishes, **more: Any) -> Outcome:
    arguments: dict[str, Any] = {
        "meter": Meter(Path("/nothing")), "tell": lambda *_: None, "report": lambda *_: None,
    } | more  # fmt: skip
    return tune(model, data, model.with_name("tuned"), wishes, **arguments)


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def quantised_as(network: Path) -> Callable[..., Path]:
    """A quantiser that gives this network."""

    def quantise(method: str, _: Path, out: Path, **__: object) -> Path:
        assert out.suffix == SUFFIX[method] == network.suffix
        shutil.copyfile(network, out)
        return out

    return quantise


def blind(folder: Path) -> Path:
    """The bundled model's shape of answer, fast and always the same: nothing is there."""
    file = networks.rows(
        folder / "blind.onnx", np.zeros((1, 10, 1500), np.float32), (1, 3, 240, 320), name="output0"
    )
    network = onnx.load(file)
    network.graph.input[0].name = "images"
    for node in network.graph.node:
        node.input[:] = ["images" if name == "picture" else name for name in node.input]
    onnx.save(network, file)
    return file


def test_a_candidate_that_is_fast_but_wrong_is_never_chosen(
    bottles: Path, line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "quantise", quantised_as(blind(tmp_path)))
    outcome = run(bottles, line, QUICK)
    (wrong,) = (one for one in outcome.judged if one.variant.precision == "INT8")
    assert "loses 100.00% of the sure findings" in str(wrong.rejected)
    # by the clock a busy machine may hold up either
    cpu_ms = {one.candidate.variant.precision: one.speed.cpu_ms for one in outcome.tried if one.speed}
    assert 2 * cpu_ms["INT8"] < cpu_ms["FP32"]
    assert outcome.chosen is not None
    assert outcome.chosen.candidate.variant.precision == "FP32"
    assert load_model(bottles.with_name("tuned")).sha256 == load_model(bottles).sha256


def test_the_limit_is_what_is_said(
    bottles: Path, line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "quantise", quantised_as(blind(tmp_path)))
    # who says that all may be lost gets the fastest
    outcome = run(bottles, line, replace(QUICK, limits=Limits(lost=1.0, score=1.0, iou=0.0)))
    assert outcome.chosen is not None
    assert outcome.chosen.candidate.variant.precision == "INT8"


def test_the_original_is_only_read(
    bottles: Path, line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "quantise", quantised_as(blind(tmp_path)))
    before = hashes(bottles), hashes(line)
    for path in (bottles, *bottles.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    run(bottles, line, QUICK)
    assert (hashes(bottles), hashes(line)) == before


def test_a_model_that_fails_its_own_golden_pictures_is_not_tuned(bottles: Path, line: Path) -> None:
    write(bottles, [line / "1.png"])
    card = bottles / "model.yaml"
    card.write_text(card.read_text(encoding="utf-8").replace("color: rgb", "color: bgr"), encoding="utf-8")
    # made anew with the tuned network they would pass, whatever it finds
    with pytest.raises(EdgeInferError, match=r"its golden pictures do not pass: 1\.png: "):
        run(bottles, line, QUICK)
    assert sorted(path.name for path in bottles.parent.iterdir()) == ["bottles"]


def test_golden_pictures_must_be_answered_alike(
    bottles: Path, line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bottles, [line / "3.png"])
    monkeypatch.setattr(tuning, "quantise", quantised_as(blind(tmp_path)))
    # held-out frames are forgiven everything here, golden pictures nothing
    outcome = run(bottles, line, replace(QUICK, limits=Limits(lost=1.0, score=1.0, iou=0.0)))
    (wrong,) = (one for one in outcome.judged if one.variant.precision == "INT8")
    assert "answers the golden pictures otherwise" in str(wrong.rejected)
    assert outcome.frames.repeated == 1
    tuned = load_model(bottles.with_name("tuned"))
    assert len(tuned.golden) == 1
    assert "taken over" in outcome.golden.said


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(
    bottles: Path, line: Path, small_disk: SmallDisk
) -> None:
    # smaller than the tensors of 8 frames; a page of a mapped file that finds no room ends the process
    disk = small_disk("4m")
    with pytest.raises(EdgeInferError, match="No space left on device; name a folder"):
        tune(
            bottles, line, disk.path / "tuned", QUICK, meter=Meter(Path("/nothing")), tell=lambda *_: None,
            report=lambda *_: None,
        )  # fmt: skip
    assert [path.name for path in disk.path.iterdir() if "tuned" in path.name] == []


def test_frames_that_were_calibrated_with_do_not_judge(
    bottles: Path, line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Place] = []
    calibrated: list[Place] = []

    def told(places: list[Place]) -> Any:
        judged.extend(places)
        return pictures(places)

    written = write_tensors

    def tensors(card: Any, places: list[Place], path: Path) -> Any:
        calibrated.extend(places)
        return written(card, places, path)

    monkeypatch.setattr(tuning, "pictures", told)
    monkeypatch.setattr(tuning, "write_tensors", tensors)
    monkeypatch.setattr(tuning, "quantise", quantised_as(blind(tmp_path)))
    run(bottles, line, QUICK)
    assert calibrated
    assert judged
    assert not {place.digest for place in calibrated} & {place.digest for place in judged}


def test_a_network_that_cannot_be_quantised_is_a_rejected_candidate(
    bottles: Path, line: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quantise(*_: object, **__: object) -> Path:
        raise QuantizeError("onnxruntime-qdq cannot quantise it: it holds a Loop")

    monkeypatch.setattr(tuning, "quantise", quantise)
    outcome = run(bottles, line, QUICK)
    (rejected,) = (one for one in outcome.judged if one.variant.precision == "INT8")
    assert rejected.rejected == "onnxruntime-qdq cannot quantise it: it holds a Loop"
    assert outcome.chosen is not None
    assert outcome.chosen.candidate.variant.exact


def test_without_the_extra_fp32_is_still_tried(
    bottles: Path, line: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_infer.quantize.find_spec", lambda _: None)
    outcome = run(bottles, line, replace(QUICK, devices={"openvino": ("CPU",)}))
    assert {one.variant.precision for one in outcome.judged} == {"FP32"}
    assert outcome.skipped == [
        "INT8 by nncf and nncf-dense is not tried: nncf is not installed; pip install 'edge-infer[quantize]'"
    ]


def test_nothing_that_may_be_chosen_is_an_error_and_leaves_nothing(
    bottles: Path, line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "quantise", quantised_as(blind(tmp_path)))
    monkeypatch.setattr(tuning, "why_not", lambda *_, **__: "loses all")
    with pytest.raises(EdgeInferError, match="nothing may be chosen: loses all"):
        run(bottles, line, QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blind.onnx", "bottles"]


@pytest.mark.parametrize(
    ("backend", "method"), [("onnxruntime", "onnxruntime-qdq"), ("openvino", "nncf-dense")]
)
def test_the_tuned_int8_folder_is_a_model_of_its_own(
    backend: str, method: str, bottles: Path, line: Path
) -> None:
    write(bottles, [line / "3.png"])
    # whatever is fastest on this machine and however little it was calibrated: INT8 is wanted here
    only = replace(QUICK, calibration=20, devices={backend: ("CPU",)})
    chosen = choose

    def int8(tried: Any, aim: Any) -> Any:
        return chosen([one for one in tried if one.candidate.variant.precision == "INT8"], aim)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "choose", int8)
        patch.setattr(tuning, "why_not", lambda *_, **__: None)
        patch.setattr(tuning, "_RUNS", {backend: (method,)})
        outcome = run(bottles, line, only)
    tuned = bottles.with_name("tuned")
    shutil.rmtree(bottles)
    card = load_model(tuned)
    assert (card.name, card.version) == ("bottles", "1-int8")
    assert card.labels[0] == "bottle"
    assert card.license == "Apache-2.0"
    assert card.network.suffix == SUFFIX[method]
    assert (tuned / "LICENSE").is_file()
    assert "made anew" in outcome.golden.said
    assert outcome.chosen is not None
    told = outcome.chosen.candidate.yaml(outcome.chosen.requests)
    network = Network.open(card, resolve(BACKENDS, told["type"]).model_validate(told))
    try:
        assert verify(network).problems == ()
        assert network.requests == told["requests"]
    finally:
        network.close()
