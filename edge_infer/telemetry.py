"""Nothing is reported to anybody."""

from __future__ import annotations

import sys
from types import ModuleType


def switch_off() -> None:
    """Call before the first ``import openvino`` or ``import nncf`` of a process.

    Both report their import and their use to their maker over the internet, and write a client's number into
    the home folder, unless the package that reports is not there.
    """
    # None: importing it fails
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # typed for modules only
    modules.setdefault("openvino_telemetry", None)
