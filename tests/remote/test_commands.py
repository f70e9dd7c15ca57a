"""Every rule over a real broker, with a device that waits or fails when the test says so."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_infer import clock
from edge_infer.errors import ConfigError, EdgeInferError, Mistake
from edge_infer.messages.command import ACTUATING, AT_DEVICE, VERBS
from edge_infer.outbox import Counts
from edge_infer.remote import commands as module
from edge_infer.remote.audit import COMMANDS, FOLDER, PARTS
from edge_infer.remote.commands import QUEUES
from edge_infer.remote.freshness import LONGEST_S
from edge_infer.remote.memory import NAME
from edge_infer.remote.recent import KEPT
from edge_infer.result import Result
from tests.support.frames import frame
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX
from tests.support.remote import Asker, Commanded, commanded, until
from tests.support.results import result
from tests.support.subscriber import subscribed

REPLIES = "vision/v1/rsp/#"
GOOD: dict[str, dict[str, Any]] = {
    "cap/set_threshold": {"rule": "no-tear", "value": 0.5},
    "cap/select_recipe": {"recipeId": "blue"},
    "cap/reset_counts": {},
    "reload": {},
}


def _audited(one: Commanded, name: str = COMMANDS) -> list[dict[str, Any]]:
    path = one.state / FOLDER / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_request_is_carried_out_and_answered_with_its_correlation(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        answer = asker.ask("cap/set_threshold", {"value": 0.25}, correlation=b"c-1", user=("user", "mes"))
        assert one.levers.done == [("set_threshold", "cap", None, 0.25, "MQTT, claims to be 'mes'")]
        assert answer.keys() == {"status", "code", "message", "data", "correlationId", "ts"}
        assert (answer["status"], answer["correlationId"]) == ("ok", "c-1")
        (message,) = subscriber.on("rsp/mes")
        assert message.user == {"schema": "reply/1"}
        assert asker.ask("cap/select_recipe", {"recipeId": None})["data"] == {"recipeId": None}
        assert asker.ask("reload")["data"] == {"changes": ["stations.cap.rules"]}
        assert asker.ask("cap/reset_counts")["status"] == "ok"
        assert asker.ask("ping", b"", correlation=b"\xff\x00")["correlationId"] == "ff00"


def test_only_what_is_allowed_is_listened_to(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path, allow=["ping"]) as one:
        asker = Asker(subscriber)
        for verb in ACTUATING:
            asker.send(f"cap/{verb}", {}, response_topic=asker.answers)
            asker.send(verb, {}, response_topic=asker.answers)
        assert asker.ask("ping")["status"] == "ok"
        assert len(subscriber.on("rsp/mes")) == 1
        heard = {
            line.split("/cmd/")[1].split()[0]
            for line in mosquitto.log.splitlines()
            if f"{PREFIX}/" in line and "/cmd/" in line and "(QoS" in line
        }
        assert heard == {"ping", "start_single_job"}
        assert one.levers.done == []


@pytest.mark.parametrize(
    "hostile",
    [
        "vision/v1/plant1/l3/other/cap/cmd/start_single_job",
        f"{PREFIX}/cap/decision",
        "vision/v1/rspx/mes",
        "vision/v1/rsp/",
        "vision/v1/rsp/" + "x" * 300,
        "vision/v1/rsp/a\u0085b",
    ],
)
def test_who_wants_the_answer_elsewhere_gets_none_and_nothing_is_done(
    hostile: str, mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with subscribed(mosquitto, "#") as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        payload = {"value": 0.5, "replyTo": hostile}
        asker.send("cap/set_threshold", payload, correlation=b"h")
        if hostile.isprintable():
            asker.send("cap/set_threshold", {"value": 0.5}, correlation=b"h", response_topic=hostile)
            asker.send("cap/start_single_job", {"partId": "A"}, response_topic=hostile)
        else:
            asker.send("cap/start_single_job", {"partId": "A", "replyTo": hostile})
        assert asker.ask("cap/set_threshold", {"value": 0.75})["status"] == "ok"
        assert [done[3] for done in one.levers.done] == [0.75]
        sent = [
            m
            for m in subscriber.on(hostile)
            if b'"value": 0.5' not in m.payload and b"partId" not in m.payload
        ]
        assert sent == []
        assert one.device.publisher.stats.connections == 1
        until(lambda: len(_audited(one, PARTS)) == 1 and _audited(one)[-1]["code"] == "done", "audited")
        assert {line["code"] for line in _audited(one)} == {"bad_response_topic", "done"}
    assert "only topics below vision/v1/rsp/ are answered" in caplog.text


@pytest.mark.parametrize("verb", GOOD)
def test_what_actuates_without_expiry_or_too_late_is_refused(
    verb: str, mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "synced", lambda: True)
    now = datetime.now(UTC)
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        past, far = (now - timedelta(seconds=1)).isoformat(), (now + timedelta(days=9)).isoformat()
        assert asker.ask(verb, GOOD[verb], expiry_s=None)["code"] == "no_expiry"
        assert asker.ask(verb, {**GOOD[verb], "expiresAt": past}, expiry_s=None)["code"] == "expired"
        assert asker.ask(verb, {**GOOD[verb], "expiresAt": far}, expiry_s=None)["code"] == "expires_too_late"
        assert asker.ask(verb, GOOD[verb], expiry_s=LONGEST_S + 1)["code"] == "expires_too_late"
        soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
        monkeypatch.setattr(clock, "synced", lambda: False)
        assert asker.ask(verb, {**GOOD[verb], "expiresAt": soon}, expiry_s=None)["code"] == "clock_not_synced"
        assert one.levers.done == []
        monkeypatch.setattr(clock, "synced", lambda: None)
        assert asker.ask(verb, {**GOOD[verb], "expiresAt": soon}, expiry_s=None)["status"] == "ok"


def test_a_change_that_became_stale_behind_a_slow_one_is_not_made(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        one.levers.go.clear()
        asker.send("reload", {})
        assert one.levers.begun.acquire(timeout=5)
        asker.send(
            "cap/set_threshold", {"value": 0.5}, expiry_s=1, correlation=b"c", response_topic=asker.answers
        )
        time.sleep(1.2)  # the expiry of MQTT is in whole seconds
        one.levers.go.set()
        (answer,) = subscriber.wait_on("rsp/mes")
        assert answer.json["code"] == "expired"
        assert [done[0] for done in one.levers.done] == ["reload"]


def test_a_repetition_is_answered_as_the_first_was_and_marked(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber:
        with commanded(mosquitto, tmp_path) as one:
            asker = Asker(subscriber)
            for verb, payload in GOOD.items():
                first = asker.ask(verb, payload, correlation=verb.encode())
                again = asker.ask(verb, payload, correlation=verb.encode(), expiry_s=60)
                assert again.pop("dup") is True
                assert {**again, "ts": ""} == {**first, "ts": ""}
            assert len(one.levers.done) == len(GOOD) - 1
            reused = asker.ask("cap/set_threshold", {"value": 0.9}, correlation=b"cap/set_threshold")
            assert reused["code"] == "correlation_reused"
            other = Asker(subscriber, answers="vision/v1/rsp/other")
            assert "dup" not in other.ask("reload", {}, correlation=b"reload")
            first_pings = [asker.ask("ping", correlation=b"p") for _ in range(2)]
            assert [answer.get("dup") for answer in first_pings] == [None, None]
        # another process has what this one left
        with commanded(mosquitto, tmp_path) as one:
            assert asker.ask("reload", {}, correlation=b"reload")["dup"] is True
            assert one.levers.done == []


def test_a_change_that_a_kill_interrupted_is_not_made_again(mosquitto: Mosquitto, tmp_path: Path) -> None:
    from edge_infer.remote.memory import DiskMemory

    with subscribed(mosquitto, REPLIES) as subscriber:
        with commanded(mosquitto, tmp_path) as one:
            one.levers.go.clear()
            asker = Asker(subscriber)
            asker.send("reload", {}, correlation=b"k", response_topic=asker.answers)
            assert one.levers.begun.acquire(timeout=5)
            # what a process that is started now would find
            copy = DiskMemory(tmp_path, "b0")
            key = (asker.answers, b"k")
            with pytest.raises(Exception, match="another request"):
                copy.begin(key, "f")
            copy.close()
            one.commands._done.close()
            one.levers.error = RuntimeError("killed")
            one.commands._done.finish = lambda *_: None  # type: ignore[method-assign]
        with commanded(mosquitto, tmp_path) as one:
            answer = asker.ask("reload", {}, correlation=b"k")
            assert (answer["status"], answer["code"], answer["dup"]) == ("error", "interrupted", True)
            assert one.levers.done == []


def test_parts_and_questions_do_not_wait_for_slow_changes_nor_changes_for_parts(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        one.levers.go.clear()
        asker.send("reload", {})
        asker.send("cap/snapshot", {})
        assert one.levers.begun.acquire(timeout=5)
        assert one.levers.begun.acquire(timeout=5)
        began = time.monotonic()
        for i in range(20):
            assert (
                asker.ask("cap/start_single_job", {"partId": f"A-{i}"}, expiry_s=None)["code"] == "accepted"
            )
            assert asker.ask("ping")["status"] == "ok"
        assert time.monotonic() - began < 5
        for i in range(QUEUES["changes"] + 2):
            asker.send(
                "cap/set_threshold", {"value": 0.5}, correlation=str(i).encode(), response_topic=asker.answers
            )
        answers = subscriber.wait_for(
            lambda _: sum(m.json["code"] == "queue_full" for m in subscriber.on("rsp/mes")) == 2
        )
        assert {m.json["status"] for m in answers if m.json["code"] == "queue_full"} == {"busy"}
        one.levers.go.set()
        until(
            lambda: sum(done[0] == "set_threshold" for done in one.levers.done) == QUEUES["changes"], "done"
        )


def test_a_full_queue_of_parts_is_told_busy_and_the_station_is_not_asked(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(QUEUES, "parts", 20)
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        never = threading.Event()
        monkeypatch.setattr(one.device.outbox, "accept_trigger", lambda *_: never)
        began = time.monotonic()
        for i in range(50):
            number = str(i).encode()
            asker.send(
                "cap/start_single_job",
                {"partId": f"A-{i}"},
                correlation=number,
                response_topic=asker.answers,
            )
        answers = subscriber.wait_on("rsp/mes", 50)
        # the disk hangs for all of them together, not for one after the other
        assert time.monotonic() - began < 5
        codes = [message.json["code"] for message in answers]
        assert set(codes) == {"not_stored", "queue_full"}
        asked = [i for i in range(50) if one.station.known(f"A-{i}") is not None]
        assert len(asked) == codes.count("not_stored") <= 22


def test_a_part_that_the_outbox_cannot_take_is_told_busy_and_may_be_asked_for_again(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        monkeypatch.setattr(one.device.outbox._handover, "_limit", 0)
        answer = asker.ask("cap/start_single_job", {"partId": "A-1"}, correlation=b"c-1")
        assert (answer["status"], answer["code"]) == ("busy", "queue_full")
        assert one.station.known("A-1") is None
        monkeypatch.undo()
        answer = asker.ask("cap/start_single_job", {"partId": "A-1"}, correlation=b"c-1")
        assert (answer["status"], answer["code"]) == ("ok", "accepted")
        assert one.station.known("A-1") is not None


def test_a_result_right_after_a_reset_is_in_the_counts_that_are_told_last(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        outbox, publisher = one.device.outbox, one.device.publisher
        read = outbox.counts

        def committed(_: Result) -> None:
            publisher.counts("cap", read("cap"))

        def read_slowly(station: str) -> Counts:
            found = read(station)
            if threading.current_thread().name.startswith("commands-"):
                one.device.put(result("cap", "OK"), committed)
                assert outbox.flush(5)
                one.device.delivered()
            return found

        monkeypatch.setattr(outbox, "counts", read_slowly)
        one.device.put(result("cap", "NOK"), committed)
        assert Asker(subscriber).ask("cap/reset_counts")["status"] == "ok"
        final = read("cap")
    with subscribed(mosquitto, f"{PREFIX}/cap/counts") as later:
        told = later.wait_on("counts")[0].json
        assert (told["OK"], told["NOK"]) == (final.ok, final.nok)
        assert final.nok == 0


def test_a_command_that_hangs_does_not_keep_the_service_from_stopping(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        one.levers.go.clear()
        for verb in ("reload", "cap/snapshot"):
            asker.send(verb, {})
            assert one.levers.begun.acquire(timeout=5)
        with one.commands._done._lock:
            began = time.monotonic()
            assert not one.commands.close()
            assert time.monotonic() - began < 1.0
        late = asker.ask("ping")
        assert (late["status"], late["code"]) == ("busy", "stopping")


def test_who_asks_too_often_is_told_busy_and_others_are_not(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, REPLIES) as subscriber,
        commanded(mosquitto, tmp_path, per_minute=3) as one,
    ):
        asker, other = Asker(subscriber), Asker(subscriber, answers="vision/v1/rsp/other")
        codes = [asker.ask("ping")["code"] for _ in range(5)]
        assert codes == ["pong"] * 3 + ["rate_limit"] * 2
        assert other.ask("ping")["code"] == "pong"
        assert asker.ask("get_status")["status"] == "ok"
        for i in range(20):
            assert asker.ask("cap/start_single_job", {"partId": f"A-{i}"})["status"] == "ok"
        until(lambda: any(line["code"] == "rate_limit" for line in _audited(one)), "audited")


def test_a_flood_of_refusals_is_not_answered_without_end_and_others_still_are(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSALS_PER_MINUTE", 20)
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path):
        for i in range(60):
            topic = f"vision/v1/rsp/flood/{i}"
            Asker(subscriber, answers=topic).send("ping", b"bad", response_topic=topic)
        assert Asker(subscriber).ask("ping")["code"] == "pong"
        assert len([one for one in subscriber.messages if "flood" in one.topic]) == 20


def test_a_bug_in_a_verb_and_a_refusal_of_the_device_are_answered_and_end_nothing(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        one.levers.error = RuntimeError("secret detail")
        answer = asker.ask("cap/set_threshold", {"value": 0.5})
        assert (answer["status"], answer["code"]) == ("error", "internal")
        assert "secret" not in str(answer)
        one.levers.error = EdgeInferError("there is no recipe blue", hint="did you mean blau?")
        answer = asker.ask("cap/select_recipe", {"recipeId": "blue"})
        assert (answer["status"], answer["message"]) == (
            "rejected",
            "there is no recipe blue; did you mean blau?",
        )
        one.levers.error = ConfigError([Mistake("site.yaml", 3, 1, "line", "is missing")])
        answer = asker.ask("reload")
        assert (answer["code"], answer["data"]) == (
            "bad_configuration",
            {"mistakes": ["site.yaml:3:1: line: is missing"]},
        )
        one.levers.error = None
        assert asker.ask("reload")["status"] == "ok"
    assert "secret detail" in caplog.text


def test_a_change_that_the_disk_does_not_take_is_an_error_and_not_a_refusal(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        one.levers.error = EdgeInferError("the choice cannot be stored")
        one.levers.error.__cause__ = OSError("no space left on device")
        answer = asker.ask("cap/select_recipe", {"recipeId": "blue"})
        assert (answer["status"], answer["code"]) == ("error", "not_stored")
        one.commands._done.close()
        for path in tmp_path.glob(f"{NAME}*"):
            path.unlink()
        (tmp_path / NAME).mkdir()
        answer = asker.ask("cap/select_recipe", {"recipeId": None})
        assert (answer["status"], answer["code"]) == ("error", "not_stored")
        assert one.levers.done == []


def test_the_status_shows_no_decision_that_may_not_be_believed_any_more(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        assert asker.ask("cap/get_status")["data"]["decision"] is None
        old = result("cap", "OK", created=datetime.now(UTC) - timedelta(seconds=5))
        one.recent.decide(old)
        assert asker.ask("cap/get_status")["data"]["decision"] is None
        new = result("cap", "NOK")
        one.recent.decide(new)
        told = asker.ask("get_status")["data"]["stations"][0]["decision"]
        assert (told["decision"], told["resultId"]) == ("NOK", new.result_id)
        # as old as the frame, not as the result
        assert told["validUntil"] < (new.creation_time + timedelta(seconds=5)).isoformat()


def test_the_newest_results_are_kept_and_no_more(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        assert asker.ask("cap/get_result")["code"] == "not_found"
        results = [result("cap", part_id=f"A-{i // 2}") for i in range(KEPT + 10)]
        for made in results:
            one.recent.commit(made)
        assert asker.ask("cap/get_result")["data"]["result"]["resultId"] == results[-1].result_id
        last = asker.ask("cap/get_result", {"partId": "A-30"})["data"]["result"]
        assert last["resultId"] == results[61].result_id
        assert asker.ask("cap/get_result", {"resultId": results[9].result_id})["code"] == "not_found"


def test_a_snapshot_without_a_frame_or_a_broker_that_takes_it_is_told(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        subscribed(mosquitto, REPLIES) as subscriber,
        commanded(mosquitto, tmp_path, max_image_bytes=1000) as one,
    ):
        asker = Asker(subscriber)
        assert asker.ask("cap/snapshot")["code"] == "no_frame"
        assert asker.ask("cap/snapshot", {"kind": "drawn"})["code"] == "no_frame"
        noise = np.random.default_rng(1).integers(0, 255, (480, 640, 3)).astype(np.uint8)
        one.levers.frame = replace(frame(), pixels=noise)
        # smaller and smaller, until it would show nothing
        answer = asker.ask("cap/snapshot")
        assert (answer["status"], answer["code"]) == ("error", "not_sent")


def test_commands_are_answered_after_a_broker_that_was_slow_or_away(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "broker") as broker,
        subscribed(broker, REPLIES) as subscriber,
        commanded(broker, tmp_path / "state") as one,
    ):
        asker = Asker(subscriber)
        one.levers.go.clear()
        asker.send("reload", {}, correlation=b"r", response_topic=asker.answers)
        assert one.levers.begun.acquire(timeout=5)
        broker.freeze()
        one.levers.go.set()
        time.sleep(0.5)  # the answer is written into a connection that nobody reads
        broker.thaw()
        assert subscriber.wait_on("rsp/mes")[0].json["status"] == "ok"
        one.levers.go.clear()
        asker.send("reload", {}, correlation=b"r2", response_topic=asker.answers)
        assert one.levers.begun.acquire(timeout=5)
        broker.kill()
        one.levers.go.set()
        broker.start()
        subscriber.listening()
        until(lambda: one.device.publisher.stats.connections == 2, "connected again")
        # the answer may have gone down with the broker: whoever misses it asks again
        answer = asker.ask("reload", {}, correlation=b"r2")
        assert (answer["status"], answer["dup"]) == ("ok", True)
        assert len(one.levers.done) == 2


def test_everything_is_audited_with_who_claims_to_ask_and_without_control_characters(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        asker.ask("cap/set_threshold", {"value": 0.5, "rule": "a\nforged"}, user=("user", "MES 7"))
        asker.ask("cap/set_threshold", b'{"value": "\x1b[2J"}', user=("user", "x"))
        asker.ask("cap/start_single_job", {"partId": "A-1"})
        until(lambda: len(_audited(one)) == 2 and len(_audited(one, PARTS)) == 1, "audited")
        done, refused = _audited(one)
        assert (done["claimedBy"], done["request"]) == ("MES 7", {"rule": "a\nforged", "value": 0.5})
        assert (refused["claimedBy"], refused["code"], refused["request"]) == ("x", "bad_request", {})
        assert _audited(one, PARTS)[0]["request"] == {"partId": "A-1"}
    assert not any(not record.getMessage().isprintable() for record in caplog.records)


def test_a_part_of_a_plain_script_is_inspected_and_one_with_another_recipe_is_not(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, "#") as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        subscriber.client.publish(f"{PREFIX}/cap/cmd/start_single_job", '{"partId": "A-1"}', qos=1)
        until(lambda: one.station.known("A-1") is not None, "asked")
        again = asker.ask("cap/start_single_job", {"partId": "A-1"}, expiry_s=None)
        assert (again["code"], again["message"]) == ("accepted", "this part waits already")
        refused = asker.ask("cap/start_single_job", {"partId": "A-2", "recipeId": "blue"})
        assert refused["code"] == "other_recipe"
        assert one.station.known("A-2") is None
        first = asker.ask("cap/start_single_job", {"partId": "A-3"}, correlation=b"c")
        twice = asker.ask("cap/start_single_job", {"partId": "A-3"}, correlation=b"c")
        assert (twice["data"], twice["dup"]) == (first["data"], True)
        # a script that never changes its correlation data gets its parts inspected
        assert "dup" not in asker.ask("cap/start_single_job", {"partId": "A-4"}, correlation=b"c")


def test_a_requester_that_speaks_3_1_1_asks_and_is_answered_by_the_payload(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "synced", lambda: True)
    with (
        subscribed(mosquitto, REPLIES, v5=False) as subscriber,
        commanded(mosquitto, tmp_path, protocol="3.1.1") as one,
    ):

        def ask(verb: str, **payload: Any) -> Any:
            before = len(subscriber.on("rsp/plc"))
            text = json.dumps({"replyTo": "vision/v1/rsp/plc", "correlationId": "7", **payload})
            subscriber.client.publish(f"{PREFIX}/{verb}", text, qos=1)
            return subscriber.wait_on("rsp/plc", before + 1)[-1].json

        soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
        assert ask("cmd/ping")["correlationId"] == "7"
        assert ask("cap/cmd/start_single_job", partId="A-1")["code"] == "accepted"
        assert ask("cap/cmd/set_threshold", value=0.5)["code"] == "no_expiry"
        assert ask("cap/cmd/set_threshold", value=0.5, expiresAt=soon)["status"] == "ok"
        later = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
        assert ask("cap/cmd/set_threshold", value=0.5, expiresAt=later)["dup"] is True
        # what cannot be read as the verb wants it is answered too, where it says where
        assert ask("cap/cmd/set_threshold", value="high")["code"] == "bad_request"
        assert len(one.levers.done) == 1


def test_hundreds_of_hostile_messages_end_nothing_and_do_nothing(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    dice = random.Random(3)  # noqa: S311 - no secret
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        wild = [b"[" * 4000, b"\xff" * 100, b'{"value": NaN}', b'{"value": 1e999}', b"{" * 50, b"0" * 60_000]
        for i in range(400):
            verb = dice.choice(VERBS)
            payload = dice.choice([*wild, dice.randbytes(dice.randrange(200))])
            topic = None if i % 3 else f"vision/v1/rsp/{i}"
            correlation = dice.choice([None, dice.randbytes(dice.randrange(1, 400))])
            where = verb if verb in AT_DEVICE else f"cap/{verb}"
            asker.send(
                where,
                payload,
                expiry_s=dice.choice([None, 1, 2**32 - 1]),
                response_topic=topic,
                correlation=correlation,
            )
        assert asker.ask("ping")["status"] == "ok"
        assert asker.ask("cap/start_single_job", {"partId": "A-1"})["status"] == "ok"
        assert asker.ask("cap/set_threshold", {"value": 0.5})["status"] == "ok"
        assert len(one.levers.done) == 1
        assert one.device.publisher.stats.connections == 1


def test_a_message_too_large_for_any_request_is_not_even_received(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path) as one:
        asker = Asker(subscriber)
        asker.send("ping", b'{"x": "' + b"x" * 5_000_000 + b'"}', response_topic=asker.answers)
        assert asker.ask("ping")["status"] == "ok"
        assert len(subscriber.on("rsp/mes")) == 1
        assert one.device.publisher.stats.connections == 1


def _times(asker: Asker, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.monotonic()
        asker.ask("ping")
        times.append((time.monotonic() - began) * 1000)
    return sorted(times)


def test_an_answer_comes_within_milliseconds(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with subscribed(mosquitto, REPLIES) as subscriber, commanded(mosquitto, tmp_path):
        sock: Any = subscriber.client.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = _times(Asker(subscriber), 200)
        print(f"\nping: p50 {times[100]:.1f} ms, p99 {times[197]:.1f} ms")  # noqa: T201 - a figure for people
        # with Nagle's algorithm on either side each would be 40; on a busy machine some are
        assert times[20] < 30
