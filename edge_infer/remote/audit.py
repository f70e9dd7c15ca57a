"""Who asked for what, and what came of it: a line in the log, and a bounded file that outlives it."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from edge_infer import clock

log = logging.getLogger(__name__)

FOLDER = "audit"
COMMANDS, PARTS = "commands.jsonl", "parts.jsonl"
"""Parts have their own file: a day of them must not push out who changed a threshold."""
LARGEST = 2_000_000
"""Bytes of a file; the one before it is kept as ``.1``."""
WAITING = 1000
"""Lines that wait for a disk that hangs; more are lost, and their number is told."""
REFUSALS = 30
"""Refusals of one kind written each minute; a flood must not push out what was carried out before it."""


class Audit:
    """Thread-safe; a line never waits for the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(WAITING)
        self._lock = threading.Lock()
        self._minute = 0
        self._refusals: Counter[str] = Counter()
        self._lost = 0
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="commands-audit", daemon=True)
        self._thread.start()

    def note(
        self,
        topic: str,
        status: str,
        code: str,
        *,
        claimed_by: str | None,
        part: bool,
        detail: dict[str, Any],
    ) -> None:
        """One request and its outcome; ``detail`` holds only what was checked.

        Of a part that was taken the log has nothing: it has a result.
        """
        refused = status in ("rejected", "busy")
        if refused and self._too_many(f"{topic} {code}"):
            return
        line = {
            "at": clock.now().isoformat(),
            "topic": topic,
            "status": status,
            "code": code,
            # anybody may claim anything: who may send at all is the broker's ACL
            "claimedBy": claimed_by,
            **detail,
        }
        level = logging.INFO if not refused else logging.WARNING
        if part and status == "ok":
            level = logging.DEBUG
        # as JSON: nothing that a stranger wrote can start a line of its own
        log.log(level, "command %s", json.dumps(line))
        self._write(PARTS if part else COMMANDS, line)

    def close(self, timeout_s: float) -> None:
        """Write what waits, in that time."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _too_many(self, kind: str) -> bool:
        with self._lock:
            minute = int(time.monotonic() // 60)
            if minute != self._minute:
                more, self._refusals, self._minute = self._refusals, Counter(), minute
            else:
                more = Counter()
            self._refusals[kind] += 1
            too_many = self._refusals[kind] > REFUSALS
        for name, number in more.items():
            if number > REFUSALS:
                log.warning("%d more requests were refused: %s", number - REFUSALS, name)
                self._write(COMMANDS, {"at": clock.now().isoformat(), "more": number - REFUSALS, "of": name})
        return too_many

    def _write(self, file: str, line: dict[str, Any]) -> None:
        try:
            self._queue.put_nowait((file, line))
        except queue.Full:
            self._lost += 1

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            file, line = entry
            if self._lost:
                line["linesLostBefore"], self._lost = self._lost, 0
            try:
                self._append(self._folder / file, json.dumps(line) + "\n")
                self._failed = False
            except OSError as error:
                self._lost += 1
                if not self._failed:
                    log.error("the audit file %s cannot be written: %s", self._folder / file, error)
                self._failed = True
            except Exception:
                # a bug costs one line, not all later ones
                self._lost += 1
                log.exception("a line of the audit is lost")

    def _append(self, path: Path, text: str) -> None:
        self._folder.mkdir(mode=0o750, exist_ok=True)
        if path.exists() and path.stat().st_size + len(text) > LARGEST:
            path.replace(path.with_name(f"{path.name}.1"))
        with path.open("a", encoding="ascii") as file:
            file.write(text)
