"""SIGHUP: the operator's file is read again; its outcome is told in the log and as an event."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from edge_infer.changeover.configurations import Configurations
from edge_infer.errors import EdgeInferError

log = logging.getLogger(__name__)


class ReloadBySignal:
    """`ask` in the signal's handler, `look` often in the thread that keeps deadlines: none waits for disks.

    Signals that come while a reload goes on are one more reload after it.
    """

    def __init__(self, *, begins: Callable[[], None], ends: Callable[[], None]) -> None:
        """Both are called by the thread that reloads, ``ends`` whatever came of it."""
        self._begins = begins
        self._ends = ends
        # a plain flag: the handler may come while this thread holds an event's lock
        self._asked = False
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Safe in a signal handler."""
        self._asked = True

    def look(self, configurations: Configurations | None) -> None:
        """Begin where it was asked for; None: the service still starts, it is done later."""
        if not self._asked or configurations is None:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._asked = False
        self._thread = threading.Thread(
            target=self._reload, args=(configurations,), name="reload", daemon=True
        )
        self._thread.start()

    def _reload(self, configurations: Configurations) -> None:
        self._begins()
        try:
            configurations.reload(by="SIGHUP")
        except EdgeInferError:
            pass  # told in the log and as an event
        except Exception:
            # what runs goes on: a configuration that was not applied changes nothing
            log.exception("a bug while the configuration was read again")
        finally:
            self._ends()
