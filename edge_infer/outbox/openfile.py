"""Whether a file that this process has open is still where it was opened."""

from __future__ import annotations

import os
from pathlib import Path


class OpenFile:
    """Made right after it was opened; the one who made it keeps it open, so that its inode stays taken."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = path.stat()

    def astray(self) -> bool:
        """It was deleted, renamed or replaced, or its folder was."""
        try:
            return not os.path.samestat(self._opened, self._path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            # whoever writes it next meets the same bad disk and says so
            return False
