"""AsyncAPI document and schemas: made from the code, and right in the eyes of those who wrote the rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from edge_infer.messages import schemas
from edge_infer.messages.topics import TOPICS
from tests.support import node

DOCS = Path(__file__).parents[2] / "docs"
WARNING = 1
"""Of the parser; 0 is an error, 2 and 3 are hints."""
ASYNCAPI = DOCS / "asyncapi.yaml"
PACKAGE = Path(__file__).parents[2] / "edge_infer"


def parsed(*texts: str) -> list[tuple[list[dict[str, Any]], list[str] | None]]:
    """What AsyncAPI's own parser has against each (errors and warnings), and the operations it found."""
    done = node.run("asyncapi.js", text=json.dumps(texts))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [([r for r in one["remarks"] if r["severity"] <= WARNING], one["operations"]) for one in answers]


def test_the_committed_documents_are_what_the_code_says() -> None:
    command = [sys.executable, str(DOCS / "schema/generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_asyncapis_own_parser_has_nothing_against_the_document() -> None:
    ((remarks, operations),) = parsed(ASYNCAPI.read_text())
    assert remarks == []
    assert operations is not None
    assert len(operations) == len(TOPICS) - 1


def _without_channel(document: dict[str, Any]) -> None:
    del document["channels"]["result"]


def _without_parameter(document: dict[str, Any]) -> None:
    document["channels"]["result"]["address"] += "/{nobody}"


def _bad_action(document: dict[str, Any]) -> None:
    document["operations"]["result"]["action"] = "shout"


def _bad_schema(document: dict[str, Any]) -> None:
    document["components"]["schemas"]["result-1"]["type"] = "thing"


def _bad_reference(document: dict[str, Any]) -> None:
    document["components"]["messages"]["gap"]["payload"] = {"$ref": "#/components/schemas/none"}


BROKEN = (_without_channel, _without_parameter, _bad_action, _bad_schema, _bad_reference)


def test_every_broken_document_is_rejected() -> None:
    whole = json.dumps(yaml.safe_load(ASYNCAPI.read_text()))
    texts = []
    for spoil in BROKEN:
        document = json.loads(whole)
        spoil(document)
        texts.append(json.dumps(document))
    # JSON is YAML, and quicker to read
    (unspoiled, _), *answers = parsed(whole, *texts)
    assert unspoiled == []
    assert [spoil for spoil, (remarks, _) in zip(BROKEN, answers, strict=True) if not remarks] == []


def test_every_schema_is_a_schema() -> None:
    for schema in schemas.all_schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_event_in_the_code_is_in_the_table_of_kinds() -> None:
    from edge_infer.messages.kinds import KINDS

    told = set()
    for path in PACKAGE.rglob("*.py"):
        told |= set(
            re.findall(r"(?:event|alarm|_event|_alarm|event_message)\(\s*\"(\w+)\"", path.read_text())
        )
    assert told == set(KINDS)


def test_the_lock_of_the_node_packages_names_no_registry() -> None:
    lock = json.loads((node.SCRIPTS / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert all("resolved" not in one and "integrity" in one for one in packages.values())
    assert "://" not in (node.SCRIPTS / "package.json").read_text()
