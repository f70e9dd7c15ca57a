"""The output while it grows: ``OUT.part/`` with the lines so far, of one process at a time.

Under its own name the output appears whole, at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from edge_infer.batch.journal import Found, Mark, head, read
from edge_infer.batch.judge import Line
from edge_infer.errors import EdgeInferError
from edge_infer.wholefile import flush

_LINES = "lines.jsonl"
_JOURNAL = "journal.jsonl"
_LOCK = "lock"
_WHOLE = "whole"
"""The output in its own format, before it is moved to its name."""


class Part:
    """Made by ``open``. EdgeInferError from every method: the disk; what was marked stays."""

    def __init__(self, out: Path, folder: Path, held: ExitStack) -> None:
        self.out = out
        self.lines = folder / _LINES
        self.whole = folder / _WHOLE
        self.mark = Mark()
        self._folder = folder
        self._held = held
        self._journal = self._data = -1
        self._waiting: list[bytes] = []
        self._next = self.mark
        self._is_begun = False
        held.callback(self._clear_unbegun)

    @classmethod
    def open(cls, out: Path, *, restart: bool) -> Part:
        """For this process alone; ``restart`` forgets what an earlier run left.

        EdgeInferError: another one has it, ``out`` is there already, or nothing can be written there.
        """
        # where a link leads is where the disk is
        out = Path(os.path.realpath(out))
        folder = folder_of(out)
        with _told(out, "use"):
            is_there, is_begun = out.exists(), (folder / _JOURNAL).exists()
        if is_there and not out.is_file():
            raise EdgeInferError(f"{out} is not a file", hint="name another one")
        if is_there and not restart and not is_begun:
            raise EdgeInferError(
                f"{out} is there already", hint="name another one, or write it anew with --restart"
            )
        with _told(folder, "make"):
            folder.mkdir(exist_ok=True)
        with ExitStack() as held:
            _lock(out, folder, held)
            if restart:
                with _told(folder, "clear"):
                    for name in (_JOURNAL, _LINES, _WHOLE):
                        (folder / name).unlink(missing_ok=True)
            return cls(out, folder, held.pop_all())

    def begin(self, batch: Mapping[str, str]) -> None:
        """Go on where an earlier run of the same ``batch`` ended, else begin: `mark` says where.

        EdgeInferError: there are lines of another batch.
        """
        self._is_begun = True
        with _told(self._folder, "read"):
            found = read(self._folder / _JOURNAL, self.lines)
            if found is not None and (found.mark.lines or found.complete):
                self._compare(found, batch)
            if found is not None and found.complete and not self.lines.exists() and self.out.is_file():
                # killed between moving the output to its name and clearing away
                self.mark = found.complete
                return
            if found is None or not found.mark.lines:
                self._journal = _opened(self._folder / _JOURNAL, os.O_TRUNC, self._held)
                _write(self._journal, head(batch))
                found = Found(batch, Mark(), 0, None)
            else:
                self._journal = _opened(self._folder / _JOURNAL, 0, self._held)
                os.ftruncate(self._journal, found.size)
            self._data = _opened(self.lines, 0, self._held)
            os.ftruncate(self._data, found.mark.size)
            self.mark = self._next = found.mark
            self.sync()

    @property
    def waiting(self) -> int:
        """Lines that were added and are not marked."""
        return len(self._waiting)

    @property
    def is_moved(self) -> bool:
        """The output is complete and has its name already."""
        return self.mark.complete and not self.lines.exists()

    def add(self, line: Line) -> None:
        """Keep it for the next `set_mark`."""
        after = self._next
        self._waiting.append(line.text)
        self._next = Mark(
            after.lines + 1,
            after.errors + line.error,
            after.size + len(line.text),
            zlib.crc32(line.text, after.checksum),
            line.after,
        )

    def set_mark(self) -> None:
        """From here a killed run goes on; after a power cut from the last `sync`."""
        if not self._waiting:
            return
        with _told(self.out, "write"):
            _write(self._data, b"".join(self._waiting))
            self._waiting.clear()
            _write(self._journal, self._next.text())
        self.mark = self._next

    def sync(self) -> None:
        """What is marked survives a power cut."""
        with _told(self.out, "write"):
            os.fsync(self._data)
            os.fsync(self._journal)

    def complete(self) -> None:
        """All lines are there."""
        if self.mark.complete:
            return
        last = self._next
        self._next = Mark(last.lines, last.errors, last.size, last.checksum, last.next, complete=True)
        with _told(self.out, "write"):
            _write(self._data, b"".join(self._waiting))
            self._waiting.clear()
            _write(self._journal, self._next.text())
        self.mark = self._next
        self.sync()

    def move(self, file: Path) -> None:
        """``file``, of this folder and on the disk whole, becomes the output; the rest is cleared away."""
        with _told(self.out, "write"):
            file.replace(self.out)
            flush(self.out.parent)
        self.clear()

    def clear(self) -> None:
        """Nothing is left but the output."""
        # in this order a kill in between leaves what `begin` understands; what stays is harmless
        with suppress(OSError):
            for name in (_WHOLE, _LINES, _JOURNAL, _LOCK):
                (self._folder / name).unlink(missing_ok=True)
            self._folder.rmdir()

    def close(self) -> None:
        """Another process may go on. Safe to call twice."""
        self._held.close()

    def _clear_unbegun(self) -> None:
        """A run that fails before it begins leaves nothing but what an earlier one left."""
        if not self._is_begun and not (self._folder / _JOURNAL).exists():
            self.clear()

    def _compare(self, found: Found, batch: Mapping[str, str]) -> None:
        differing = [
            f"{key} ({found.batch.get(key, 'nothing')} then, {batch.get(key, 'nothing')} now)"
            for key in dict.fromkeys((*found.batch, *batch))
            if found.batch.get(key) != batch.get(key)
        ]
        if differing:
            raise EdgeInferError(
                f"{self._folder} holds {found.mark.lines} lines of another batch: {', '.join(differing)}",
                hint="run it again as it was to go on, name another --out, or begin anew with --restart",
            )


def folder_of(out: Path) -> Path:
    """Where the output grows."""
    return out.with_name(f"{out.name}.part")


def _lock(out: Path, folder: Path, held: ExitStack) -> None:
    path = folder / _LOCK
    with _told(folder, "lock"):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        held.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the one before us may have cleared it away since
            ours = os.path.samestat(os.fstat(file), path.stat())
        except (BlockingIOError, FileNotFoundError):
            ours = False
    if not ours:
        raise EdgeInferError(
            f"another edge-infer batch writes {out}", hint="wait for its end, or name another --out"
        )


def _opened(path: Path, more: int, held: ExitStack) -> int:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | more, 0o644)
    held.callback(os.close, file)
    return file


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_trouble(path, what, error) from error


def disk_trouble(path: Path, what: str, error: OSError) -> EdgeInferError:
    """What could not be done to the output, or to what it grows in, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "make room and run the same command again: it goes on from there"
    elif error.errno == errno.ENAMETOOLONG:
        hint = "choose a shorter --out"
    else:
        hint = "is its folder there, may this user write there? the same command goes on from there"
    return EdgeInferError(f"cannot {what} {path}: {error.strerror}", hint=hint)
