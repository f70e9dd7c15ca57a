"""One line a state change, on standard error; what repeats is counted, no text from outside makes lines."""

from __future__ import annotations

import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

# systemd reads <N> at the start of a line as the priority
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}

WINDOW_S = 60.0
"""The same text again within that time is counted instead of written."""
TEXTS = 20
"""So many different texts of one place in the code are written in that time, however many it says."""
PLACES = 1000
"""So many places are remembered; the text may come from a camera's own process."""
LONGEST = 16_000
"""Characters of a line; journald cuts longer ones into several."""

_Place = tuple[str, str, str]
"""Logger, template, kind of exception: errors of another kind are not hidden by these."""


@dataclass(slots=True)
class _Hidden:
    """Lines that were not written. Not the records: those of exceptions hold on to pictures."""

    level: int
    text: str
    """Of the last one."""
    times: int = 0


@dataclass(slots=True)
class _Window:
    since_s: float
    texts: dict[str, _Hidden]
    """Each was written once. Those that came again last are last: a state is told as it is in the end."""
    others: _Hidden | None = None
    """Of texts beyond `TEXTS`."""


class Repeats:
    """Decides what is written. Not thread-safe."""

    def __init__(self) -> None:
        self._windows: OrderedDict[_Place, _Window] = OrderedDict()

    def shows(self, record: logging.LogRecord, now_s: float) -> bool:
        """True where the line is to be written; ask `over` first."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        place, text = (record.name, str(record.msg), kind), record.getMessage()
        window = self._windows.get(place)
        if window is None:
            window = self._windows[place] = _Window(now_s, {})
            if len(self._windows) > PLACES:
                self._windows.popitem(last=False)
        if text not in window.texts and len(window.texts) < TEXTS:
            window.texts[text] = _Hidden(record.levelno, text)
            return True
        hidden = window.texts.pop(text, None)
        if hidden is not None:
            window.texts[text] = hidden
        else:
            hidden = window.others = window.others or _Hidden(record.levelno, text)
            hidden.level, hidden.text = record.levelno, text
        hidden.times += 1
        return False

    def over(self, now_s: float, *, all_of_them: bool = False) -> Iterable[logging.LogRecord]:
        """What is to be said of windows that have ended; they begin anew with the next record."""
        # the first to end is the first that began
        while self._windows:
            place, window = next(iter(self._windows.items()))
            if now_s - window.since_s < WINDOW_S and not all_of_them:
                return
            del self._windows[place]
            window_s = f"{now_s - window.since_s:.0f} s"
            for one in window.texts.values():
                if one.times:
                    times = "once" if one.times == 1 else f"{one.times} times"
                    yield _summary(place, one, f"repeated {times} in {window_s}")
            if (others := window.others) is not None:
                yield _summary(place, others, f"the last of {others.times} more like it in {window_s}")


def _summary(place: _Place, hidden: _Hidden, how_often: str) -> logging.LogRecord:
    return logging.LogRecord(place[0], hidden.level, "", 0, f"{hidden.text} ({how_often})", None, None)


class _Sparing(logging.StreamHandler):  # type: ignore[type-arg]  # at run time it takes no parameter
    """Writes what is worth a line."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._repeats = Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        # inside the handler's lock
        try:
            self._tell()
            shown = self._repeats.shows(record, time.monotonic())
        except Exception:  # noqa: BLE001 - as in each handler: a line that cannot be made ends nobody's work
            self.handleError(record)
            return
        if shown:
            super().emit(record)

    def tell(self, *, all_of_them: bool = False) -> None:
        """What was counted long enough."""
        self.acquire()
        try:
            self._tell(all_of_them=all_of_them)
        finally:
            self.release()

    def _tell(self, *, all_of_them: bool = False) -> None:
        for summary in self._repeats.over(time.monotonic(), all_of_them=all_of_them):
            super().emit(summary)

    def close(self) -> None:
        """With the counts that nobody was told yet."""
        self.tell(all_of_them=True)
        super().close()


class _PlainFormatter(logging.Formatter):
    """For people: a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return one_line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        text = super().formatException(ei)  # type: ignore[arg-type]  # handed on as it came
        return "\n".join(one_line(line) for line in text.splitlines())


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"<{_PRIORITY.get(record.levelno, 6)}>{one_line(super().format(record))}"


def one_line(text: str) -> str:
    """Without line ends and control characters, which would make lines or colours of their own."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"
    if shown.isprintable():
        return shown
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in shown)


def start(*, journal: bool, level: int = logging.INFO) -> None:
    """Send the package's log to standard error; ``journal`` adds systemd's priority prefix."""
    handler = _Sparing()
    if journal:
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(_PlainFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger("edge_infer")
    for old in root.handlers:
        old.close()
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


def tell_repeats() -> None:
    """What was counted long enough; for whoever goes round anyway, else the next line or the end tells it."""
    for handler in logging.getLogger("edge_infer").handlers:
        if isinstance(handler, _Sparing):
            handler.tell()
