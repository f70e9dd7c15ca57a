"""What an NPU cannot run, and compiling for one in a process of its own.

Run as ``python -m edge_infer.backends.npu IR BLOB DEVICE HINTS`` it is that process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_infer.errors import BackendError

if TYPE_CHECKING:
    import openvino

COMPILE_S = 110.0
"""Seconds that a compile may take; usual are 4 to 18."""
_COMMAND: Sequence[str] = (sys.executable, "-m", "edge_infer.backends.npu")
_SUPPRESSING = ("NonMaxSuppression", "MulticlassNms", "MatrixNms", "ExperimentalDetectronDetectionOutput")
_SHOWN = 300


def obstacles(network: openvino.Model) -> tuple[str, ...]:
    """Why this network, as it would be compiled, cannot run on an NPU; nothing: it could."""
    found = []
    for port in network.inputs:
        shape = port.partial_shape
        if shape.is_dynamic:
            found.append(f"the input {port.node.friendly_name} has free sizes: {shape}")
        elif len(shape) == 4 and shape[0].get_length() != 1:
            found.append(f"its batch is fixed at {shape[0].get_length()}, an NPU takes 1")
    operations = network.get_ordered_ops()
    suppressing = [one for one in operations if one.get_type_name().startswith(_SUPPRESSING)]
    if suppressing:
        found.append(f"it suppresses boxes inside ({_named(suppressing[0])}): export it without NMS")
    free = [one for one in operations if any(port.partial_shape.is_dynamic for port in one.outputs())]
    if free and not found:
        found.append(f"sizes inside depend on the picture (first in {_named(free[0])})")
    return tuple(found)


def _named(operation: Any) -> str:
    return f"{operation.get_type_name()} {operation.get_friendly_name()}"


def compile_apart(
    core: openvino.Core, network: openvino.Model, device: str, hints: Mapping[str, str]
) -> openvino.CompiledModel:
    """Compile in a child, which a network may kill that the compiler cannot stand; then BackendError."""
    return core.import_model(compile_blob(network, device, hints), device)


def compile_blob(network: openvino.Model, device: str, hints: Mapping[str, str]) -> bytes:
    """What the device's compiler makes of the network, in a child; BackendError where it makes nothing."""
    import openvino

    try:
        with tempfile.TemporaryDirectory(prefix="edge-infer-") as folder:
            ir, blob = Path(folder, "network.xml"), Path(folder, "network.blob")
            openvino.save_model(network, ir, compress_to_fp16=False)
            done = subprocess.run(
                [*_COMMAND, str(ir), str(blob), device, json.dumps(dict(hints))],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=COMPILE_S, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise BackendError(f"OpenVINO cannot compile for {device}: {_ending(done)}")
            return blob.read_bytes()
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            f"OpenVINO's compiler for {device} was not done after {COMPILE_S:g} s",
            hint="run it on another device, or export a smaller network",
        ) from error
    except OSError as error:
        raise BackendError(
            f"OpenVINO's compiler for {device} cannot be run: {error.strerror}",
            hint=f"it needs room in {tempfile.gettempdir()} for the network twice",
        ) from error


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"its compiler died of {signal.Signals(-done.returncode).name}"
    said = " ".join(done.stderr.decode(errors="replace").split())
    return said[-_SHOWN:] or f"its compiler ended with {done.returncode}"


def _compile(ir: str, blob: str, device: str, hints: str) -> None:
    import openvino

    core = openvino.Core()
    try:
        compiled = core.compile_model(core.read_model(ir), device, json.loads(hints))
        Path(blob).write_bytes(compiled.export_model().getvalue())
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _compile(*sys.argv[1:])
