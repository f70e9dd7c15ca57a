from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edge_infer.messages.command import AT_DEVICE, AT_STATION, REQUESTS, VERBS, Reply
from edge_infer.remote.freshness import LONGEST_S
from edge_infer.remote.payload import LARGEST
from edge_infer.remote.verbs import VERBS as WORKED_OFF

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "mqtt.md").read_text()
COMMANDS = TEXT[TEXT.index("\n## Commands\n") : TEXT.index("\n## What a PUBACK")]


def test_each_verb_is_documented_where_it_is_listened_to_and_carried_out() -> None:
    documented = set(re.findall(r"`(\{prefix\}\S*/cmd/\w+)`", COMMANDS))
    stations = {f"{{prefix}}/{{station}}/cmd/{verb}" for verb in AT_STATION}
    assert documented == stations | {f"{{prefix}}/cmd/{verb}" for verb in AT_DEVICE}
    assert set(WORKED_OFF) == set(REQUESTS) == set(VERBS)


def test_each_code_of_an_answer_is_documented() -> None:
    source = "".join(path.read_text() for path in (ROOT / "edge_infer" / "remote").rglob("*.py"))
    codes = set(re.findall(r'(?:RefusedError\(|Answer\("\w+",)\s*"(\w+)"', source))
    assert len(codes) > 20
    assert {code for code in codes if f"`{code}`" not in COMMANDS} == set()


def test_the_answer_in_the_documentation_is_one() -> None:
    found = re.search(r"<!-- example: reply -->\n```json\n(.*?)```", COMMANDS, re.DOTALL)
    assert found
    example = json.loads(found[1])
    assert Reply.model_validate_json(found[1]).model_dump(by_alias=True).keys() == example.keys()


@pytest.mark.parametrize("name", REQUESTS)
def test_each_argument_is_documented(name: str) -> None:
    for key, field in REQUESTS[name].model_fields.items():  # type: ignore[index]
        assert f"`{field.alias or key}`" in COMMANDS


def test_the_limits_in_the_documentation_hold() -> None:
    assert f"at most {LARGEST:,} bytes" in COMMANDS
    assert f"an expiry of at most {LONGEST_S} s" in COMMANDS
