"""Programs in tests/node, run by the real node with the packages of tests/node/package.json."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "node"
PACKAGES = Path(sys.prefix) / "node" / "node_modules"
"""Where `make test` puts them."""


def command(script: str, *arguments: str) -> list[str]:
    """For a script in tests/node, to be started with `environment`."""
    node = shutil.which("node", path=f"{Path(sys.prefix) / 'bin'}:{os.environ.get('PATH', '')}")
    if node is None or not PACKAGES.is_dir():
        pytest.fail("node or its packages are missing: `make .venv/node.stamp` installs them")
    return [node, str(SCRIPTS / script), *arguments]


def environment() -> dict[str, str]:
    """In which `require` finds the packages."""
    return {**os.environ, "NODE_PATH": str(PACKAGES)}


def run(
    script: str, *arguments: str, text: str = "", timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Its end; ``text`` is its standard input."""
    return subprocess.run(
        command(script, *arguments),
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=timeout_s,
        env=environment(),
    )
