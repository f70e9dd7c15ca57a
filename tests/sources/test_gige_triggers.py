"""Industrial cameras whose pictures are asked for, or taken when their line says so."""

from __future__ import annotations

import time

import pytest

from edge_infer.errors import SourceStalledError
from edge_infer.sources import OnDemand
from tests.support.gige_camera import GigeCamera
from tests.support.gige_source import OTHER, camera, opened, other, read

__all__ = ["camera", "other"]


@pytest.mark.usefixtures("camera")
def test_each_software_trigger_gives_one_picture_taken_after_it() -> None:
    with opened(trigger="software") as source:
        assert isinstance(source, OnDemand)
        with pytest.raises(SourceStalledError):
            source.read(0.3)
        seen = []
        for _ in range(50):
            asked_s = time.monotonic()
            source.fire(asked_s)
            frame, stamp = read(source)
            assert asked_s < stamp.time_s <= frame.time_s
            seen.append((frame.seq, stamp.frame_id))
        with pytest.raises(SourceStalledError):
            source.read(0.5)
    (seq, frame_id), _ = seen[0], seen
    assert [one - seq for one, _ in seen] == list(range(50))
    assert [(one - frame_id) % 65535 for _, one in seen] == list(range(50))


@pytest.mark.usefixtures("camera")
def test_a_software_trigger_waits_until_it_is_due() -> None:
    with opened(trigger="software") as source:
        assert isinstance(source, OnDemand)
        due_s = time.monotonic() + 0.4
        source.fire(due_s)
        assert read(source)[1].time_s >= due_s


@pytest.mark.usefixtures("camera")
def test_asking_a_camera_that_runs_freely_changes_nothing() -> None:
    with opened() as source:
        assert isinstance(source, OnDemand)
        source.fire(time.monotonic())
        read(source)


def test_each_picture_of_a_cameras_line_is_a_part() -> None:
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        for _ in range(10):
            asked_s = time.monotonic()
            line.pulse()
            frame, stamp = read(source)
            (part,) = frame.triggers
            assert asked_s < stamp.time_s <= frame.time_s == part.time_s


def test_no_picture_of_a_part_gives_way_to_a_newer_one() -> None:
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        line.pulse()
        read(source)  # from here on the simulated camera looks at its line each 4 ms
        for _ in range(5):
            line.pulse()
            time.sleep(0.05)
        seen = [read(source) for _ in range(5)]
        with pytest.raises(SourceStalledError):
            source.read(0.3)
    assert [frame.seq for frame, _ in seen] == [2, 3, 4, 5, 6]
    assert len({stamp.frame_id for _, stamp in seen}) == 5


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_lost_picture_of_a_part_is_answered_as_damaged(share: float) -> None:
    """Wholly lost it is told by the next one's number; one in five packets lost spoils each of them."""
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        line.pulse()
        assert read(source)[0].damaged is None
        line.lose(share)
        line.pulse()
        time.sleep(0.1)
        line.lose(0)
        line.pulse()
        spoilt, whole = source.read(5.0), source.read(5.0)
    assert spoilt is not None
    assert whole is not None
    assert (spoilt.damaged is not None, len(spoilt.triggers)) == (True, 1)
    assert not spoilt.pixels.any()
    assert (whole.damaged, len(whole.triggers), whole.seq) == (None, 1, 3)


def test_a_picture_whose_first_packet_was_lost_has_no_time_of_an_older_one() -> None:
    """Time and number stand in that packet, and in the memory those of the picture before."""
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        for number in range(20):
            line.lose(0.8 if number > 9 else 0)
            asked_s = time.monotonic()
            line.pulse()
            frame = source.read(5.0)
            assert frame is not None
            assert (frame.damaged is not None) == (number > 9)
            assert frame.time_s > asked_s
            assert frame.seq == number + 1
