"""Whether a folder can be watched: one that cannot, or cannot any more, is told as such."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from edge_infer.errors import SourceError

if TYPE_CHECKING:
    from edge_infer.sources.files import Files

_held: dict[Path, threading.Thread] = {}
"""By folder: the thread that waits for its answer. What the kernel holds cannot be ended."""


def prepare(settings: Files, camera: str) -> None:
    """What must hold before it is watched; makes ``done`` and ``failed``. SourceError with the remedy."""
    folder = settings.path
    targets = {one for one in (settings.done, settings.failed) if one is not None}
    if not folder.is_dir():
        there = "is not a folder" if folder.exists() else "is not there"
        raise SourceError(
            f"camera {camera}: {folder} {there}", hint="make the folder, or mount what it lies on"
        )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise SourceError(
            f"camera {camera}: may not read and write in {folder}",
            hint="it keeps there what was judged; give the service's user the right to",
        )
    for target in targets:
        try:
            target.mkdir(exist_ok=True)
        except OSError as error:
            raise SourceError(
                f"camera {camera}: cannot make {target}: {error.strerror}",
                hint="may this user write there?",
            ) from error
        if target.stat().st_dev != folder.stat().st_dev:
            raise SourceError(
                f"camera {camera}: {target} lies on another file system than {folder}",
                hint="a picture is moved at once or not at all; name a folder beside the pictures",
            )


def vanished(settings: Files, camera: str, error: OSError) -> SourceError:
    """Of a folder that was there."""
    return SourceError(
        f"camera {camera}: {settings.path} is gone: {error.strerror or error}",
        hint="is it mounted, was it renamed?",
    )


def unanswered(settings: Files, camera: str, thread: threading.Thread, how: str) -> SourceError:
    """Of a folder that holds the thread that asked it."""
    _held[settings.path] = thread
    return _silent(settings, camera, how)


def wait_for_the_one_before(settings: Files, camera: str, timeout_s: float) -> None:
    """Whoever asks a folder that holds a thread already would be held too: one more at each attempt.

    SourceError where that one is held still.
    """
    before = _held.get(settings.path)
    if before is None:
        return
    before.join(timeout_s)
    if before.is_alive():
        raise _silent(settings, camera, f"did not answer within {timeout_s:g} s")
    _held.pop(settings.path, None)


def _silent(settings: Files, camera: str, how: str) -> SourceError:
    return SourceError(f"camera {camera}: {settings.path} {how}", hint="is its server there?")
