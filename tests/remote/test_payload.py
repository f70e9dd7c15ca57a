from __future__ import annotations

import json
import random
from typing import Any

import pytest

from edge_infer.messages.command import (
    REQUESTS,
    GetResult,
    Ping,
    SelectRecipe,
    SetThreshold,
    Snapshot,
    StartSingleJob,
)
from edge_infer.remote.answer import RefusedError
from edge_infer.remote.payload import LARGEST, read_envelope, read_request

HOSTILE = {
    "not UTF-8": b'{"partId": "\xff\xfe"}',
    "UTF-16": '{"partId": "A"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"partId": "A"}',
    "no JSON": b"partId=A-1",
    "half of it": b'{"partId": "A-1"',
    "two of it": b'{"partId": "A-1"}{"partId": "A-2"}',
    "a list": b'["A-1"]',
    "a text": b'"A-1"',
    "a key twice": b'{"partId": "A-1", "partId": "A-2"}',
    "a key twice inside": b'{"partId": "A-1", "x": {"a": 1, "a": 2}}',
    "NaN": b'{"partId": "A-1", "x": NaN}',
    "infinity": b'{"partId": "A-1", "x": -Infinity}',
    "infinity in digits": b'{"partId": "A-1", "x": 1e999}',
    "a number of 3000 digits": b'{"partId": "A-1", "x": ' + b"9" * 3000 + b"}",
    "a fraction of 3000 digits": b'{"partId": "A-1", "x": 0.' + b"9" * 3000 + b"}",
    "a nesting bomb": b"[" * 2000 + b"]" * 2000,
    "a nesting bomb that is never closed": b'{"a":' * 800,
    "a nesting bomb beside a bracket in text": b'{"a": "\\"]]]]", "b": ' + b"[" * 9 + b"]" * 9 + b"}",
    "half a surrogate pair": b'{"partId": "A", "x": "\\ud800"}',
    "larger than a request": b'{"partId": "A", "x": "' + b"x" * LARGEST + b'"}',
    "an empty id": b'{"partId": ""}',
    "an id of 129 characters": json.dumps({"partId": "A" * 129}).encode(),
    "an id with a line break": b'{"partId": "A\\nB"}',
    "an id with NUL": b'{"partId": "A\\u0000"}',
    "a number as id": b'{"partId": 7}',
    "null as id": b'{"partId": null}',
    "no id": b"{}",
    "nothing": b"",
}


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_request_is_refused_without_being_repeated(payload: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        read_request(payload, StartSingleJob)
    assert caught.value.answer.code == "bad_request"
    assert len(caught.value.answer.message) < 400
    assert "A-1" not in caught.value.answer.message.replace('{"partId": "A-1"}', "")
    assert not any(word in caught.value.answer.message for word in ("Input", "String", "\\x00", "pattern"))


def test_a_part_of_a_plain_script_and_one_with_more_arguments_of_opc_are_read() -> None:
    assert read_request(b'{"partId": "A-1"}', StartSingleJob).model_dump()["part_id"] == "A-1"
    more = b'{"partId": "\xe7\x93\xb6 7", "measId": "M", "productId": "P", "recipeId": null, "x": [[[1]]]}'
    read = read_request(more, StartSingleJob)
    assert isinstance(read, StartSingleJob)
    assert read.part_id == "瓶 7"


@pytest.mark.parametrize(
    ("wanted", "written", "told"),
    [
        (SetThreshold, {"value": 0.5, "rul": "cap"}, 'rul: unknown key; did you mean "rule"?'),
        (SetThreshold, {"value": "0.5"}, "value: must be a number"),
        (SetThreshold, {"value": True}, "value: must be a number"),
        (SetThreshold, {"value": 1.5}, "value: must be at most 1"),
        (SetThreshold, {"value": -0.1}, "value: must be at least 0"),
        (SetThreshold, {"value": None}, "value: must be a number"),
        (SetThreshold, {"rule": "cap"}, "value: is missing"),
        (SetThreshold, {"value": 1, "rule": "x" * 101}, "rule: must have at most 100 characters"),
        (SelectRecipe, {}, "recipeId: is missing"),
        (
            SelectRecipe,
            {"recipeId": "../../etc/passwd"},
            "recipeId: cannot be a name: 1 to 40 of A-Z a-z 0-9 _ -",
        ),
        (
            SelectRecipe,
            {"recipe_id": "a"},
            'recipeId: is missing; recipe_id: unknown key; did you mean "recipeId"?',
        ),
        (
            StartSingleJob,
            {"partId": "A\nB"},
            "partId: must have 1 to 128 characters, none of them a control character (line break, tab, NUL)",
        ),
        (GetResult, {"resultId": "cap"}, "resultId: cannot be a result's id: 1 to 36 of 0-9 a-f -"),
        (Snapshot, {"kind": "heat"}, "kind: must be 'raw' or 'drawn'"),
        (
            Ping,
            {"expiresAt": "2026-11-30T12:00:00"},
            'expiresAt: needs its time zone: "2026-11-30T12:00:00Z"',
        ),
        (Ping, {"expiresAt": "today"}, 'expiresAt: must be a time like "2026-11-30T12:00:00Z"'),
        (Ping, {"expiresAt": 1764504000}, 'expiresAt: must be text like "2026-11-30T12:00:00Z"'),
        (Ping, {"correlationId": "x" * 200}, "correlationId: must have at most 128 characters"),
        (Ping, {"correlationId": ""}, "correlationId: must not be empty"),
        (Ping, {"hello": 1}, "hello: unknown key; known: correlationId, expiresAt, replyTo"),
    ],
)
def test_a_key_that_means_nothing_or_a_value_that_does_not_fit_is_refused_in_words(
    wanted: Any, written: Any, told: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        read_request(json.dumps(written).encode(), wanted)
    assert caught.value.answer.message == told


def test_no_payload_is_a_request_without_arguments() -> None:
    assert read_request(b"", Ping) == Ping()
    assert read_request(b'{"recipeId": null}', SelectRecipe).model_dump()["recipe_id"] is None
    assert read_request(b'{"value": 1}', SetThreshold).model_dump()["value"] == 1.0


def test_where_a_refused_request_wants_its_answer_is_still_read() -> None:
    envelope = read_envelope(b'{"replyTo": "vision/v1/rsp/mes", "correlationId": "7", "value": "x"}')
    assert (envelope.reply_to, envelope.correlation_id) == ("vision/v1/rsp/mes", "7")
    for bad in (b"\xff", b'{"replyTo": 7}', b"[]", b"[" * 4000):
        assert read_envelope(bad).reply_to is None


def test_a_thousand_damaged_requests_are_read_or_refused_and_nothing_else() -> None:
    dice = random.Random(7)  # noqa: S311 - no secret
    whole = [
        b'{"partId": "A-1", "measId": "M", "expiresAt": "2026-11-30T12:00:00Z", "replyTo": "rsp/x"}',
        b'{"rule": "no-tear", "value": 0.5, "correlationId": "c"}',
        b'{"kind": "drawn", "a": {"b": [1, 2.5e3, {"c": "\\u00e4"}]}}',
    ]
    for _ in range(1000):
        text = bytearray(dice.choice(whole))
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(text))
            how = dice.randrange(4)
            if how == 0:
                text[at] = dice.randrange(256)
            elif how == 1:
                del text[at : at + dice.randrange(1, 9)]
            elif how == 2:
                text[at:at] = dice.choice(
                    [b"[", b'"', b"\\", b"{", b"1e400", b"NaN", b"\xf0\x9f", b"\\ud800"]
                )
            else:
                text[at:at] = text[: dice.randrange(1, 40)]
            text = text or bytearray(b" ")
        for wanted in REQUESTS.values():
            try:
                assert isinstance(read_request(bytes(text), wanted), wanted)
            except RefusedError as error:
                error.answer.message.encode()
            read_envelope(bytes(text))
