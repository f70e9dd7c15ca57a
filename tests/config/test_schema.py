from __future__ import annotations

from pathlib import Path

import jsonschema

from edge_infer.config.schema import json_schema
from edge_infer.yamlfile import load
from tests.support.sites import write_site


def test_the_schema_accepts_the_site_that_uses_every_key(tmp_path: Path) -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(load(write_site(tmp_path)).data, schema, cls=jsonschema.Draft202012Validator)


def test_every_key_of_the_schema_says_what_it_is() -> None:
    schema = json_schema()
    silent = [
        f"{name}.{key}"
        for name, model in {"": schema, **schema["$defs"]}.items()
        for key, field in model.get("properties", {}).items()
        if not {"description", "const", "$ref"} & field.keys() and key not in SELF_EVIDENT
    ]
    assert silent == []


SELF_EVIDENT = {"k", "n", "at_least", "at_most", "every_s", "consecutive", "user", "password"}
