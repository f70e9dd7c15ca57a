"""Bytes from a stranger -> a request. Nothing in them may cost much, surprise a reader, or run."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from pydantic import ConfigDict, ValidationError

from edge_infer.messages.command import Request
from edge_infer.remote.answer import RefusedError
from edge_infer.remote.words import in_words

LARGEST = 4096
"""Bytes of a request."""
DEEPEST = 8
"""Objects and arrays inside each other."""
LONGEST_NUMBER = 40
"""Characters."""
MISTAKES = 3
"""Told in the answer."""


def read_request(payload: bytes, wanted: type[Request]) -> Request:
    """RefusedError ``bad_request`` where it is not what the verb wants. No payload at all is ``{}``."""
    _check_json(payload or b"{}")
    try:
        return wanted.model_validate_json(payload or b"{}")
    except ValidationError as error:
        # without the input: the answer goes to whoever asked, the log to everybody
        mistakes = error.errors(include_url=False, include_input=False)
        told = "; ".join(in_words(one, wanted) for one in mistakes[:MISTAKES])
        raise RefusedError("bad_request", told) from None


class _Envelope(Request):
    model_config = ConfigDict(extra="ignore")


def read_envelope(payload: bytes) -> Request:
    """Where a request that is refused wants its answer, as far as that can be read."""
    try:
        _check_json(payload)
        return _Envelope.model_validate_json(payload)
    except (RefusedError, ValidationError):
        return Request()


def _check_json(payload: bytes) -> None:
    if len(payload) > LARGEST:
        _bad(f"{len(payload)} bytes, at most {LARGEST}")
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        _bad("the payload is not UTF-8")
    # before the parser, which follows each bracket with a call of its own
    if _depth(text) > DEEPEST:
        _bad(f"nested deeper than {DEEPEST}")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_each_key_once,
            parse_constant=lambda name: _bad(f"{name} is no JSON"),
            parse_int=_integer,
            parse_float=_number,
        )
        # half a character (\ud800) can be escaped but never sent again
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _bad("half of a surrogate pair is no text")
    except ValueError:
        _bad("the payload is not JSON")
    if not isinstance(value, dict):
        _bad('the payload must be a JSON object like {"partId": "A-1"}')


def _depth(text: str) -> int:
    deepest = depth = 0
    inside = escaped = False
    for sign in text:
        if inside:
            inside = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        elif sign == '"':
            inside = True
        elif sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _bad("a key stands there twice")
    return found


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        _bad(f"a number of {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    if len(text) > LONGEST_NUMBER or not math.isfinite(number := float(text)):
        _bad("a number that is too large or too long")
    return number


def _bad(why: str) -> NoReturn:
    raise RefusedError("bad_request", why)
