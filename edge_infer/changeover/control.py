"""Both kinds of changes, as commands from outside see them."""

from __future__ import annotations

from collections.abc import Sequence

from edge_infer.changeover.changeover import Changeover
from edge_infer.changeover.configurations import Configurations


class Levers:
    """`remote.Control`."""

    def __init__(self, changeover: Changeover, configurations: Configurations) -> None:
        self.select_recipe = changeover.select_recipe
        self.set_threshold = changeover.set_threshold
        self.newest_frame = changeover.newest_frame
        self._configurations = configurations

    def reload(self, *, by: str) -> Sequence[str]:
        """See `Control`."""
        return self._configurations.reload(by=by)
