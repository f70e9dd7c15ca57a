"""The output while it grows: whatever is left of it, nothing is doubled, nothing is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from edge_infer.batch.items import Position
from edge_infer.batch.judge import Line
from edge_infer.batch.part import Part, folder_of
from edge_infer.errors import EdgeInferError
from tests.support.filesystems import SmallDisk

BATCH = {"model": "m", "inputs": "10 paths"}


def line(at: int) -> Line:
    return Line(Position(at + 1, 0), json.dumps({"image": f"{at}"}).encode() + b"\n", error=at % 5 == 4)


WHOLE = b"".join(line(at).text for at in range(10))


def opened(out: Path, batch: dict[str, str] = BATCH, *, restart: bool = False) -> Part:
    part = Part.open(out, restart=restart)
    try:
        part.begin(batch)
    except BaseException:
        part.close()
        raise
    return part


def go_on(part: Part, to: int = 10, *, each: int = 3) -> None:
    """As a batch does: lines from the mark on, a mark after every few."""
    for at in range(part.mark.next.at, to):
        part.add(line(at))
        if at % each == each - 1:
            part.set_mark()


def finish(part: Part) -> None:
    if not part.mark.complete:
        go_on(part)
        part.complete()
    if part.is_moved:
        part.clear()
    else:
        part.move(part.lines)
    part.close()


def test_the_output_appears_under_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    part = opened(out)
    go_on(part, 9)
    assert [path.name for path in tmp_path.iterdir()] == ["o.jsonl.part"]
    finish(part)
    assert [path.name for path in tmp_path.iterdir()] == ["o.jsonl"]
    assert out.read_bytes() == WHOLE


def test_whatever_a_kill_left_of_the_last_lines_the_output_is_the_same(tmp_path: Path) -> None:
    first = opened(tmp_path / "first.jsonl")
    go_on(first, 8)
    first.close()
    journal = (folder_of(first.out) / "journal.jsonl").read_bytes()
    data = first.lines.read_bytes()
    assert data == b"".join(line(at).text for at in range(6))
    begins = journal.index(b"\n") + 1
    torn = [data[:size] for size in range(0, len(data) + 1, 7)] + [data + b'{"image": "6"}\n{"im']
    ends = [journal[:size] for size in range(begins - 3, len(journal) + 1, 4)]
    cases = [(one, journal) for one in torn] + [(data, one) for one in ends]
    for number, (lines, marks) in enumerate(cases):
        out = tmp_path / f"{number}.jsonl"
        folder_of(out).mkdir()
        (folder_of(out) / "lines.jsonl").write_bytes(lines)
        (folder_of(out) / "journal.jsonl").write_bytes(marks)
        part = opened(out)
        assert part.mark.lines in (0, 3, 6)
        assert part.mark.next.at == part.mark.lines
        # what is marked now is found the next time, whatever stood there before
        go_on(part, 9)
        part.close()
        part = opened(out)
        assert part.mark.lines == 9
        finish(part)
        assert out.read_bytes() == WHOLE, number
        assert not folder_of(out).exists()


def test_lines_that_changed_on_the_disk_are_judged_again(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    part = opened(out)
    go_on(part, 9)
    part.close()
    data = bytearray(part.lines.read_bytes())
    data[len(line(0).text) * 4] ^= 1
    part.lines.write_bytes(data)
    part = opened(out)
    assert part.mark.lines == 3
    finish(part)
    assert out.read_bytes() == WHOLE


def test_a_kill_at_any_step_of_the_end_leaves_what_the_next_run_finishes(tmp_path: Path) -> None:
    def complete(name: str) -> Part:
        part = opened(tmp_path / name)
        go_on(part)
        part.complete()
        part.close()
        return part

    before_moving = complete("a.jsonl")
    part = opened(before_moving.out)
    assert (part.mark.complete, part.is_moved, part.mark.errors) == (True, False, 2)
    finish(part)
    moved = complete("b.jsonl")
    moved.lines.replace(moved.out)
    part = opened(moved.out)
    assert (part.mark.complete, part.is_moved, part.mark.errors) == (True, True, 2)
    finish(part)
    for out in (before_moving.out, moved.out):
        assert out.read_bytes() == WHOLE
        assert not folder_of(out).exists()
    gone = complete("c.jsonl")
    gone.lines.unlink()
    part = opened(gone.out)
    assert part.mark.lines == 0
    finish(part)
    assert gone.out.read_bytes() == WHOLE


def test_lines_of_another_batch_are_not_gone_on_with_and_what_differs_is_told(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    part = opened(out)
    go_on(part, 5)
    part.close()
    before = part.lines.read_bytes()
    with pytest.raises(EdgeInferError) as caught:
        opened(out, {"model": "n", "inputs": "10 paths", "device": "CPU"})
    assert "3 lines of another batch: model (m then, n now), device (nothing then, CPU now)" in str(
        caught.value
    )
    assert "--restart" in str(caught.value)
    assert part.lines.read_bytes() == before
    part = opened(out, {"model": "n"}, restart=True)
    assert part.mark.lines == 0
    part.close()


def test_a_batch_without_a_line_yet_is_in_nobodys_way(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    opened(out).close()
    part = opened(out, {"model": "n"})
    go_on(part, 5)
    part.close()
    with pytest.raises(EdgeInferError, match=r"model \(n then, m now\)"):
        opened(out)


def test_a_name_that_no_disk_takes_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        EdgeInferError, match=r"cannot use .*jsonl: File name too long; choose a shorter --out"
    ):
        opened(tmp_path / f"{'o' * 250}.jsonl")


def test_an_output_that_is_there_is_only_written_over_when_asked_and_only_by_the_whole_new_one(
    tmp_path: Path,
) -> None:
    out = tmp_path / "o.jsonl"
    out.write_bytes(b"precious\n")
    with pytest.raises(EdgeInferError, match="is there already"):
        opened(out)
    assert [path.name for path in tmp_path.iterdir()] == ["o.jsonl"]
    part = opened(out, restart=True)
    go_on(part, 5)
    part.close()
    assert out.read_bytes() == b"precious\n"
    # asked once is enough: going on is no restart
    part = opened(out)
    assert part.mark.lines == 3
    finish(part)
    assert out.read_bytes() == WHOLE


def test_two_at_once_are_refused_and_a_dead_one_is_not_in_the_way(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    part = opened(out)
    for restart in (False, True):
        with pytest.raises(EdgeInferError, match="another edge-infer batch writes"):
            opened(out, restart=restart)
    go_on(part, 5)
    part.close()
    again = opened(out)
    assert again.mark.lines == 3
    again.close()


def test_a_link_is_followed_to_the_disk_where_the_output_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    out = tmp_path / "o.jsonl"
    out.symlink_to("big/o.jsonl")
    finish(opened(out))
    assert out.is_symlink()
    assert (tmp_path / "big/o.jsonl").read_bytes() == WHOLE


def test_where_nothing_can_be_written_is_said_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(EdgeInferError, match=r"cannot make .*/none/o\.jsonl\.part: No such file"):
        opened(tmp_path / "none/o.jsonl")
    (tmp_path / "o.jsonl.part").write_text("a file of somebody else")
    with pytest.raises(EdgeInferError, match=r"cannot make .*o\.jsonl\.part: File exists"):
        opened(tmp_path / "o.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(EdgeInferError, match="is not a file"):
        opened(tmp_path / "pipe.jsonl")


def test_a_power_cut_costs_only_what_was_not_synced_and_never_leaves_a_hole(small_disk: SmallDisk) -> None:
    disk = small_disk("ext4")
    out = disk.path / "o.jsonl"
    part = opened(out)
    go_on(part, 6)
    part.sync()
    for at in range(6, 9):
        part.add(line(at))
        part.set_mark()
    disk.cut()
    part.close()
    disk.power_on()
    part = opened(out)
    assert 6 <= part.mark.lines <= 9
    finish(part)
    assert out.read_bytes() == WHOLE
