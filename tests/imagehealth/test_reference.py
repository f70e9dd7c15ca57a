"""What was commissioned is stored whole or not at all, and never trusted blindly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer import clock
from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.imagehealth.commissioning import commission
from edge_infer.imagehealth.reference import Reference, load, path_of, store


def picture(seed: int = 1) -> NDArray[np.uint8]:
    """Boxes all over it, with some noise."""
    pixels, places = np.full((240, 320, 3), 120, np.uint8), np.random.default_rng(7)
    for _ in range(60):
        x, y, side = places.integers(0, 300), places.integers(0, 220), places.integers(8, 24)
        pixels[y : y + side, x : x + side] = places.integers(30, 220)
    return np.asarray(pixels + np.random.default_rng(seed).integers(0, 4, pixels.shape, np.uint8), np.uint8)


@pytest.fixture
def reference() -> Reference:
    frames = [Frame("top", seq, picture(seq), seq / 10, clock.now()) for seq in range(1, 9)]
    return commission(frames, (0, 0, 320, 240), clock.now())


def test_what_is_read_is_what_was_stored(tmp_path: Path, reference: Reference) -> None:
    path = path_of(tmp_path, "cap")
    store(path, reference)
    again = load(path)
    assert again == reference
    assert path.stat().st_size < 40_000
    assert [one.name for one in path.parent.iterdir()] == ["cap.json"]
    before, after = reference.structure, again.structure if again else None
    assert before is not None
    assert after is not None
    assert np.array_equal(before.edges, after.edges)
    assert np.array_equal(before.thumb, after.thumb)
    assert before.tiles == after.tiles


def test_none_is_none(tmp_path: Path) -> None:
    assert load(path_of(tmp_path, "cap")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"region": [0, 0, 400, 240]},
        {"region": [10, 10, 10, 20]},
        {"width": "320"},
        {"surplus": 1},
        {"measured": {"dark": {"lowest": 1}}},
        {"fixed": {"edges": "AAAA"}},
        {"fixed": {"edges": "ä"}},
        {"fixed": {"thumb": "AAAA"}},
        {"fixed": {"window": [0, 0, 9999, 10]}},
        {"fixed": {"width": 100_000, "height": 100_000}},
        {"fixed": {"tiles": [1]}},
    ],
)
def test_one_that_is_wrong_anywhere_is_refused_whole(
    tmp_path: Path, reference: Reference, change: dict[str, Any]
) -> None:
    path = path_of(tmp_path, "cap")
    store(path, reference)
    written = json.loads(path.read_bytes())
    for key, value in change.items():
        written[key] = {**written[key], **value} if key == "fixed" else value
    path.write_text(json.dumps(written))
    with pytest.raises(EdgeInferError, match=r"cannot be used.*commission the station again"):
        load(path)


@pytest.mark.parametrize("data", [b"", b"{", b"\x80\x04K\x01.", b"[]", b"x" * 2_000_000])
def test_garbage_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cap.json"
    path.write_bytes(data)
    with pytest.raises(EdgeInferError, match="cannot be used"):
        load(path)


def test_where_it_cannot_be_stored_the_old_one_stays(
    tmp_path: Path, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(tmp_path, "cap")
    store(path, reference)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EdgeInferError, match=r"cannot be stored.*No space left"):
        store(path, reference.model_copy(update={"frames": 99}))
    assert load(path) == reference
    assert [one.name for one in path.parent.iterdir()] == ["cap.json"]


def test_it_fits_only_the_frames_it_was_made_from(reference: Reference) -> None:
    assert reference.misfit("top", (320, 240), (0, 0, 320, 240)) is None
    assert "frames of 320x240, the camera gives 640x480" in str(
        reference.misfit("top", (640, 480), (0, 0, 320, 240))
    )
    assert "region" in str(reference.misfit("top", (320, 240), (0, 0, 300, 240)))
    assert "the camera top" in str(reference.misfit("side", (320, 240), (0, 0, 320, 240)))
