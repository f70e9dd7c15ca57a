"""Something is before the lens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge_infer.imagehealth.measured import Measured, nothing_fixed
from edge_infer.imagehealth.moved import move
from edge_infer.imagehealth.sight import Sight
from edge_infer.imagehealth.structure import Structure, counts

UNIFORM = 3.0
"""Standard deviation, grey levels: below it there is no picture; a sensor's noise alone is about as much."""
_LEFT = 0.3
"""Share of a tile's fewest edges; with less they are hidden."""
_EMPTY = 0.5
"""Share of the fixed edges; what moved away leaves others behind."""
_LEAST_TILES = 4
_LEAST = 0.5
"""Share of the tiles: a part may hide some."""


def learn(sights: Sequence[Sight], structure: Structure | None) -> Measured:
    """Share of the tiles that are hidden; covered is half of those that always showed something."""
    if structure is None:
        return nothing_fixed()
    if len(structure.usable_tiles) < _LEAST_TILES:
        few = len(structure.usable_tiles)
        return nothing_fixed().untold(f"only {few} of {len(structure.tiles)} tiles always show an edge")
    measured = Measured.of([hidden(sight, structure) for sight in sights])
    return measured.with_limit(_LEAST + (1 - _LEAST) * measured.highest)


def hidden(sight: Sight, structure: Structure) -> float:
    """Share of the tiles whose fixed edges are not there, 0..1."""
    return float(_hidden(sight, structure).mean())


def is_empty(sight: Sight, structure: Structure) -> bool:
    """Whether there are hardly other edges where the fixed ones are hidden."""
    tiles = structure.usable_tiles[_hidden(sight, structure)]
    return bool(counts(sight.edges)[tiles].sum() < _EMPTY * counts(structure.edges)[tiles].sum())


def _hidden(sight: Sight, structure: Structure) -> NDArray[np.bool_]:
    usable = structure.usable_tiles
    there = counts(sight.around_edges & structure.edges)[usable]
    return np.asarray(there < np.array(structure.tiles)[usable] * _LEFT, np.bool_)


class Uniform:
    """A check that needs no reference."""

    def look(self, sight: Sight) -> str | None:
        """Why the frame must not be judged."""
        deviation = sight.deviation
        if deviation >= UNIFORM:
            return None
        return f"the picture is one even area: its grey levels differ by {deviation:.1f}, below {UNIFORM:g}"


class Covered:
    """A check against the commissioned structure."""

    def __init__(self, structure: Structure, limit: float) -> None:
        """Share of the tiles."""
        self._structure = structure
        self._limit = limit

    def look(self, sight: Sight) -> str | None:
        """Why the frame must not be judged."""
        share = hidden(sight, self._structure)
        if share < self._limit:
            return None
        distance = move(sight, self._structure).distance
        if distance or (distance is None and not is_empty(sight, self._structure)):
            # that is a camera that moved
            return None
        return (
            f"{share:.0%} of the picture hides the edges that always were there, allowed is {self._limit:.0%}"
        )
