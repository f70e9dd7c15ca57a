"""Which pictures of a watched folder were judged: over a restart none twice, none lost."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from edge_infer.errors import SourceError
from edge_infer.wholefile import replacing

log = logging.getLogger(__name__)

_LINES = 1000
"""So many more lines than pictures may the journal have before it is written anew."""


class Version(NamedTuple):
    """A file that was overwritten is another picture."""

    mtime_ns: int
    size_bytes: int


class Journal:
    """A file beside the pictures, a line each; only the watching thread uses it."""

    def __init__(self, folder: Path, camera: str) -> None:
        self._path = folder / f".edge-infer-{camera}.judged"
        self._judged: dict[str, Version] = {}
        self._lines = 0
        try:
            written = self._path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            written = ""
        except OSError as error:
            raise SourceError(
                f"camera {camera}: cannot read {self._path}: {error.strerror}", hint="may this user read it?"
            ) from error
        for line in written.splitlines():
            self._lines += 1
            # a line of which only the beginning was written tells of nothing
            with suppress(ValueError, TypeError):
                name, mtime_ns, size_bytes = json.loads(line)
                self._judged[name] = Version(mtime_ns, size_bytes)
        self._torn = bool(written) and not written.endswith("\n")

    def knows(self, name: str, version: Version) -> bool:
        """Whether it was judged."""
        return self._judged.get(name) == version

    def add(self, pictures: dict[str, Version]) -> None:
        """Durable when it returns; OSError where it cannot be written, but known till the process ends."""
        self._judged.update(pictures)
        lines = "".join(f"{json.dumps([name, *version])}\n" for name, version in pictures.items())
        with self._path.open("a", encoding="ascii") as file:
            file.write(("\n" if self._torn else "") + lines)
            file.flush()
            os.fsync(file.fileno())
        self._torn = False
        self._lines += len(pictures)

    def forget_all_but(self, names: set[str]) -> None:
        """Pictures that are not there any more; the file is made short where that is worth it."""
        if len(self._judged) > 2 * len(names) + _LINES:
            self._judged = {name: each for name, each in self._judged.items() if name in names}
        if self._lines > 2 * len(self._judged) + _LINES:
            with replacing(self._path, self._path.with_suffix(".part")) as file:
                for name, version in self._judged.items():
                    file.write(f"{json.dumps([name, *version])}\n".encode("ascii"))
            self._lines, self._torn = len(self._judged), False
