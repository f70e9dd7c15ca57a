"""A folder that is there whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edge_infer.errors import EdgeInferError
from edge_infer.wholefile import flush


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """A folder to fill that becomes ``out`` at the end of the ``with``; with an exception nothing remains.

    Where the process is killed, a hidden folder beside ``out`` is left, which the next run clears away.
    EdgeInferError where ``out`` is there already, another process builds it, or it cannot be written.
    """
    refuse_existing(out)
    part = out.with_name(f".{out.name}.part")
    try:
        lock = _lock(part)
    except OSError as error:
        raise unwritable(out, error) from error
    try:
        try:
            folder = part / "folder"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            yield folder
            refuse_existing(out)
            _flush(folder)
            folder.rename(out)
            _sync(out.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        os.close(lock)


def scratch(folder: Path) -> Path:
    """Beside the folder that ``building`` gives: for what must not get into it; goes away with it."""
    place = folder.with_name("scratch")
    place.mkdir(exist_ok=True)
    return place


def refuse_existing(out: Path) -> None:
    """EdgeInferError where something is at ``out``."""
    if out.is_symlink() or out.exists():
        raise EdgeInferError(
            f"{out} is there already and is not written over",
            hint="name another folder with --out, or remove it once no station uses it",
        )


def unwritable(out: Path, error: OSError) -> EdgeInferError:
    """Why nothing can be written there."""
    return EdgeInferError(
        f"cannot write {out}: {error.strerror or error}",
        hint="name a folder with --out that this user may write, on a disk with room",
    )


def _lock(part: Path) -> int:
    """Held until it is closed, also by a process that is killed."""
    part.mkdir(parents=True, exist_ok=True)
    lock = os.open(part / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        name = part.name.removeprefix(".").removesuffix(".part")
        raise EdgeInferError(
            f"another `edge-infer tune` is at work on {part.with_name(name)}",
            hint="wait for it, or use --out",
        ) from error
    for left in part.iterdir():
        if left.name != "lock":
            # of a run that was killed
            shutil.rmtree(left, ignore_errors=True)
    return lock


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            _sync(path)
    for path in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        _sync(path)


def _sync(path: Path) -> None:
    with suppress(PermissionError):
        flush(path)
