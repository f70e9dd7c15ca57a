"""The pictures' folder on disk: ``{station}/{YYYY-MM-DD}/{resultId}-{kind}.jpg``, each whole or not there.

Below the folder itself (which may be a link to another disk) no link is followed, and nothing is counted or
deleted that is not named like a picture of ours.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from edge_infer.evidence.settings import Kind
from edge_infer.result import Result

PARTIAL = ".partial"
"""Files that are being written."""
BLOCK = 4096
"""What a file costs on disk is a multiple of it."""

_TRIAL = "trial"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STATION = re.compile(r"[A-Za-z0-9_-]{1,40}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# result ids are UUIDv7: their first twelve digits are milliseconds since 1970
_PICTURE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-(raw|drawn|map)\.jpg")


@dataclass(frozen=True, slots=True, order=True)
class Day:
    """One folder of pictures; sorts by time."""

    date: str
    """YYYY-MM-DD, UTC."""
    station: str


@dataclass(frozen=True, slots=True)
class Free:
    """What the file system has left for us."""

    bytes: int
    files: int | None
    """None where it does not count them."""


def day_of(result: Result) -> Day:
    """Where the result's pictures lie."""
    return Day(f"{result.creation_time:%Y-%m-%d}", result.station)


def name_of(result: Result, kind: Kind) -> str:
    """Sorts by time."""
    return f"{result.result_id}-{kind}.jpg"


def taken_s(name: str) -> float:
    """When the result of that picture was made: seconds since 1970."""
    return int(name[:8] + name[9:13], 16) / 1000


def cost(size: int) -> int:
    """Bytes on disk of a file of that size, never 0."""
    return max(1, -(-size // BLOCK)) * BLOCK


class Folder:
    """Every method may raise OSError; whoever calls it decides what a broken disk means."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def uri(self, day: Day, name: str) -> str:
        """``file:`` address."""
        return (self.path / day.station / day.date / name).as_uri()

    def prepare(self) -> None:
        """Create it, and delete what a crash left half written."""
        self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
        with self._root() as root, _entered(PARTIAL, root) as partial:
            for name in os.listdir(partial):  # noqa: PTH208 - of a folder that is open
                if (_PICTURE.fullmatch(name) or name == _TRIAL) and _is_file(name, partial):
                    os.unlink(name, dir_fd=partial)

    def days(self) -> list[Day]:
        """All that there are, oldest first."""
        found = []
        with self._root() as root:
            for station in _subfolders(root, _STATION):
                with _opened(station, root) as there:
                    found += [Day(date, station) for date in _subfolders(there, _DATE)]
        return sorted(found)

    def names(self, day: Day) -> Iterator[str]:
        """Pictures of a day in any order."""
        for entry in self._entries(day):
            yield entry.name

    def costs(self, day: Day) -> Iterator[int]:
        """Bytes on disk of each picture of a day."""
        for entry in self._entries(day):
            with suppress(FileNotFoundError):
                yield cost(entry.stat(follow_symlinks=False).st_size)

    def delete(self, day: Day, name: str) -> int:
        """Bytes on disk that are free now: 0 where it was gone already."""
        try:
            with self._day(day) as there:
                size = os.stat(name, dir_fd=there, follow_symlinks=False).st_size
                os.unlink(name, dir_fd=there)
        except FileNotFoundError:
            return 0
        return cost(size)

    def delete_empty(self, day: Day) -> None:
        """The day's folder, and the station's, unless something lies in it."""
        with suppress(OSError), self._root() as root:
            with _opened(day.station, root) as station:
                os.rmdir(day.date, dir_fd=station)
            os.rmdir(day.station, dir_fd=root)

    def free(self) -> Free:
        """Right now, whoever uses the disk."""
        with self._root() as root:
            told = os.fstatvfs(root)
        return Free(told.f_bavail * told.f_frsize, told.f_favail if told.f_files else None)

    def write(self, day: Day, name: str, data: bytes) -> None:
        """Under its name only when it is whole and on disk; FileExistsError where the name is taken."""
        with (
            self._root() as root,
            _entered(PARTIAL, root) as partial,
            _entered(day.station, root) as station,
            _entered(day.date, station) as there,
        ):
            try:
                _write(name, data, partial)
                # not a rename: it would replace what is there
                os.link(name, name, src_dir_fd=partial, dst_dir_fd=there, follow_symlinks=False)
            finally:
                with suppress(OSError):
                    os.unlink(name, dir_fd=partial)

    def settle(self, day: Day) -> None:
        """The names that were written are on disk too: a power cut takes nothing back."""
        with self._day(day) as there:
            os.fsync(there)

    def try_out(self, size: int) -> None:
        """Whether a file of that size can be written."""
        with self._root() as root, _entered(PARTIAL, root) as partial:
            try:
                _write(_TRIAL, bytes(size), partial)
            finally:
                with suppress(OSError):
                    os.unlink(_TRIAL, dir_fd=partial)

    @contextmanager
    def _root(self) -> Iterator[int]:
        root = os.open(self.path, _DIRECTORY)
        try:
            yield root
        finally:
            os.close(root)

    @contextmanager
    def _day(self, day: Day) -> Iterator[int]:
        with self._root() as root, _opened(day.station, root) as station, _opened(day.date, station) as there:
            yield there

    def _entries(self, day: Day) -> Iterator[os.DirEntry[str]]:
        try:
            with self._day(day) as there, os.scandir(there) as entries:
                for entry in entries:
                    if _PICTURE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        yield entry
        except (FileNotFoundError, NotADirectoryError):
            return


def _subfolders(folder: int, name: re.Pattern[str]) -> list[str]:
    with os.scandir(folder) as entries:
        return [
            entry.name
            for entry in entries
            if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    folder = os.open(name, _BELOW, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _entered(name: str, parent: int) -> Iterator[int]:
    """Made where it is not there."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o750, dir_fd=parent)
    with _opened(name, parent) as folder:
        yield folder


def _write(name: str, data: bytes, folder: int) -> None:
    file = os.open(name, _NEW, 0o640, dir_fd=folder)
    try:
        # whatever the umask is: the folder says who may look
        os.fchmod(file, 0o640)
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        os.fdatasync(file)
    finally:
        os.close(file)


def _is_file(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
