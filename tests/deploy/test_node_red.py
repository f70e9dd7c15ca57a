"""The Node-RED flow: its function nodes, run by node; `make test-release` runs it in Node-RED itself."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support import node
from tests.support.results import result

FLOW: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "deploy/node-red/flows.json").read_text(encoding="utf-8")
)
PREFIX = "vision/v1/plant1/l3/ipc7"
OK, NOK, UNDEFINED = 1, 2, 4


def run(name: str, *steps: tuple[float, dict[str, Any]]) -> list[list[Any]]:
    """What the node sends at each step: (seconds, message)."""
    written = [{"at": at * 1000, "msg": message} for at, message in steps]
    done = node.run("function_node.js", text=json.dumps({"flow": FLOW, "name": name, "steps": written}))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def word(*steps: tuple[float, dict[str, Any]]) -> int:
    """The PLC's word after the last step, without the bit that beats."""
    ticked = run("PLC word", *steps, (steps[-1][0], TICK))
    return int(ticked[-1][0]["payload"], 16) & 0x7FFF


TICK = {"topic": "tick"}
ONLINE = {"topic": f"{PREFIX}/status", "payload": '{"state": "online"}', "retain": True}


def says(payload: str, station: str = "filler", until: float | None = None, **more: Any) -> dict[str, Any]:
    message = {"topic": f"{PREFIX}/{station}/decision", "payload": payload, "retain": False, **more}
    if until is not None:
        message["userProperties"] = {"validUntil": datetime.fromtimestamp(until, UTC).isoformat()}
    return message


def ticks(first: float, last: float) -> list[tuple[float, dict[str, Any]]]:
    return [(first + 0.25 * number, TICK) for number in range(1, int((last - first) * 4) + 1)]


def test_every_wire_ends_at_a_node_and_every_topic_is_of_the_documented_kind() -> None:
    ids = {one["id"] for one in FLOW}
    assert len(ids) == len(FLOW)
    for one in FLOW:
        for output in one.get("wires", []):
            assert set(output) <= ids
        if one["type"] == "mqtt in":
            assert one["broker"] in ids
            assert one["topic"].startswith(f"{PREFIX}/")
            assert one["qos"] == "1"
    brokers = {one["name"]: one for one in FLOW if one["type"] == "mqtt-broker"}
    # a state is never kept for somebody who is away, a result always
    assert brokers["edge-infer: state"]["cleansession"]
    results = brokers["edge-infer: results"]
    assert (results["cleansession"], results["protocolVersion"]) == (False, "5")
    assert results["clientid"]
    assert int(results["sessionExpiry"]) > 0


@pytest.mark.parametrize(("payload", "bits"), [("OK", OK), ("NOK", NOK), ("UNDEFINED", UNDEFINED)])
def test_a_fresh_decision_of_a_device_that_is_online_is_the_word(payload: str, bits: int) -> None:
    assert word((0, ONLINE), (1, says(payload, until=6))) == bits


def test_nothing_that_is_not_known_to_hold_is_ok() -> None:
    assert word((0, TICK)) == UNDEFINED
    assert word((0, says("OK", until=5))) == UNDEFINED
    assert word((0, ONLINE)) == UNDEFINED
    assert word((0, ONLINE), (0, says("OK", station="other", until=5))) == UNDEFINED
    assert word((0, ONLINE), (0, says("GOOD", until=5))) == UNDEFINED
    assert word((0, ONLINE), (0, says("constructor", until=5))) == UNDEFINED
    assert word((0, ONLINE), (0, says("OK", until=5)), (0, says("GOOD", until=5))) == UNDEFINED
    assert word((0, ONLINE), (0, says("OK", retain=True))) == UNDEFINED
    assert word((0, ONLINE), (0, says("OK", userProperties={"validUntil": "soon"}))) == UNDEFINED
    assert word((0, ONLINE), (9, says("OK", until=8))) == UNDEFINED
    old = {
        "topic": f"{PREFIX}/status",
        "payload": '{"state": "online", "validUntil": "2026-11-30T12:00:00Z"}',
    }
    assert word((2e9, old), (2e9, says("OK", until=2e9 + 5))) == UNDEFINED
    for state in ('{"state": "offline"}', '{"state": "stopped"}', "{", "null", ""):
        gone = {"topic": f"{PREFIX}/status", "payload": state}
        assert word((0, ONLINE), (0, says("OK", until=5)), (0, gone)) == UNDEFINED
        assert word((0, ONLINE), (0, says("OK", until=5)), (0, gone), (0, ONLINE)) == UNDEFINED


def test_ok_ends_after_its_time_though_nobody_says_so() -> None:
    begin = [(0.0, ONLINE), (0.0, says("OK", until=60))]
    assert word(*begin, *ticks(0, 4.5)) == OK
    assert word(*begin, *ticks(0, 5)) == UNDEFINED
    early = [(0.0, ONLINE), (0.0, says("OK", until=1))]
    assert word(*early, *ticks(0, 1.25)) == UNDEFINED
    short = [(0.0, ONLINE), (0.0, says("OK", messageExpiryInterval=2))]
    assert word(*short, *ticks(0, 2)) == UNDEFINED


def test_ok_ends_with_the_online_of_the_device() -> None:
    until = datetime.fromtimestamp(3, UTC).isoformat()
    online = {"topic": f"{PREFIX}/status", "payload": json.dumps({"state": "online", "validUntil": until})}
    begin = [(0.0, online), (0.0, says("OK", until=60))]
    assert word(*begin, *ticks(0, 2.5)) == OK
    assert word(*begin, *ticks(0, 3.25)) == UNDEFINED


def test_ok_ends_where_the_clock_is_set_back_and_where_node_red_was_busy() -> None:
    begin = [(1000.0, ONLINE), (1000.0, says("OK", until=1005))]
    assert word(*begin, *ticks(0, 5)) == UNDEFINED
    assert word(*begin, (1010.0, TICK)) == UNDEFINED


def test_the_plc_sees_each_tick_and_each_change_at_once() -> None:
    fresh, again, bad = says("OK", until=5), says("OK", until=5), says("NOK", until=5)
    steps: list[tuple[float, dict[str, Any]]]
    steps = [(0, ONLINE), (0, TICK), (0.25, TICK), (0.3, fresh), (0.4, again), (0.5, bad)]
    sent = run("PLC word", *steps)
    words = [int(one[0]["payload"], 16) if one[0] else None for one in sent]
    assert words == [UNDEFINED, UNDEFINED | 0x8000, UNDEFINED, OK, None, NOK]


def message(seq: int, stream_id: str = "s1", device: str = "ipc7", **changes: Any) -> dict[str, Any]:
    raw = json.loads(result("cap").model_copy(update={"seq": seq, "stream_id": stream_id}).as_json())
    raw["source"]["device"] = device
    return {"topic": f"{PREFIX}/cap/result", "payload": json.dumps({**raw, **changes})}


def once(*messages: dict[str, Any]) -> tuple[list[int], list[str]]:
    """The numbers that were passed on, and what was said to a person."""
    sent = run("each result once", *((0, one) for one in messages))
    return (
        [one[0]["payload"]["seq"] for one in sent if one[0]],
        [one[1]["payload"] for one in sent if len(one) > 1 and one[1]],
    )


def test_each_result_is_passed_on_once() -> None:
    assert once(*(message(seq) for seq in (1, 2, 1, 2, 3, 3, 1))) == ([1, 2, 3], [])
    assert once(message(1), message(1, "s2"), message(1, device="ipc8"))[0] == [1, 1, 1]


def test_a_skipped_number_is_said_once_and_passed_on_when_it_comes() -> None:
    numbers, said = once(*(message(seq) for seq in (7, 10, 11, 8, 8, 9, 12)))
    assert numbers == [7, 10, 11, 8, 9, 12]
    assert said == ["ipc7/cap: results 8 to 9 did not come yet"]
    # what was published before the flow ran is not missed, a new stream of a known station is
    assert once(message(7), message(3, "s2"))[1] == ["ipc7/cap: results 1 to 2 did not come yet"]


def test_in_whatever_order_they_come_each_is_passed_on_once() -> None:
    chance = random.Random(5)  # noqa: S311 - not a secret
    numbers = [chance.randint(1, 60) for _ in range(400)]
    passed, _ = once(*(message(seq) for seq in numbers))
    assert passed == list(dict.fromkeys(numbers))


def test_holes_without_end_take_bounded_memory_and_lose_nothing() -> None:
    numbers = list(range(1, 2600, 2))
    assert once(*(message(seq) for seq in (*numbers, 2, 2599)))[0] == [*numbers, 2]


def test_gaps_events_newer_schemas_and_nonsense_are_said() -> None:
    gap = {"schema": "gap/1", "ranges": [{"fromSeq": 3, "toSeq": 4}, {"fromSeq": 7, "toSeq": 7}]}
    event = {"schema": "event/1", "kind": "line_stop", "data": {"decision": "NOK"}}
    numbers, said = once(
        {"topic": f"{PREFIX}/cap/gap", "payload": json.dumps(gap)},
        {"topic": f"{PREFIX}/event", "payload": json.dumps(event)},
        message(1, schema="result/2"),
        {"topic": f"{PREFIX}/cap/result", "payload": "{"},
        {"topic": f"{PREFIX}/cap/result", "payload": "null"},
        message(1, streamId=7),
    )
    assert numbers == []
    assert said[:3] == [
        "ipc7/cap: the device gave up results 3 to 4, result 7",
        'line_stop {"decision":"NOK"}',
        "schema result/2 is newer than this flow",
    ]
    assert [text.partition(":")[0] for text in said[3:]] == [
        "cannot be read",
        "cannot be read",
        "this is no result",
    ]
