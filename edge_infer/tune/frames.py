"""Frames to calibrate with and frames to judge by: never the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError, SourceError
from edge_infer.sources._recording import find, shots

FEWEST = 20
"""Of each kind."""
BLOCKS = 20
"""Neighbours in a video are nearly one picture: whole stretches of it go to one side."""


class Place(NamedTuple):
    """Where a frame is."""

    path: Path
    number: int
    """From 0, in the file."""
    digest: str
    """Of its pixels."""


@dataclass(frozen=True, slots=True)
class Frames:
    """What ``--data`` holds, divided."""

    calibration: tuple[Place, ...]
    held_out: tuple[Place, ...]
    found: int
    """Frames that could be read."""
    repeated: int
    """Of them, those whose very pixels were there before, or are a golden picture's."""
    unreadable: tuple[str, ...]
    """Sentences."""

    @property
    def sha256(self) -> str:
        """Of the pixels of both kinds, in their order."""
        whole = hashlib.sha256()
        for kind in (self.calibration, self.held_out):
            whole.update(b"|" + ",".join(place.digest for place in kind).encode())
        return whole.hexdigest()


def divide(data: Path, *, calibration: int, held_out: int, taken: frozenset[str] = frozenset()) -> Frames:
    """Look at every frame under ``data`` once; the same files are divided the same way again.

    ``calibration`` and ``held_out``: at most so many of each. ``taken``: digests of others, of neither kind.
    EdgeInferError where there are fewer than ``FEWEST`` of each.
    """
    places: list[Place] = []
    seen = set(taken)
    found = repeated = 0
    unreadable: list[str] = []
    for path in find(data):
        try:
            for index, shot in enumerate(shots(path)):
                if shot.damaged is not None:
                    unreadable.append(f"{path}: {shot.damaged}")
                    continue
                found += 1
                digest = digest_of(shot.pixels)
                if digest in seen:
                    repeated += 1
                    continue
                seen.add(digest)
                places.append(Place(path, index, digest))
        except SourceError as error:
            # what came before it breaks off is good
            unreadable.append(str(error))
    if len(places) < 2 * FEWEST:
        many = f"{len(places)} different frames" if places else "no frame that can be read"
        raise EdgeInferError(
            f"{data} holds {many}; at least {2 * FEWEST} are needed, {FEWEST} to calibrate with and {FEWEST} "
            "to judge by",
            hint="add pictures or a video of this camera, with everything in them that it must find",
        )
    blocks = min(BLOCKS, len(places))
    kinds: tuple[list[Place], list[Place]] = ([], [])
    for number, place in enumerate(places):
        kinds[number * blocks // len(places) % 2].append(place)
    return Frames(
        _thinned(kinds[0], calibration), _thinned(kinds[1], held_out), found, repeated, tuple(unreadable)
    )


def pictures(places: Sequence[Place]) -> Iterator[NDArray[np.uint8]]:
    """BGR (H, W, 3) of each, in their order; one at a time. EdgeInferError where one has changed."""
    wanted: dict[Path, dict[int, Place]] = {}
    for place in places:
        wanted.setdefault(place.path, {})[place.number] = place
    for path, numbers in wanted.items():
        last = max(numbers)
        for number, shot in enumerate(shots(path)):
            if number in numbers:
                if digest_of(shot.pixels) != numbers[number].digest:
                    raise EdgeInferError(
                        f"{path} has changed while it was used", hint="start again once nobody writes to it"
                    )
                yield shot.pixels
            if number == last:
                break


def digest_of(pixels: NDArray[np.uint8]) -> str:
    """Of the pixels and their size."""
    whole = hashlib.sha256(str(pixels.shape).encode())
    whole.update(np.ascontiguousarray(pixels).data)
    return whole.hexdigest()


def _thinned(places: list[Place], most: int) -> tuple[Place, ...]:
    """At most so many, evenly spread."""
    if len(places) <= most:
        return tuple(places)
    return tuple(places[i * len(places) // most] for i in range(most))
