from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from edge_infer.client.numbers import HOLES, STREAMS, Missing, Numbers, Ranges, Stream
from edge_infer.errors import EdgeInferError

CAP = Stream("v/ipc7", "ipc7", "cap", "s1")


def _missing(numbers: Numbers) -> list[tuple[str, int, int]]:
    return [(one.stream_id, one.first, one.last) for one in numbers.missing()]


def test_ranges_are_a_set_of_numbers_in_whatever_order_they_come() -> None:
    chance = random.Random(1)  # noqa: S311 - not a secret
    for _ in range(200):
        ranges, plain = Ranges(), set[int]()
        for _ in range(40):
            first = chance.randint(1, 60)
            last = first + chance.choice((0, 0, 0, 5, 20))
            ranges.add(first, last)
            plain.update(range(first, last + 1))
            assert {number for number in range(100) if number in ranges} == plain
        told = list(ranges)
        assert all(one[1] + 1 < other[0] for one, other in pairwise(told))
        holes = {number for first, last in ranges.holes(1) for number in range(first, last + 1)}
        assert holes == set(range(1, max(plain))) - plain


def test_a_number_is_missing_until_it_comes() -> None:
    numbers = Numbers()
    for seq in (7, 8, 11, 10):
        numbers.came(CAP, seq)
    assert numbers.missing() == [Missing("v/ipc7", "ipc7", "cap", "s1", 9, 9)]
    numbers.came(CAP, 9)
    assert numbers.missing() == []


def test_what_was_published_before_we_listened_is_not_missing() -> None:
    numbers = Numbers()
    numbers.came(CAP, 814)
    numbers.came(CAP, 812)
    assert numbers.missing() == []
    assert numbers.came_before(CAP, 812)
    assert not numbers.came_before(CAP, 813)


def test_a_new_stream_of_a_known_station_is_missed_from_its_first_number() -> None:
    numbers = Numbers()
    numbers.came(CAP, 814)
    numbers.came(Stream("v/ipc7", "ipc7", "cap", "s2"), 3)
    numbers.came(Stream("v/ipc7", "ipc7", "label", "s3"), 3)
    assert _missing(numbers) == [("s2", 1, 2)]


def test_what_the_device_gave_up_is_not_missing_even_if_it_says_so_first() -> None:
    numbers = Numbers()
    numbers.came(CAP, 1)
    numbers.came(CAP, 10)
    numbers.given_up("v/ipc7", "cap", "s1", [(2, 5), (7, 8)])
    assert _missing(numbers) == [("s1", 6, 6), ("s1", 9, 9)]
    numbers.given_up("v/ipc7", "cap", "s1", [(2, 9)])
    assert _missing(numbers) == []
    numbers.given_up("v/ipc7", "cap", "s2", [(1, 310)])
    numbers.came(Stream("v/ipc7", "ipc7", "cap", "s2"), 312)
    assert _missing(numbers) == [("s2", 311, 311)]


def test_what_was_given_up_and_comes_all_the_same_is_no_repetition() -> None:
    numbers = Numbers()
    numbers.came(CAP, 1)
    numbers.given_up("v/ipc7", "cap", "s1", [(2, 2)])
    assert not numbers.came_before(CAP, 2)


def test_the_same_stream_and_number_of_another_device_is_another_result() -> None:
    numbers = Numbers()
    numbers.came(CAP, 1)
    assert not numbers.came_before(Stream("v/ipc7", "ipc8", "cap", "s1"), 1)
    assert not numbers.came_before(Stream("v/ipc7", "ipc7", "cap", "s2"), 1)


def test_a_million_numbers_in_order_are_one_range() -> None:
    ranges = Ranges()
    for number in range(1, 1_000_001):
        ranges.add(number, number)
    assert list(ranges) == [(1, 1_000_000)]


def test_holes_and_streams_without_end_take_bounded_memory(caplog: pytest.LogCaptureFixture) -> None:
    numbers = Numbers()
    for seq in range(1, 4 * HOLES, 2):
        numbers.came(CAP, seq)
    assert len(numbers.missing()) <= HOLES
    assert caplog.text.count("too many holes") == 1
    # what was forgotten is never taken for a repetition: twice is better than never
    assert not numbers.came_before(CAP, 2)
    assert numbers.came_before(CAP, 4 * HOLES - 1)
    for number in range(3 * STREAMS):
        numbers.came(Stream("v/ipc7", "ipc7", "cap", f"n{number}"), 1)
    assert sum(one.station == "cap" for one in numbers._counts) == STREAMS
    assert numbers.came_before(Stream("v/ipc7", "ipc7", "cap", f"n{3 * STREAMS - 1}"), 1)


def test_the_position_is_the_same_after_a_restart(tmp_path: Path) -> None:
    first = Numbers(tmp_path / "position")
    for seq in (5, 6, 9):
        first.came(CAP, seq)
    first.given_up("v/ipc7", "cap", "s1", [(8, 8)])
    first.close()
    again = Numbers(tmp_path / "position")
    assert [seq for seq in range(1, 12) if again.came_before(CAP, seq)] == [5, 6, 9]
    assert _missing(again) == [("s1", 7, 7)]
    again.came(Stream("v/ipc7", "ipc7", "cap", "s2"), 2)
    assert _missing(again) == [("s1", 7, 7), ("s2", 1, 1)]
    again.close()


def test_a_forgotten_stream_is_forgotten_in_the_file_too(tmp_path: Path) -> None:
    first = Numbers(tmp_path / "position")
    for number in range(STREAMS + 3):
        first.came(Stream("v/ipc7", "ipc7", "cap", f"n{number}"), 1)
    first.close()
    again = Numbers(tmp_path / "position")
    assert len(again._counts) == STREAMS
    again.close()


def test_the_position_survives_a_kill_with_every_number(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal\nfrom pathlib import Path\n"
        "from edge_infer.client.numbers import Numbers, Stream\n"
        "numbers = Numbers(Path(sys.argv[1]))\n"
        "for seq in range(1, 501): numbers.came(Stream('v/ipc7', 'ipc7', 'cap', 's1'), seq)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "position")], check=False, timeout=30)
    assert done.returncode == -signal.SIGKILL
    again = Numbers(tmp_path / "position")
    assert all(again.came_before(CAP, seq) for seq in range(1, 501))
    again.close()


def test_two_subscribers_cannot_share_a_position(tmp_path: Path) -> None:
    first = Numbers(tmp_path / "position")
    with pytest.raises(EdgeInferError, match="another subscriber uses it"):
        Numbers(tmp_path / "position")
    first.close()
    Numbers(tmp_path / "position").close()


def test_a_position_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "position").write_bytes(os.urandom(5000))
    with pytest.raises(EdgeInferError, match="delete it: results may then come twice"):
        Numbers(tmp_path / "position")
    with pytest.raises(EdgeInferError, match="does its folder exist"):
        Numbers(tmp_path / "no" / "position")
