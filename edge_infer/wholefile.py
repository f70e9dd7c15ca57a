"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, part: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path``, flushed to the disk, at the end of the ``with``.

    OSError where it cannot be. Nobody ever sees half of it: a reader finds the old file, or none, or the
    whole new one. ``part``, in the same folder, is what it is called meanwhile: a fixed name leaves at most
    one behind where the process is killed; the default is a new one each time, for files that several may
    write.
    """
    part = part or path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        # what went wrong before is the error to tell
        with suppress(OSError):
            part.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """To the disk: a file's content, or a folder's names, whose renames a power cut could undo else."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
