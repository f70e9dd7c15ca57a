"""Networks that can be told apart by what they find, and the command line's side of a reload."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from click.testing import CliRunner

from edge_infer.cli import cli
from edge_infer.errors import EdgeInferError
from edge_infer.model.network_file import sha256
from tests.support import networks


def write_network(folder: Path, bottles: int) -> str:
    """Replace the model's network by one that always finds so many bottles, as a careful copy does: whole.

    Its sha256.
    """
    answer = np.zeros((1, 6, 84), np.float32)
    for index in range(bottles):
        answer[0, :5, index] = [8 + 12 * index, 32, 8, 40, 0.9]
    part = networks.rows(folder / "part.onnx", answer)
    digest = sha256(part)
    part.replace(folder / "model.onnx")
    return digest


def edited(path: Path, **more: Any) -> dict[str, Any]:
    """The site's YAML with other top-level keys, written whole."""
    data: dict[str, Any] = yaml.safe_load(path.read_text()) | more
    part = path.with_suffix(".part")
    part.write_text(yaml.safe_dump(data, sort_keys=False))
    part.replace(path)
    return data


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def ctl(config: Path, *arguments: str) -> Done:
    """``edge-infer ctl ...`` of the service that was started with ``config``."""
    verb, *rest = arguments
    # in this process: loading Python each time would take longer than what is asked
    done = CliRunner().invoke(cli, ["ctl", verb, "--config", str(config), *rest], standalone_mode=False)
    if isinstance(done.exception, EdgeInferError):
        return Done(done.exception.exit_code, done.stdout, str(done.exception))
    assert done.exception is None, done.exc_info
    return Done(done.return_value, done.stdout, done.stderr)


def ctl_process(config: Path, *arguments: str) -> Done:
    """The same as a process of its own, as systemd calls it."""
    verb, *rest = arguments
    command = [sys.executable, "-m", "edge_infer", "ctl", verb, "--config", str(config), *rest]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def status(config: Path) -> Any:
    """What ``ctl status --json`` says."""
    done = ctl(config, "status", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
