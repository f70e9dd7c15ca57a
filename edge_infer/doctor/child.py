"""A process of its own for what may crash or hang: then that is a finding, and never our end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of it."""

    lines: tuple[str, ...]
    """Of its standard output, also where it did not live to its end."""
    trouble: str | None
    """None: it ended well. Else how it ended, in words."""
    killed_by: str | None = None
    """The signal's name."""


def run(arguments: Sequence[str], limit_s: float, *, given: str = "") -> Ended:
    """``python -m …`` with ``given`` on its standard input; all that it started ends with it."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Ended((), f"no process could be started: {error.strerror}")
    late = False
    with process:
        try:
            out, err = process.communicate(given, timeout=max(0.1, limit_s))
        except subprocess.TimeoutExpired:
            late = True
            _end(process)
            out, err = process.communicate()
        finally:
            # also what it left behind
            _end(process)
    lines = tuple(out.splitlines())
    if late:
        return Ended(lines, f"hangs: no answer within {limit_s:.0f} s")
    code = process.returncode
    if code < 0:
        name = _signal(-code)
        return Ended(lines, f"was ended by {name}", name)
    said = " ".join(err.split())
    return Ended(lines, None if code == 0 else said[-_SHOWN:] or f"ended with {code}")


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
