"""How far the wall clock can be trusted. Inside, time is monotonic; the wall clock only stamps."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

_TIME_ERROR = 5
_TIMESYNCD = Path("/run/systemd/timesync")
OTHERS_S = 3.0
"""For them to answer."""
OTHERS_AGAIN_S = 600.0
"""Between two questions to systemd-timedated."""
STEP_S = 1.0
"""A time service that keeps the clock moves it by less between two looks."""
STEP_AGAIN_S = 60.0
"""A clock that is set again and again is told so often."""


def now() -> datetime:
    """Wall clock, UTC."""
    return datetime.now(UTC)


def boot_id() -> str:
    """Another one after each start of the machine; "unknown" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def synced() -> bool | None:
    """True where a time service keeps the clock; None where nobody knows. See `ask_others`."""
    state = _state()
    return _others.synced if state is None else state != _TIME_ERROR


def ask_others() -> None:
    """Where the kernel may not be asked, learn what other programs say; waits up to `OTHERS_S`."""
    if _state() is None:
        _others.ask()


def _state() -> int | None:
    """The kernel's; None where it cannot be asked: systemd's ProtectClock= forbids the question too."""
    adjtimex = _adjtimex()
    if adjtimex is None:
        return None
    # struct timex is 208 bytes on 64-bit Linux; modes 0 only reads
    state = adjtimex(ctypes.create_string_buffer(512))
    return None if state < 0 else state


class _Others:
    """systemd-timesyncd, which leaves a file, or whoever keeps the clock as systemd-timedated sees it."""

    def __init__(self) -> None:
        self.synced: bool | None = None
        self._next_s = 0.0

    def ask(self) -> None:
        if _TIMESYNCD.is_dir():
            self.synced = (_TIMESYNCD / "synchronized").exists()
        elif (now_s := time.monotonic()) >= self._next_s:
            # not often: systemd starts it for each question and writes so into its journal
            self._next_s = now_s + OTHERS_AGAIN_S
            self.synced = self._timedated()

    def _timedated(self) -> bool | None:
        command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
        try:
            told = subprocess.run(command, capture_output=True, timeout=OTHERS_S, check=True, text=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return {"yes": True, "no": False}.get(told.stdout.strip())


_others = _Others()


@functools.cache
def _adjtimex() -> Callable[[object], int] | None:
    try:
        adjtimex: Callable[[object], int] = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    return adjtimex


def _ahead_s() -> float:
    """Of the time since the machine started, suspended or not: changes only where the clock is set."""
    return now().timestamp() - time.clock_gettime(time.CLOCK_BOOTTIME)


class Step:
    """Notices that the clock was set. Used by one thread."""

    def __init__(self) -> None:
        self._ahead_s = _ahead_s()
        self._next_s = 0.0

    def look(self) -> float | None:
        """By how many seconds the clock was set, None where it was not; often, it costs nothing."""
        ahead_s = _ahead_s()
        by_s = ahead_s - self._ahead_s
        if abs(by_s) < STEP_S:
            self._ahead_s = ahead_s
            return None
        if (now_s := time.monotonic()) < self._next_s:
            # told then, if it is still another one
            return None
        self._next_s = now_s + STEP_AGAIN_S
        self._ahead_s = ahead_s
        return by_s


class Ageing:
    """A clock for what goes when it is too old: set forward, it makes nothing older. Used by one thread.

    What was stamped before such a step looks older than it is, so the step counts only once it is
    ``longest_s`` ago: by then all of that is really too old.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._before: deque[tuple[float, float]] = deque()
        """Until when (since the machine started) the clock was how far ahead, before it was set forward."""
        self._ahead_s = _ahead_s()

    def now_s(self) -> float:
        """Since 1970; not later than the wall clock's."""
        ahead_s, since_start_s = _ahead_s(), time.clock_gettime(time.CLOCK_BOOTTIME)
        if ahead_s > self._ahead_s + STEP_S:
            self._before.append((since_start_s, self._ahead_s))
        self._ahead_s = ahead_s
        while self._before and self._before[0][0] < since_start_s - self._longest_s:
            self._before.popleft()
        return since_start_s + min([ahead_s, *(before_s for _, before_s in self._before)])
