"""Nothing is reported to anybody."""

from __future__ import annotations

import sys


def switch_off() -> None:
    """Call before the first ``import openvino`` or ``import nncf`` of a process.

    Both report their import and their use to their maker over the internet, and write a client's number into
    the home folder, unless the package that reports is not there.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] - None: importing it fails
