"""What parts were told, for those who ask again."""

from __future__ import annotations

import time
from collections import OrderedDict

from edge_infer.result import Result

MOST = 64
"""Parts whose answer is kept."""


class Answers:
    """The newest answers by part; one that is told again is told the same. Used inside the station's lock."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, tuple[float, Result]] = OrderedDict()

    def keep(self, part_id: str, result: Result, until_s: float) -> None:
        """``until_s``: until when (monotonic) the part may ask again; later it is another part."""
        self._told[part_id] = (until_s, result)
        self._told.move_to_end(part_id)
        if len(self._told) > MOST:
            self._told.popitem(last=False)

    def of(self, part_id: str) -> Result | None:
        """None where the part was told nothing, or may ask anew."""
        until_s, result = self._told.get(part_id, (float("-inf"), None))
        return result if time.monotonic() <= until_s else None
