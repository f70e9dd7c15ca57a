"""Compiled networks, kept for the next start. Never needed: what cannot be read or kept is compiled."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from edge_infer.wholefile import replacing

log = logging.getLogger(__name__)

MOST_BYTES = 4_000_000_000
"""The blobs that were used longest ago are removed beyond that."""
FLOOR_BYTES = 256_000_000
"""Room that the disk must keep."""
_SUFFIX, _UNFINISHED = ".blob", ".part"

Key = Mapping[str, str]
"""All that the compiled network depends on."""


class Blobs:
    """A folder with a file a compiled network: its key and digest in the first line, the blob after it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: Key) -> bytes | None:
        """The blob that was kept under exactly that key, whole; else None."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                head, blob = file.readline(), file.read()
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("the compiled network in %s cannot be used: %s; compiling it", path, error.strerror)
            return None
        if head != _head(key, blob):
            log.warning("the compiled network in %s is damaged; compiling it", path)
            self.drop(key)
            return None
        return blob

    def put(self, key: Key, blob: bytes) -> None:
        """Keep it, where there is room for it."""
        path = self._path(key)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(blob))
            if shutil.disk_usage(self._folder).free < len(blob) + FLOOR_BYTES:
                log.warning(
                    "%s is too full to keep a compiled network of %.1f MB (%d MB stay free there); "
                    "the next start compiles again",
                    path.parent, len(blob) / 1e6, FLOOR_BYTES // 10**6,
                )  # fmt: skip
                return
            with replacing(path, path.with_suffix(_UNFINISHED)) as file:
                file.write(_head(key, blob))
                file.write(blob)
        except OSError as error:
            log.warning(
                "a compiled network cannot be kept in %s: %s; the next start compiles again",
                path.parent,
                error.strerror,
            )

    def drop(self, key: Key) -> None:
        """The runtime does not take it."""
        with suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / (hashlib.sha256(_written(key)).hexdigest()[:40] + _SUFFIX)

    def _make_room(self, wanted: int) -> None:
        kept = []
        # a kill leaves unfinished ones
        for path in (*self._folder.glob(f"*{_SUFFIX}"), *self._folder.glob(f"*{_UNFINISHED}")):
            # another process may remove it meanwhile
            with suppress(OSError):
                told = path.stat()
                kept.append((told.st_mtime, told.st_size, path))
        total = wanted + sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


def _written(key: Key) -> bytes:
    return json.dumps(dict(key), sort_keys=True).encode()


def _head(key: Key, blob: bytes) -> bytes:
    head = {"key": dict(key), "sha256": hashlib.sha256(blob).hexdigest()}
    return json.dumps(head, sort_keys=True).encode() + b"\n"
