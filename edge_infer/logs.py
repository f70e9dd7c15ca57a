"""One line a state change, on standard error."""

from __future__ import annotations

import logging
import sys

# systemd reads <N> at the start of a line as the priority
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\\n")
        return f"<{_PRIORITY.get(record.levelno, 6)}>{text}"


def start(*, journal: bool, level: int = logging.INFO) -> None:
    """Send the package's log to standard error; ``journal`` adds systemd's priority prefix."""
    handler = logging.StreamHandler(sys.stderr)
    if journal:
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        )
    root = logging.getLogger("edge_infer")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
