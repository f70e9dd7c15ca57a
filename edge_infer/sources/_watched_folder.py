"""Whether a folder can be watched: one that cannot is told as such before the first picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from edge_infer.errors import SourceError

if TYPE_CHECKING:
    from edge_infer.sources.files import Files


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
