"""The camera, or what it looks at, is not where it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_infer.imagehealth.measured import Measured, nothing_fixed
from edge_infer.imagehealth.sight import Sight
from edge_infer.imagehealth.structure import Structure

FARTHEST = 0.1
"""Of the region's longer side: so far the structure is looked for."""
_LIMIT = 0.025
"""Of the longer side: less is a camera that shakes."""
_BETTER = 1.25
"""So much better than in its place the structure must fit elsewhere."""
_IN_PLACE = 0.8
"""Share of the structure; with more it has not moved."""
_FOUND = 0.4
"""Share of a quarter's structure that makes it found."""
_LEAST = 40
"""Edge pixels of a quarter of the plan that can be found again."""
_LOST = 0.5
"""Of the smallest share that was in its place when it was commissioned; with less it is gone."""
_HIDDEN = 0.3
"""With a smaller share in its place while commissioning nothing could be told from parts."""


class Move(NamedTuple):
    """Where the structure is now."""

    in_place: float
    """Share of it that is where it was, 0..1."""
    distance: float | None
    """How far the region's farthest corner moved, as a share of its longer side; None: it is not found."""


def learn(sights: Sequence[Sight], structure: Structure | None) -> Measured:
    """Distances; moved is 2.5 % of the longer side, or half as much again as the farthest."""
    if structure is None:
        return nothing_fixed()
    moves = [move(sight, structure) for sight in sights]
    measured = Measured.of([one.distance or 0.0 for one in moves])
    if (lowest := min(one.in_place for one in moves)) < _HIDDEN:
        return measured.untold(f"parts hide all but {lowest:.0%} of what stays where it is")
    if measured.highest > FARTHEST / 2:
        return measured.untold("the camera moves as it is")
    return measured.with_limit(max(_LIMIT, 1.5 * measured.highest))


def least_in_place(sights: Sequence[Sight], structure: Structure) -> float:
    """The smallest share of the structure that was in its place."""
    return min(move(sight, structure).in_place for sight in sights)


def move(sight: Sight, structure: Structure) -> Move:
    """Cheap where nothing moved."""
    fixed = structure.edges
    in_place = float(sight.near_edges[fixed > 0].mean())
    if in_place >= _IN_PLACE:
        return Move(in_place, 0.0)
    height, width = fixed.shape
    places, shifts = [], []
    for top, bottom in ((0, height // 2), (height // 2, height)):
        for left, right in ((0, width // 2), (width // 2, width)):
            found = _find(sight.near_edges, fixed, (left, top, right, bottom))
            if found is not None:
                places.append(((left + right) / 2, (top + bottom) / 2))
                shifts.append(found)
    if not shifts:
        return Move(in_place, None)
    return Move(in_place, _farthest(np.array(places), np.array(shifts), width, height) / max(width, height))


def _find(
    near_edges: NDArray[np.uint8], fixed: NDArray[np.uint8], quarter: tuple[int, int, int, int]
) -> tuple[int, int] | None:
    """How far a quarter of the structure moved, x and y in pixels of the plan; None: not found, or none."""
    import cv2

    left, top, right, bottom = quarter
    wanted = fixed[top:bottom, left:right].astype(np.float32)
    if (pixels := float(wanted.sum())) < _LEAST:
        return None
    reach = round(FARTHEST * max(fixed.shape))
    around = cv2.copyMakeBorder(near_edges, reach, reach, reach, reach, cv2.BORDER_CONSTANT, value=0)
    searched = around[top : bottom + 2 * reach, left : right + 2 * reach].astype(np.float32)
    shares = cv2.matchTemplate(searched, wanted, cv2.TM_CCORR) / pixels
    row, column = np.unravel_index(int(shares.argmax()), shares.shape)
    in_place, best = float(shares[reach, reach]), float(shares[row, column])
    if max(in_place, best) < _FOUND:
        return None
    if best < _BETTER * in_place:
        return 0, 0
    return int(column) - reach, int(row) - reach


def _farthest(places: NDArray[np.float64], shifts: NDArray[np.int64], width: int, height: int) -> float:
    """How far the farthest corner moved, were all shifted and turned a little as the quarters are; pixels."""
    if 2 * np.count_nonzero(shifts.any(axis=1)) <= len(shifts) and len(shifts) > 1:
        # something else moves
        return 0.0
    if len(places) == 1:
        return float(np.hypot(*shifts[0]))
    middle = np.array([width, height]) / 2
    arms = places - middle
    ones, zeros = np.ones(len(arms)), np.zeros(len(arms))
    # x: tx - angle * y, y: ty + angle * x
    equations = np.concatenate(
        [np.stack([ones, zeros, -arms[:, 1]], axis=1), np.stack([zeros, ones, arms[:, 0]], axis=1)]
    )
    solved = np.linalg.lstsq(equations, np.concatenate([shifts[:, 0], shifts[:, 1]]).astype(float))[0]
    corners = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]]) * middle
    moved = np.stack([solved[0] - solved[2] * corners[:, 1], solved[1] + solved[2] * corners[:, 0]])
    return float(np.hypot(*moved).max())


class Moved:
    """A check."""

    def __init__(self, structure: Structure, limit: float, least_in_place: float) -> None:
        """``limit``: share of the longer side; ``least_in_place``: see the function of that name."""
        self._structure = structure
        self._limit = limit
        self._least_in_place = least_in_place

    def look(self, sight: Sight) -> str | None:
        """Why the frame must not be judged."""
        in_place, distance = move(sight, self._structure)
        if distance is not None and distance > self._limit:
            pixels = distance * max(sight.region[2] - sight.region[0], sight.region[3] - sight.region[1])
            return (
                f"the camera moved by about {pixels:.0f} pixels, allowed is {self._limit:.1%} of the picture"
            )
        if distance is None and in_place < self._least_in_place * _LOST:
            return (
                f"only {in_place:.0%} of the fixed edges are where they were, "
                f"at least {self._least_in_place:.0%} always were"
            )
        return None
