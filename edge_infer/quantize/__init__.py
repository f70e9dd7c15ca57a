"""Makes an INT8 network of a float one, in a process of its own: it takes memory, warns and may crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edge_infer.errors import EdgeInferError
from edge_infer.telemetry import switch_off
from edge_infer.tensor import Tensor

# NNCF reports at its import, and so does what it imports
switch_off()

METHODS = {
    "nncf": "edge_infer.quantize.nncf:quantise",
    "nncf-dense": "edge_infer.quantize.nncf:quantise_dense",
    "onnxruntime-qdq": "edge_infer.quantize.qdq:quantise",
}
"""How -> what does it, in the child."""
NEEDS = {"nncf": ("nncf",), "nncf-dense": ("nncf",), "onnxruntime-qdq": ("onnx", "onnxruntime")}
"""How -> the packages that must be installed."""
SUFFIX = {"nncf": ".xml", "nncf-dense": ".xml", "onnxruntime-qdq": ".onnx"}
"""How -> of the file it makes; an .xml has its .bin beside it."""
LONGEST_S = 3600.0
"""Seconds that it may take."""
_COMMAND: Sequence[str] = (sys.executable, "-m", "edge_infer.quantize")
_SHOWN = 300


class QuantizeError(EdgeInferError):
    """A network that cannot be quantised in this way."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the child is told."""

    method: str
    """A name in ``METHODS``."""
    network: str
    out: str
    """The file to make."""
    picture: str
    """The network's input that the tensors are for."""
    tensors: str
    """An .npy file, (frames, batch, ...): each one as inference would feed it."""
    others: str
    """An .npz file: what the network's other inputs get."""
    answer: str
    """Where the child says how it went."""
    parent: int
    """The process that waits; the child does not outlive it."""


def missing(method: str) -> list[str]:
    """The packages that are not installed."""
    return [package for package in NEEDS[method] if find_spec(package) is None]


def quantise(
    method: str, network: Path, out: Path, *, picture: str, tensors: Path, others: Mapping[str, Tensor]
) -> Path:
    """The INT8 network, at ``out``; QuantizeError with the reason where it cannot be made.

    ``tensors``: an .npy file, (frames, batch, ...), of what inference feeds to the input ``picture``.
    """
    beside, answer = out.with_suffix(".inputs.npz"), out.with_suffix(".answer.json")
    # mypy takes a name for savez's own `allow_pickle`
    np.savez(beside, **dict(others))  # type: ignore[arg-type]
    job = Job(method, str(network), str(out), picture, str(tensors), str(beside), str(answer), os.getpid())
    try:
        done = subprocess.run(
            [*_COMMAND, json.dumps(asdict(job))],
            # ^C is for the parent, which ends the child
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LONGEST_S,
            check=False, start_new_session=True,
        )  # fmt: skip
        said = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
    except subprocess.TimeoutExpired as error:
        raise QuantizeError(f"{method} was not done after {LONGEST_S / 60:g} minutes") from error
    except (OSError, ValueError) as error:
        raise QuantizeError(f"{method} cannot be run: {error}") from error
    finally:
        beside.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    if done.returncode != 0 or not out.is_file():
        raise QuantizeError(f"{method} cannot quantise it: {said.get('error') or _ending(done)}")
    return out


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"its process died of {signal.Signals(-done.returncode).name}"
    said = " ".join(done.stderr.decode(errors="replace").split())
    return said[-_SHOWN:] or f"its process ended with {done.returncode}"
