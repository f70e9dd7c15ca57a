"""The wall clock is set by hours under the running service: only stamps change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived
from tests.support.runs import NO_BOTTLE, Run, Subscribe, site, whole
from tests.test_run import broken

HOURS = 3600


def wall(offset: Path) -> str:
    """The wall clock as a file says; ages are looked at each moment instead of each minute and hour."""
    return f"""
import pathlib
from datetime import UTC, datetime, timedelta
import edge_infer.clock, edge_infer.evidence.writer, edge_infer.outbox.writer, edge_infer.sources.synthetic
offset = pathlib.Path({str(offset)!r})
def now():
    return datetime.now(UTC) + timedelta(seconds=float(offset.read_text()))
edge_infer.clock.now = now
class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return now()
edge_infer.sources.synthetic.datetime = Clock
edge_infer.clock.STEP_AGAIN_S = 0.1
edge_infer.outbox.writer.AGE_S = 0.2
edge_infer.evidence.writer.SWEEP_S = 0.2
"""


def test_hours_forward_and_back_expire_nothing_stop_nothing_and_flood_nothing(
    tmp_path: Path, run: Run, subscribe: Subscribe
) -> None:
    offset = tmp_path / "offset"
    set_clock(offset, 0)
    broker = Mosquitto(tmp_path / "broker")
    path = site(
        tmp_path / "a",
        broker,
        fps=20,
        stations={"cap": {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]}},
        # two hours
        outbox={"max_age_days": 0.1},
        evidence={"max_age_days": 0.1, "min_free_bytes": 0, "ok_every": 5},
    )
    running = run(path, **broken(tmp_path / "wall", wall(offset)))
    stored = tmp_path / "a/state/evidence"
    until(lambda: len(list(stored.rglob("*.jpg"))) >= 3)
    pictures = set(stored.rglob("*.jpg"))
    # the broker is away: what waits must not be given up for its age
    for step in (5 * HOURS, -5 * HOURS, 0):
        before = len(list(stored.rglob("*.jpg")))
        set_clock(offset, step)
        until(lambda before=before: len(list(stored.rglob("*.jpg"))) >= before + 3)  # type: ignore[misc]
    assert pictures <= set(stored.rglob("*.jpg"))
    broker.start()
    heard = subscribe(broker, "vision/v1/plant1/l3/ipc7/#")
    heard.wait(lambda got: len(got) > 60, "cap/result")
    # and now connected: decisions stay fresh over a step
    for told, step in ((4, 5 * HOURS), (5, 0)):
        set_clock(offset, step)
        heard.wait(lambda got, told=told: steps(got) >= told, "/event")  # type: ignore[misc]
        before = len(heard.messages("cap/decision"))
        heard.wait(lambda got, before=before: len(got) > before + 1, "cap/decision")  # type: ignore[misc]
    assert running.stop() == 0
    results = heard.messages("cap/result")
    assert len(whole(results)) == 1
    assert {one.json["decision"] for one in results} == {"OK"}
    assert max(one.json["ageMs"] for one in results) < 1000
    assert not heard.messages("/gap")
    events = [one.json for one in heard.messages("/event")]
    by_s = [one["data"]["byS"] for one in events if one["kind"] == "clock_stepped"]
    assert [round(one / HOURS) for one in by_s] == [5, -10, 5, 5, -5]
    lines = running.log.splitlines()
    assert len(lines) < 30, running.log
    broker.stop()


def set_clock(offset: Path, by_s: float) -> None:
    # at once: half of it would be another step
    half = offset.with_name("half")
    half.write_text(str(by_s))
    half.replace(offset)


def steps(events: Sequence[Arrived]) -> int:
    return sum(one.json["kind"] == "clock_stepped" for one in events)


def until(so: Callable[[], bool], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not so():
        assert time.monotonic() < end
        time.sleep(0.02)  # files, which tell of nothing
