"""The process that quantises: ``python -m edge_infer.quantize JOB``, JOB as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from edge_infer.quantize import METHODS, Job
from edge_infer.registry import resolve

_PR_SET_PDEATHSIG = 1
_SHOWN = 300


def main() -> None:
    """Exit 0 once the network is there, else 1 and the reason in the job's answer."""
    job = Job(**json.loads(sys.argv[1]))
    # it must not go on where the parent is killed
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != job.parent:
        os._exit(1)
    try:
        resolve(METHODS, job.method)(job)
    except Exception as error:  # noqa: BLE001 - whatever a quantiser trips over, the parent is told
        text = " ".join(str(error).split()) or type(error).__name__
        reason = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
        Path(job.answer).write_text(json.dumps({"error": reason}), encoding="utf-8")
        sys.exit(1)


if __name__ == "__main__":
    main()
