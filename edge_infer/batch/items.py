"""The pictures and frames themselves, one after the other; what cannot be read is an item too."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_infer.batch.inputs import Inputs
from edge_infer.errors import PictureError, SourceError
from edge_infer.picture import read
from edge_infer.sources import _recording as recording


class Position(NamedTuple):
    """Where the next line comes from."""

    at: int
    """In the inputs."""
    frame: int
    """In the video there; 0 for a picture."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """What one line is about."""

    after: Position
    """Where to go on once its line is there."""
    image: str
    frame: int | None
    """From 0, of a video's frame; None for a picture."""
    pixels: NDArray[np.uint8] | None
    """(height, width, 3) BGR, read-only; None where there are none."""
    warnings: tuple[str, ...] = ()
    """Sentences about the picture."""
    damaged: str | None = None
    """Why the frame must not be judged, else None."""
    error: str | None = None
    """Why there are no pixels, else None."""


def items(inputs: Inputs, start: Position) -> Generator[Item, None, None]:
    """All from ``start`` on. Of a video the frames before it are decoded again: the others build on them."""
    for index in range(start.at, len(inputs)):
        first = start.frame if index == start.at else 0
        trouble = inputs.trouble(index)
        path = inputs.path(index)
        if trouble is None and inputs.is_video(index):
            yield from _video(index, path, first)
        else:
            after = Position(index + 1, 0)
            yield _picture(after, path) if trouble is None else Item(after, path, None, None, error=trouble)


def _picture(after: Position, path: str) -> Item:
    try:
        picture = read(Path(path))
    except PictureError as error:
        return Item(after, path, None, None, error=str(error))
    return Item(after, path, None, picture.pixels, picture.warnings)


def _video(index: int, path: str, first: int) -> Iterator[Item]:
    """Its frames; where it breaks off or cannot be read, an error in the place of the next one."""
    frame = first
    try:
        # no device or pipe, which would hang for ever
        [file] = recording.find(Path(path))
        for shot in recording.video(file, first):
            yield Item(Position(index, frame + 1), path, frame, shot.pixels, damaged=shot.damaged)
            frame += 1
    except SourceError as error:
        why = str(error)
    except OSError as error:
        # the file system itself
        why = f"cannot read {path}: {error.strerror}"
    else:
        return
    yield Item(Position(index + 1, 0), path, frame, None, error=why)
