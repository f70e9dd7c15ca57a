"""Nothing is reported to anybody."""

from __future__ import annotations

import os
import sys
from types import ModuleType


def switch_off() -> None:
    """Call before the first import of openvino, nncf or onnxruntime in a process.

    All three report their use to their makers over the internet, and write a number for this machine into
    the home folder: OpenVINO and NNCF unless the package that reports is not there, ONNX Runtime, some
    seconds after its first session, unless the environment forbids it.
    """
    # None: importing it fails
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # typed for modules only
    modules.setdefault("openvino_telemetry", None)
    # its own function comes too late: it has begun when it is imported. Children inherit this
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
