"""Pictures and frames, one after the other."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from edge_infer.batch.inputs import find
from edge_infer.batch.items import Item, Position, items
from tests.support.batches import clip, picture

FRAMES = 40


@pytest.fixture
def video(shared: Path, tmp_path: Path) -> Path:
    return clip(shared / "assets/videos/bottle-detection.mp4", tmp_path / "clip.mp4", FRAMES)


def read(*given: Path, start: tuple[int, int] = (0, 0)) -> list[Item]:
    return list(items(find([str(one) for one in given], BytesIO(), ()), Position(*start)))


def test_frames_count_from_nought_and_pictures_have_none(tmp_path: Path, video: Path) -> None:
    one, two = picture(tmp_path / "1.png", 1), picture(tmp_path / "2.png", 2)
    told = [(item.image, item.frame) for item in read(one, video, two)]
    assert told == [(str(one), None), *((str(video), at) for at in range(FRAMES)), (str(two), None)]


def test_going_on_after_any_item_gives_the_rest_pixel_for_pixel(tmp_path: Path, video: Path) -> None:
    given = (picture(tmp_path / "1.png", 1), video, tmp_path / "none.png", picture(tmp_path / "2.png", 2))
    whole = read(*given)
    for at in (0, 1, 2, 17, FRAMES, FRAMES + 1, FRAMES + 2):
        rest = read(*given, start=whole[at].after)
        assert [(item.image, item.frame, item.error) for item in rest] == [
            (item.image, item.frame, item.error) for item in whole[at + 1 :]
        ]
        for again, before in zip(rest, whole[at + 1 :], strict=True):
            assert again.after == before.after
            if again.pixels is None or before.pixels is None:
                assert again.pixels is before.pixels
            else:
                assert np.array_equal(again.pixels, before.pixels)


def test_a_video_that_breaks_off_is_its_frames_and_one_error_also_after_going_on(
    shared: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "hole.mp4"
    data = bytearray((shared / "assets/videos/bottle-detection.mp4").read_bytes())
    data[15_000:18_000] = bytes(3000)
    broken.write_bytes(data)
    last = picture(tmp_path / "1.png", 1)
    whole = read(broken, last)
    frames, error, after = whole[:-2], whole[-2], whole[-1]
    assert 5 < len(frames) < 200
    assert [item.frame for item in frames] == list(range(len(frames)))
    assert error.pixels is None
    assert (error.frame, f"breaks off after {len(frames)} frames" in str(error.error)) == (len(frames), True)
    assert after.image == str(last)
    # behind the last frame the error is left, behind the error it is not
    rest = read(broken, last, start=frames[-1].after)
    assert [(item.frame, item.error) for item in rest] == [(error.frame, error.error), (None, None)]
    assert [item.image for item in read(broken, last, start=error.after)] == [str(last)]


def test_what_cannot_be_read_is_an_error_each_and_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "empty.mkv").touch()
    (tmp_path / "text.mp4").write_text("no video")
    (tmp_path / "nothing").mkdir()
    names = ["pipe.png", "pipe.mp4", "empty.jpg", "empty.mkv", "text.mp4", "none.mp4", "none.png", "nothing"]
    told = read(*(tmp_path / name for name in names))
    assert [Path(item.image).name for item in told] == names
    for item in told:
        assert item.pixels is None
        assert item.error
        assert "\n" not in item.error
        assert item.frame == (0 if item.image.endswith((".mp4", ".mkv")) else None)


def test_a_frame_that_the_decoder_could_not_make_whole_is_damaged(shared: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "hole.ts"
    clip(shared / "assets/videos/bottle-detection.mp4", damaged, 120)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    damaged.write_bytes(data)
    told = read(damaged)
    assert not told[0].damaged
    assert any(item.damaged for item in told)
