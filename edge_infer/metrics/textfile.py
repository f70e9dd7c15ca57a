"""A file for node_exporter's textfile collector."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edge_infer.wholefile import replacing

log = logging.getLogger(__name__)


class Textfile:
    """Written again and again by a thread of its own; removed at the end: what is left would be believed."""

    def __init__(
        self,
        path: Path,
        text: Callable[[], bytes],
        every_s: float,
        changed: Callable[[str | None], None],
    ) -> None:
        """``changed`` with why it cannot be written, with None once it can again; not at each try."""
        self._path = path
        self._text = text
        self._every_s = every_s
        self._changed = changed
        self._trouble: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics-textfile", daemon=True)

    def start(self) -> None:
        """The first one is written at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; does not wait: a disk may hang under it."""
        self._stopping.set()

    def _run(self) -> None:
        while True:
            try:
                self._write()
            except OSError as error:
                self._tell(f"{self._path}: {error.strerror or error}")
            except Exception as error:
                # numbers are never worth the inspection
                if self._trouble is None:
                    log.exception("the numbers for %s cannot be read", self._path)
                self._tell(f"a bug in edge-infer: {type(error).__name__}: {error}")
            else:
                self._tell(None)
            if self._stopping.wait(self._every_s):
                # where the folder cannot be written it stays, as after a kill
                with suppress(OSError):
                    self._path.unlink()
                return

    def _write(self) -> None:
        text = self._text()
        # a fixed name: a process that is killed leaves at most one behind, and no .prom
        with replacing(self._path, self._path.with_name(f".{self._path.name}.part")) as file:
            # node_exporter is another user
            self._path.with_name(f".{self._path.name}.part").chmod(0o644)
            file.write(text)

    def _tell(self, trouble: str | None) -> None:
        if (trouble is None) != (self._trouble is None):
            self._changed(trouble)
        self._trouble = trouble
