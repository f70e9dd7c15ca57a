"""Which pictures and videos a batch is over, in which order, and whether they are still the same."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO

from edge_infer.errors import EdgeInferError
from edge_infer.sources._recording import PICTURES, VIDEOS

_STANDARD_INPUT = "-"
_ABSENT = b"absent"


class Inputs:
    """Paths in the order of their lines; of a path that gives no picture, why.

    Only names are kept: some 100 MB for a million.
    """

    def __init__(self, paths: Sequence[str], troubles: dict[int, str]) -> None:
        self._paths = paths
        self._troubles = troubles

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, index: int) -> str:
        """As given; of what lies in a folder, the folder as given and the way below it."""
        return self._paths[index]

    def trouble(self, index: int) -> str | None:
        """Why there is nothing to read at ``index`` (an empty folder), else None."""
        return self._troubles.get(index)

    def is_video(self, index: int) -> bool:
        """By its name."""
        return _suffix(self._paths[index]) in VIDEOS

    def identity(self) -> str:
        """Changes with every name, size and time of change of a file."""
        digest = hashlib.sha256()
        for index, path in enumerate(self._paths):
            digest.update(os.fsencode(path) + b"\0" + os.fsencode(self._troubles.get(index, "")) + b"\0")
            try:
                status = os.stat(path)  # noqa: PTH116 - a million Path objects are slow
            except (OSError, ValueError):
                digest.update(_ABSENT)
            else:
                digest.update(f"{status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()


def find(given: Iterable[str], standard_input: BinaryIO, ours: Iterable[Path]) -> Inputs:
    """What INPUT... means: files, folders with all below them, patterns, and @LIST of these.

    ``ours`` are the output's own files, which are never inputs. EdgeInferError: a list cannot be read.
    """
    finder = _Finder({os.path.realpath(path) for path in ours})
    for one in given:
        if one.startswith("@"):
            finder.add_list(one, standard_input)
        else:
            finder.add(one)
    return finder.found()


class _Finder:
    def __init__(self, ours: set[str]) -> None:
        self._ours = ours
        self._names = {os.path.basename(path) for path in ours}  # noqa: PTH119 - text, as are the paths
        self._paths: list[str] = []
        self._troubles: dict[int, str] = {}

    def found(self) -> Inputs:
        return Inputs(self._paths, self._troubles)

    def add(self, given: str) -> None:
        if self._is_ours(given):
            return
        if os.path.isdir(given):  # noqa: PTH112 - text, as are the paths
            self._add_folder(given)
        elif has_magic(given) and not os.path.lexists(given):
            self._add_pattern(given)
        else:
            # a file, or nothing: who reads it says so
            self._paths.append(given)

    def add_list(self, given: str, standard_input: BinaryIO) -> None:
        name = given[1:]
        try:
            data = standard_input.read() if name == _STANDARD_INPUT else Path(name).read_bytes()
        except OSError as error:
            raise EdgeInferError(
                f"cannot read the list {name}: {error.strerror}",
                hint="name a text file with a path a line; a file whose own name begins with @ is ./@name",
            ) from error
        data = data.removeprefix(codecs.BOM_UTF8)
        # names may hold line feeds: `find -print0`
        lines = data.split(b"\0") if b"\0" in data else data.splitlines()
        before = len(self._paths)
        for line in lines:
            if line.strip():
                self.add(os.fsdecode(line))
        if len(self._paths) == before:
            self._trouble(given, f"the list {name} names nothing")

    def _add_pattern(self, pattern: str) -> None:
        before = len(self._paths)
        found = sorted(_playable(glob(pattern, recursive=True)))  # noqa: PTH207 - as given, also absolute
        found.sort(key=_natural)
        self._paths.extend(path for path in found if os.path.isfile(path))  # noqa: PTH113 - as above
        if len(self._paths) == before:
            self._trouble(pattern, f"no picture or video matches the pattern {pattern}")

    def _add_folder(self, given: str) -> None:
        """Its own files, then the folders below it; one that was seen is not seen again."""
        before = len(self._paths)
        seen: set[tuple[int, int]] = set()
        waiting = [given]
        while waiting:
            folder = waiting.pop()
            try:
                status = os.stat(folder)  # noqa: PTH116 - text, as are the paths
                if (status.st_dev, status.st_ino) in seen:
                    # a link: to a folder above it without an end, or to one that is in already
                    continue
                seen.add((status.st_dev, status.st_ino))
                files, below = _listed(folder)
            except OSError as error:
                self._trouble(folder, f"cannot read the folder {folder}: {error.strerror}")
                continue
            self._paths.extend(os.path.join(folder, name) for name in files)  # noqa: PTH118 - "./a" stays
            waiting.extend(os.path.join(folder, name) for name in reversed(below))  # noqa: PTH118 - as above
        if len(self._paths) == before:
            self._trouble(given, f"the folder {given} holds no picture and no video")

    def _trouble(self, path: str, why: str) -> None:
        self._troubles[len(self._paths)] = why
        self._paths.append(path)

    def _is_ours(self, path: str) -> bool:
        name = os.path.basename(path.rstrip("/"))  # noqa: PTH119 - text, as are the paths
        return name in self._names and os.path.realpath(path) in self._ours


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """The names of pictures and videos, and of folders, in natural order; hidden ones are left out."""
    files, below = [], []
    with os.scandir(folder) as found:
        for one in found:
            if one.name.startswith((".", "~")):
                continue
            if _is_folder(one):
                below.append(one.name)
            elif _suffix(one.name) in PICTURES | VIDEOS:
                files.append(one.name)
    for names in (files, below):
        names.sort()
        names.sort(key=_natural)
    return files, below


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # a link to itself; who reads it says so
        return False


def _playable(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        name = os.path.basename(path)  # noqa: PTH119 - text, as are the paths
        if not name.startswith((".", "~")) and _suffix(name) in PICTURES | VIDEOS:
            yield path


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122 - a million Path objects are slow


def _natural(name: str) -> str:
    """Sorts 2 before 10; text alone, since a million lists of parts would fill the memory."""
    return re.sub(r"0*([0-9]+)", lambda found: f"{len(found[1]):04}{found[1]}", name.casefold())
