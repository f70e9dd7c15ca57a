"""What a runtime can do here: a program, ``python -m edge_infer.backends.survey RUNTIME [DEVICE...]``.

In a process of its own: one built for another processor, or overwritten by another, may crash or hang.

Prints a JSON object a line, the runtime's first, then one a device.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edge_infer.errors import BackendError

# ONNX, opset 13: y = Relu(x), float32 [1, 1, 2, 2]
_NETWORK = base64.b64decode(
    "CAg6SwoMCgF4EgF5IgRSZWx1EgFnWhsKAXgSFgoUCAESEAoCCAEKAggBCgIIAgoCCAJiGwoBeRIWChQIARIQCgIIAQ"
    "oCCAEKAggCCgIIAkIECgAQDQ=="
)


def onnxruntime(devices: Sequence[str]) -> Iterator[dict[str, Any]]:
    """ONNX Runtime's."""
    import onnxruntime as runtime

    from edge_infer.backends.onnxruntime import provider_of

    where = getattr(runtime, "__file__", None)
    missing = [
        name
        for name in ("InferenceSession", "SessionOptions", "get_available_providers")
        if not hasattr(runtime, name)
    ]
    if missing:
        folder = Path(where).parent if where else next(iter(runtime.__path__), "")
        yield {"trouble": f"is torn: {folder} has no {missing[0]}"}
        return
    names = [name.removesuffix("ExecutionProvider") for name in runtime.get_available_providers()]
    yield {"version": runtime.__version__, "devices": names}
    for device in devices:
        try:
            provider = provider_of(runtime, device)
            options = runtime.SessionOptions()
            options.log_severity_level, options.intra_op_num_threads = 4, 1
            session = runtime.InferenceSession(_NETWORK, options, providers=[provider], enable_fallback=0)
            running = session.get_providers()[0]
            instead = running.removesuffix("ExecutionProvider")
            trouble = None if running == provider else f"a library is missing: it would run on {instead} only"
        except BackendError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - its exceptions have no class in common
            trouble = " ".join(str(error).split())
        yield {"device": device, "trouble": trouble}


def openvino(devices: Sequence[str]) -> Iterator[dict[str, Any]]:
    """OpenVINO's."""
    import openvino as runtime

    from edge_infer.backends.openvino import refuse_absent

    if not hasattr(runtime, "Core"):
        yield {"trouble": f"is torn: {next(iter(runtime.__path__), '')} has no Core"}
        return
    core = runtime.Core()
    yield {"version": str(runtime.__version__).partition("-")[0], "devices": list(core.available_devices)}
    for device in devices:
        try:
            refuse_absent(core, device)
            core.compile_model(core.read_model(_NETWORK), device.upper())
            trouble = None
        except BackendError as error:
            trouble = str(error)
        except (RuntimeError, ValueError) as error:
            trouble = " ".join(str(error).split())
        yield {"device": device, "trouble": trouble}


def main(name: str, *devices: str) -> None:
    """Print what is there, each line as soon as it is known."""
    survey = {"onnxruntime": onnxruntime, "openvino": openvino}[name]
    try:
        for one in survey(devices):
            print(json.dumps(one), flush=True)  # noqa: T201 - a program
    except ImportError as error:
        print(json.dumps({"trouble": f"cannot be loaded: {error}"}), flush=True)  # noqa: T201 - a program


if __name__ == "__main__":
    main(*sys.argv[1:])
