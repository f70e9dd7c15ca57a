"""How far a batch is: a bar with the time left where a person looks, else a line a minute."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from edge_infer.sources import _recording as recording

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from edge_infer.batch.inputs import Inputs
    from edge_infer.batch.journal import Mark
    from edge_infer.batch.judge import Line

TOLD_S = 60.0
"""Between two lines where nobody looks."""


class Progress:
    """Told of every line; writes to standard error only."""

    def __init__(self, inputs: Inputs) -> None:
        self._expected = Expected(inputs)
        self._done = self._new = self._errors = 0
        self._began_s = self._told_s = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
            self._task = self._bar.add_task("frames", total=None, rate="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begun(self, mark: Mark) -> None:
        """So far an earlier run came."""
        self._done, self._errors = mark.lines, mark.errors
        self._began_s = self._told_s = time.monotonic()
        if mark.lines:
            self._tell(f"going on after {mark.lines} lines")
        if self._bar is not None and self._task is not None:
            # lines of another run tell nothing of this one's speed
            self._bar.reset(self._task, total=None, completed=mark.lines)

    def judged(self, line: Line) -> None:
        """One more."""
        self._done += 1
        self._new += 1
        self._errors += line.error
        if self._bar is not None and self._task is not None:
            total = self._expected.total(self._done, *line.after)
            self._bar.update(self._task, completed=self._done, total=total, rate=f"{self._rate():.1f}/s")
            return
        now_s = time.monotonic()
        if now_s - self._told_s >= TOLD_S:
            self._told_s = now_s
            self._tell(self._line(line))

    def assembling(self) -> None:
        """All are there; the output is made from them."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description="assembling", total=None)

    def tell_end(self, out: Path, mark: Mark) -> None:
        """The last line."""
        errors = f", {mark.errors} of them errors" if mark.errors else ""
        rate = f"; {self._new} in {self._spent_s():.1f} s, {self._rate():.1f}/s" if self._new else ""
        click.echo(f"{click.format_filename(out)}: {mark.lines} lines{errors}{rate}", err=True)

    def _line(self, line: Line) -> str:
        total = self._expected.total(self._done, *line.after)
        rate = self._rate()
        if total is None or not rate:
            return f"{self._done} frames, {rate:.1f}/s, {self._errors} errors"
        left_s = round(max(0, total - self._done) / rate)
        left = f"{left_s // 3600}:{left_s // 60 % 60:02}:{left_s % 60:02}"
        return f"{self._done} of {total} frames, {rate:.1f}/s, {self._errors} errors, {left} left"

    def _spent_s(self) -> float:
        return max(1e-6, time.monotonic() - self._began_s)

    def _rate(self) -> float:
        return self._new / self._spent_s()

    def _tell(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            click.echo(text, err=True)


class Expected:
    """How many lines there will be. A video is asked when its turn comes; those to come are taken to be like
    the ones before.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._asked = -1
        self._length: int | None = None
        self._lengths = self._known = 0
        self._later_videos = sum(inputs.is_video(index) for index in range(len(inputs)))

    def total(self, done: int, at: int, frame: int) -> int | None:
        """After ``done`` lines, the next one being ``frame`` of input ``at``; None: unknown."""
        for passed in range(self._asked + 1, min(at + 1, len(self._inputs))):
            self._asked = passed
            self._ask(passed)
        if at >= len(self._inputs):
            return done
        left_here = 1
        if self._inputs.is_video(at):
            if self._length is None:
                return None
            left_here = max(0, self._length - frame)
        later = len(self._inputs) - at - 1 - self._later_videos
        if self._later_videos and not self._known:
            return None
        mean = self._lengths / self._known if self._known else 0
        return done + left_here + later + round(self._later_videos * mean)

    def _ask(self, index: int) -> None:
        if not self._inputs.is_video(index):
            return
        self._later_videos -= 1
        self._length = recording.length(Path(self._inputs.path(index)))
        if self._length is not None:
            self._lengths += self._length
            self._known += 1


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        # rich would send what others print to its own console
        console=Console(stderr=True),
        redirect_stdout=False,
        redirect_stderr=False,
    )
