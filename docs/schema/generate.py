"""Writes the schemas of all messages and the AsyncAPI document: ``python docs/schema/generate.py``.

With ``--check`` it writes nothing and fails where a file is not what the code says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import asyncapi
import yaml

from edge_infer.messages.schemas import all_schemas

HERE = Path(__file__).resolve().parent


def files() -> dict[Path, str]:
    """Each file's text."""
    made = {
        HERE / f"{title.replace('/', '-')}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False)
        + "\n"
        for title, schema in all_schemas().items()
    }
    text = yaml.safe_dump(asyncapi.document(), sort_keys=False, allow_unicode=True, width=110)
    made[HERE.parent / "asyncapi.yaml"] = "# Written by docs/schema/generate.py\n" + text
    return made


def main() -> int:
    """0; 1 where a file differs."""
    made = files()
    if "--check" not in sys.argv:
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    there = {path: path.read_text(encoding="utf-8") for path in made if path.exists()}
    wrong = {path for path, text in made.items() if there.get(path) != text}
    wrong |= set(HERE.glob("*.schema.json")) - made.keys()
    for path in sorted(wrong):
        print(f"{path.name} is not what the code says: run python docs/schema/generate.py")  # noqa: T201 - a program
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
