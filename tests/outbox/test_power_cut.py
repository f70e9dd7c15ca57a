"""The power goes out under the outbox's file system; fsync fails; fsync takes its time."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_infer.outbox import Row
from tests.support.filesystems import ext4
from tests.support.outboxes import Reader, opened, put_all
from tests.support.results import result

ROOT = Path(__file__).parents[2]
# says of each result that it is committed, while that means: on disk
WRITER = r"""
import sys, time; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from edge_infer.outbox import Outbox, OutboxSettings
from edge_infer.outbox import storage
from tests.support.results import result
storage.RETRY_S = 0.2
outbox = Outbox.open(Path(sys.argv[1]), OutboxSettings(commit=sys.argv[3]))
def say(line):
    sys.stdout.write(line)
    sys.stdout.flush()
def committed(final):
    where = "memory" if outbox.stats.in_memory else "disk"
    say(f"{where} {final.station} {final.stream_id} {final.seq} {final.result_id}\n")
count = int(sys.argv[4])
for i in range(count):
    outbox.put("p/cap/result", result("cap" if i % 3 else "label"), committed)
    time.sleep(0.0005)
outbox.flush(30)
time.sleep(60 if sys.argv[5] == "stay" else 0)
outbox.close(10)
"""


def _writer(folder: Path, commit: str, count: int, end: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(ROOT), commit, str(count), end]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _by_stream(rows: Sequence[Row]) -> dict[str, list[int]]:
    streams = defaultdict(list)
    for row in rows:
        streams[row.stream_id].append(row.seq)
    return streams


@pytest.mark.parametrize("after", [40, 150, 400])
def test_a_power_cut_loses_no_committed_result_and_gives_no_number_twice(after: int, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    with ext4(tmp_path / "disk") as disk:
        with _writer(disk.path / "outbox", "fsync", 100_000, "stay") as process:
            assert process.stdout is not None
            for line in process.stdout:
                where, *final = line.split()
                if where == "disk":
                    told.append((final[1], int(final[2])))
                if len(told) == after:
                    disk.cut()
                if where == "memory":
                    break
            process.kill()
        disk.power_on()
        outbox = opened(disk.path / "outbox")
        finals = put_all(outbox, [result("cap"), result("label")])
        rows = Reader(outbox).deliver(outbox.stats.depth)
        outbox.close(5)
    stored = _by_stream(rows)
    assert len(told) >= after
    assert all(seq in stored[stream_id] for stream_id, seq in told)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in stored.values())
    assert not {(one.stream_id, one.seq) for one in finals} & set(told)


def test_relaxed_commits_lose_at_most_the_end_and_give_no_number_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    with ext4(tmp_path / "disk") as disk:
        with _writer(disk.path / "outbox", "normal", 100_000, "stay") as process:
            assert process.stdout is not None
            for line in process.stdout:
                where, *final = line.split()
                if where == "memory":
                    break
                told.append((final[1], int(final[2])))
                if len(told) == 300:
                    disk.cut()
            process.kill()
        disk.power_on()
        monkeypatch.setattr("edge_infer.clock.boot_id", lambda: "after the power cut")
        outbox = opened(disk.path / "outbox", commit="normal")
        finals = put_all(outbox, [result("cap"), result("label")])
        rows = Reader(outbox).deliver(outbox.stats.depth)
        outbox.close(5)
    # this is what `normal` trades away
    assert len(rows) < len(told)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in _by_stream(rows).values())
    assert not {(one.stream_id, one.seq) for one in finals} & set(told)


def test_an_fsync_that_fails_loses_no_result_and_continues_no_stream(tmp_path: Path) -> None:
    finals: list[list[str]] = []
    broken = ("strace", "-qq", "-f", "-o", "/dev/null", "-e", "inject=fdatasync,fsync:error=EIO")
    with _writer(tmp_path / "outbox", "fsync", 3000, "leave") as process:
        assert process.stdout is not None
        strace: subprocess.Popen[bytes] | None = None
        for line in process.stdout:
            finals.append(line.split())
            if len(finals) == 200:
                strace = subprocess.Popen([*broken, "-p", str(process.pid)])
            if finals[-1][0] == "memory" and strace is not None and strace.poll() is None:
                # it lets go of the process, whose disk is sound again
                strace.terminate()
                strace.wait(10)
    assert process.returncode == 0
    assert strace is not None
    assert "memory" in {where for where, *_ in finals}
    assert finals[-1][0] == "disk"
    assert len({result_id for *_, result_id in finals}) == len(finals) == 3000
    outbox = opened(tmp_path / "outbox")
    rows = Reader(outbox).deliver(outbox.stats.depth, timeout_s=10)
    published = [row for row in rows if row.kind == "result"]
    assert {(row.stream_id, row.seq) for row in published} == {(one[2], int(one[3])) for one in finals}
    assert len(published) == 3000
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in _by_stream(published).values())
    outbox.close(5)


def test_a_slow_disk_delays_no_hand_over(tmp_path: Path) -> None:
    inject = "inject=fdatasync,fsync:delay_enter=100000"
    strace = ("strace", "-qq", "-f", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e", inject)
    code = """
import sys, time; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from edge_infer.outbox import Outbox, OutboxSettings
from tests.support.results import result
outbox = Outbox.open(Path(sys.argv[1]), OutboxSettings())
new = result()
took = []
for i in range(300):
    began = time.perf_counter()
    outbox.put("p/cap/result", new)
    took.append(time.perf_counter() - began)
    time.sleep(0.003)
outbox.flush(30)
print(sorted(took)[-3], outbox.stats.committed)
outbox.close(10)
"""
    done = subprocess.run(
        [*strace, sys.executable, "-c", code, str(tmp_path / "outbox"), str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    slowest_but_two, committed = done.stdout.split()
    # a commit takes 100 ms here; a hand-over that waited for one would show
    assert float(slowest_but_two) < 0.05
    assert int(committed) == 300
