"""Whatever stands in a label, an error or a name: what is sent is UTF-8, strict JSON, and fits its schema."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_infer.messages.topics import TOPICS
from edge_infer.result import Part, Reason
from tests.messages.test_messages import strict, validate
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, device
from tests.support.remote import Asker, commanded
from tests.support.results import result
from tests.support.subscriber import Received, subscribed

RIGHT_TO_LEFT = "\u200f\u05de\u05db\u05e1\u05d4\u202eabc\u202c"
ODD = (
    "", " ", "瓶盖", "крышка", RIGHT_TO_LEFT, "\U0001f469\u200d\U0001f3ed", "e\u0301", "\u0000", "a\u0000b",
    "\n\r\t\b\f", '"', "\\", "\u2028\u2029", "\ufeff", "\ufffe\uffff", "\U0010ffff", "</script>", "NaN",
    "null", "x" * 100_000, "瓶" * 34_000,
)  # fmt: skip
NOT_UNICODE = ("\ud800", "a\udfffb", "\udcff" * 3)
NUMBERS = (math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324)
BY_NAME = {topic.name: topic for topic in TOPICS}


def fits(message: Received) -> Any:
    """The value, once it is known to be good."""
    name = "reply" if message.topic.startswith("vision/v1/rsp/") else message.topic.rpartition("/")[2]
    value = strict(message.payload)
    validate(BY_NAME[name], value)
    for text in (*message.user.values(), message.topic):
        text.encode("utf-8", errors="strict")
    return value


def test_d13_a_label_in_any_script_arrives_as_it_was(mosquitto: Mosquitto, tmp_path: Path) -> None:
    rng = random.Random(13)  # noqa: S311 - not a secret
    labels = [*ODD, *("".join(map(chr, _code_points(rng))) for _ in range(30))]
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber, device(mosquitto, tmp_path / "o") as one:
        one.connected()
        for label in labels:
            whole = result("cap", "UNDEFINED", label=label, part_id=label or None)
            odd = {"reasons": (Reason(code="damaged", text=label),), "warnings": (label,)}
            one.put(whole.model_copy(update=odd), lambda final: one.publisher.last("cap", final))
        one.delivered(30)
        arrived = [fits(message) for message in subscriber.wait_on("/cap/result", len(labels), 30)]
        assert [value["resultContent"][0]["label"] for value in arrived] == labels
        assert [value["reasons"][0]["text"] for value in arrived] == labels
        fits(subscriber.wait_on("/cap/last")[-1])
        assert one.publisher.stats.connections == 1


def _code_points(rng: random.Random) -> list[int]:
    points = [rng.randrange(0x110000) for _ in range(rng.randrange(1, 50))]
    return [point for point in points if not 0xD800 <= point < 0xE000]


@pytest.mark.parametrize("label", NOT_UNICODE)
def test_text_that_is_no_unicode_costs_its_result_alone_and_is_told(
    label: str, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber, device(mosquitto, tmp_path / "o") as one:
        one.connected()
        one.put(result())
        one.put(result(label=label))
        one.put(result())
        seen = {fits(message)["seq"] for message in subscriber.wait_on("/cap/result", 2)}
        gap = fits(subscriber.wait_on("/cap/gap")[0])
        lost = {number for span in gap["ranges"] for number in range(span["fromSeq"], span["toSeq"] + 1)}
        assert gap["reason"] == "unpublishable"
        assert seen | lost == {1, 2, 3}
        assert not seen & lost


def test_d15_no_event_or_answer_breaks_json_whatever_it_holds(mosquitto: Mosquitto, tmp_path: Path) -> None:
    odd = [*ODD, *NOT_UNICODE]
    with (
        subscribed(mosquitto, f"{PREFIX}/#", "vision/v1/rsp/#") as subscriber,
        commanded(mosquitto, tmp_path) as one,
    ):
        for text in odd:
            one.device.publisher.event("camera", {"camera": text, "state": "lost", "text": text})
            one.device.publisher.event(text, {text: [text, *NUMBERS]}, text)
        events = [fits(message) for message in subscriber.wait_on("/event", 2 * len(odd), 30)]
        assert {event["kind"] for event in events} >= set(ODD)
        lists = [event["data"].popitem()[1] for event in events if event["kind"] != "camera"]
        assert [numbers[1:4] for numbers in lists] == [[None] * 3] * len(odd)
        asker = Asker(subscriber)
        for text in odd:
            # the broker brings the device nothing larger than a packet that it takes
            short = text[:1000]
            asked = json.dumps({"partId": short, "correlationId": short, "x": short}).encode()
            for payload in (asked, asked[:-1]):
                assert asker.ask("cap/get_result", payload)["status"] == "rejected"
        for message in subscriber.on("rsp/mes"):
            fits(message)


def test_d19_a_number_that_is_none_is_refused_by_every_model() -> None:
    """What cannot be made cannot be sent."""
    good = result()
    for number in NUMBERS[:3]:
        for spoil in (
            {"age_ms": number},
            {
                "processing_times": {
                    "start_time": datetime.now(UTC),
                    "end_time": datetime.now(UTC),
                    "processing_duration": number,
                }
            },
            {"result_content": ({"type": "detection", "label": "x", "score": number, "box": (0, 0, 1, 1)},)},
            {"result_content": ({"type": "anomaly", "score": 1, "threshold": number, "hot_box": None},)},
            {"rules": ({"name": "x", "decision": "OK", "seen": number},)},
        ):
            with pytest.raises(ValueError, match="finite"):
                type(good).model_validate(good.model_dump() | spoil)
    models = [topic.payload for topic in TOPICS if isinstance(topic.payload, type)]
    assert all(model.model_config.get("allow_inf_nan") is False for model in _parts(models))


def _parts(models: list[type[Part]]) -> set[type[Part]]:
    found: set[type[Part]] = set()
    waiting = list(Part.__subclasses__())
    while waiting:
        model = waiting.pop()
        found.add(model)
        waiting += model.__subclasses__()
    assert set(models) <= found
    return found
