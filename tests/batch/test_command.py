"""``edge-infer batch``: every picture and frame, once, in order."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import pyarrow.parquet as pq
import pytest

from edge_infer import golden
from edge_infer.sources import _recording as recording
from tests.support.batches import clip, lines, picture

Run = Callable[..., tuple[int, str]]


# -- what is written


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_lines_are_the_objects_of_infer_with_no_times_and_with_frame(
    *, tmp_path: Path, yolox: Path, shared: Path, bottles: Path, command: Any, run: Run, backend: str
) -> None:
    video = clip(bottles, tmp_path / "clip.mp4", 8)
    stills = []
    for at, shot in enumerate(recording.video(video)):
        stills.append(tmp_path / f"{at}.png")
        cv2.imwrite(str(stills[-1]), shot.pixels)
    photos = sorted((shared / "assets/photos").glob("*.jpg"))
    out = tmp_path / "o.jsonl"
    code, _ = run(
        yolox, shared / "assets/photos", video, tmp_path / "none.png", "--out", out, "--backend", backend
    )
    told = lines(out)
    _, printed, _ = command(
        "infer", yolox, *photos, *stills, tmp_path / "none.png", "--json", "--backend", backend
    )
    wanted = [json.loads(line) for line in printed.splitlines()]
    assert code == 1
    assert len(told) == len(wanted) == len(photos) + len(stills) + 1
    assert sum(len(one.get("detections", ())) for one in told) > 10
    for line, answer in zip(told, wanted, strict=True):
        keys = [key for key in answer if key != "timing_ms"]
        if line["image"] == str(video):
            assert line["frame"] == stills.index(Path(answer["image"]))
            keys.insert(1, "frame")
            answer["image"] = str(video)
        assert list(line) == keys
        assert close_to(line.pop("detections", []), answer.pop("detections", []))
        line.pop("frame", None)
        answer.pop("timing_ms", None)
        assert line == answer


def test_a_model_that_fails_its_golden_pictures_judges_nothing(yolox: Path, shared: Path, run: Run) -> None:
    photos = shared / "assets/photos"
    golden.write(yolox, [photos / "pets.jpg"])
    out = yolox / "o.jsonl"
    assert run(yolox, photos, "--out", out)[0] == 0
    card = yolox / "model.yaml"
    card.write_text(
        card.read_text(encoding="utf-8")
        .replace("scale: 1,", "scale: 200,")
        .replace("scale: 1}", "scale: 200}"),
        encoding="utf-8",
    )
    code, said = run(yolox, photos, "--out", yolox / "other.jsonl")
    assert code == 1
    assert "its golden pictures do not pass: pets.jpg: " in said
    assert not (yolox / "other.jsonl").exists()


def test_no_picture_waits_for_a_core_that_the_runtime_holds(
    model: Path, parts: Path, tmp_path: Path, run: Run
) -> None:
    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    try:
        assert run(model, parts, "--out", tmp_path / "o.jsonl")[0] == 0
        # OpenCV would share each resize among threads of its own, beside those that judge
        assert cv2.getNumThreads() == 1
    finally:
        cv2.setNumThreads(before)


def test_a_device_that_is_not_there_leaves_nothing(
    model: Path, parts: Path, tmp_path: Path, run: Run
) -> None:
    code, told = run(model, parts, "--out", tmp_path / "o.jsonl", "--device", "Abacus")
    assert code == 1
    assert "no device Abacus" in told
    assert not list(tmp_path.glob("o.jsonl*"))


def test_a_device_that_is_not_there_costs_nothing_of_what_was_judged(
    model: Path, parts: Path, tmp_path: Path, run: Run
) -> None:
    folder = tmp_path / "o.jsonl.part"
    folder.mkdir()
    (folder / "journal.jsonl").write_bytes(b"whatever it says")
    assert run(model, parts, "--out", tmp_path / "o.jsonl", "--device", "Abacus")[0] == 1
    assert (folder / "journal.jsonl").read_bytes() == b"whatever it says"


def close_to(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Streams sum in another order than one request alone: the last digits may differ."""
    assert [one["label"] for one in found] == [one["label"] for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert list(one) == list(other)
        assert one["score"] == pytest.approx(other["score"], abs=2e-5)
        assert one["box"] == pytest.approx(other["box"], abs=0.02)
    return True


def test_every_input_is_there_once_in_order_whatever_kind_it_is(
    tmp_path: Path, model: Path, parts: Path, bottles: Path, run: Run
) -> None:
    video = clip(bottles, tmp_path / "clip.mp4", 30)
    (tmp_path / "list.txt").write_text(f"{parts / '3.png'}\n{parts / '1.png'}\n")
    (parts / "2.png").write_bytes(b"damaged")
    out = tmp_path / "o.jsonl"
    code, error = run(model, parts, video, f"@{tmp_path}/list.txt", f"{parts}/1*.png", "--out", out)
    told = lines(out)
    stills = [*range(12), 3, 1, 1, 10, 11]
    wanted: list[tuple[str, int | None]] = [(str(parts / f"{at}.png"), None) for at in stills]
    wanted[12:12] = [(str(video), at) for at in range(30)]
    assert [(line["image"], line.get("frame")) for line in told] == wanted
    assert [at for at, line in enumerate(told) if "error" in line] == [2]
    assert list(told[2]) == ["image", "error"]
    # each answer is of its own picture
    assert told[5]["detections"][0]["box"] == [35, 25, 47, 35]
    assert [line["detections"] for line in told[-3:]] == [told[at]["detections"] for at in (1, 10, 11)]
    assert (code, f"{out}: 47 lines, 1 of them errors" in error) == (1, True)


def test_a_video_that_breaks_in_the_middle_is_its_frames_and_one_error_and_the_others_go_on(
    tmp_path: Path, model: Path, parts: Path, bottles: Path, run: Run
) -> None:
    broken = tmp_path / "hole.mp4"
    data = bytearray(bottles.read_bytes())
    data[15_000:18_000] = bytes(3000)
    broken.write_bytes(data)
    out = tmp_path / "o.jsonl"
    assert run(model, broken, parts / "1.png", "--out", out)[0] == 1
    *frames, error, last = lines(out)
    assert [line["frame"] for line in frames] == list(range(len(frames)))
    assert list(error) == ["image", "frame", "error"]
    assert error["frame"] == len(frames) > 5
    assert "detections" in last


def test_a_frame_that_the_decoder_could_not_make_whole_is_undefined_and_never_judged(
    tmp_path: Path, model: Path, bottles: Path, run: Run
) -> None:
    damaged = clip(bottles, tmp_path / "hole.ts", 120)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    damaged.write_bytes(data)
    wanted = [shot.damaged for shot in recording.video(damaged)]
    out = tmp_path / "o.jsonl"
    run(model, damaged, "--out", out)
    told = [line for line in lines(out) if "error" not in line]
    assert len(told) == len(wanted)
    assert 0 < sum(reason is not None for reason in wanted) < len(wanted)
    for line, reason in zip(told, wanted, strict=True):
        assert ("detections" in line) == (reason is None)
        assert line.get("undefined", []) == ([] if reason is None else ["damaged"])
        assert line["warnings"] == ([] if reason is None else [reason])


def test_names_that_are_no_text_and_names_with_line_feeds_are_lines_like_others(
    tmp_path: Path, model: Path, run: Run
) -> None:
    folder = tmp_path / "odd"
    names = [b"f\xfcll.png", b"two\nlines.png", b'a\tb"c.png']
    plain = picture(folder / "p.png", 1)
    for name in names:
        os.link(plain, os.fsencode(folder) + b"/" + name)
    plain.unlink()
    out = tmp_path / "o.jsonl"
    assert run(model, folder, "--out", out)[0] == 0
    told = lines(out)
    assert {os.fsencode(line["image"]).rpartition(b"/")[2] for line in told} == set(names)
    assert out.read_bytes().count(b"\n") == len(names)
    assert run(model, folder, "--out", tmp_path / "o.parquet")[0] == 0
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert {row["image_bytes"] or row["image"].encode() for row in rows} == {
        os.fsencode(line["image"]) for line in told
    }


def test_parquet_holds_the_same_as_the_lines(tmp_path: Path, model: Path, parts: Path, run: Run) -> None:
    for suffix in ("jsonl", "parquet"):
        assert run(model, parts, tmp_path / "none.png", "--out", tmp_path / f"o.{suffix}")[0] == 1
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    for row, line in zip(rows, lines(tmp_path / "o.jsonl"), strict=True):
        assert {key: row[key] for key in line if key != "detections"} == {
            key: line[key] for key in line if key != "detections"
        }
        found = [
            {key: one[key] for key in ("label", "class_id", "score", "box")}
            for one in row["detections"] or ()
        ]
        assert found == line.get("detections", [])
    assert sorted(path.name for path in tmp_path.glob("o.*")) == ["o.jsonl", "o.parquet"]


def test_an_output_among_its_inputs_is_not_swallowed(model: Path, parts: Path, run: Run) -> None:
    out = parts / "o.jsonl"
    assert run(model, parts, "--out", out)[0] == 0
    whole = out.read_bytes()
    assert len(lines(out)) == 12
    # the shell names everything that is there by now
    given = sorted(parts.iterdir())
    assert out in given
    assert run(model, *given, "--out", out, "--restart")[0] == 0
    assert sorted(line["image"] for line in lines(out)) == sorted(
        json.loads(x)["image"] for x in whole.splitlines()
    )
    code, error = run(model, out, "--out", out, "--restart")
    assert (code, "no input is left but the output itself" in error) == (1, True)


# -- what is refused


def test_other_suffixes_and_no_inputs_are_usage(tmp_path: Path, model: Path, parts: Path, run: Run) -> None:
    for name in ("o.csv", "o", "o.json"):
        code, error = run(model, parts, "--out", tmp_path / name)
        assert (code, ".jsonl or .parquet" in error) == (2, True)
    assert run(model, "--out", tmp_path / "o.jsonl")[0] == 2
    assert run(model, parts)[0] == 2
    code, error = run(model, parts, "--out", tmp_path / "o.jsonl", "--device", "")
    assert (code, "--device is empty" in error) == (2, True)
    assert not list(tmp_path.glob("o*"))


def test_a_network_that_cannot_be_used_and_a_wrong_card_are_what_they_are_for_infer(
    tmp_path: Path, parts: Path, run: Run
) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"junk")
    code, error = run(tmp_path / "bad.onnx", parts, "--out", tmp_path / "o.jsonl")
    assert (code, len(error.splitlines())) == (1, 1)
    assert run(tmp_path, parts, "--out", tmp_path / "o.jsonl")[0] == 78
    assert not list(tmp_path.glob("o*"))


def test_parquet_without_pyarrow_says_what_to_install_before_anything_is_done(
    tmp_path: Path, model: Path, parts: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, error = run(model, parts, "--out", tmp_path / "o.parquet")
    assert (code, "edge-infer[parquet]" in error, len(error.splitlines())) == (1, True, 1)
