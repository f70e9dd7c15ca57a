"""Small file systems of their own: full, out of inodes, read-only, cut off from their power. Needs root."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FS_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


def _run(*command: str | Path) -> None:
    subprocess.run([str(one) for one in command], check=True, capture_output=True, timeout=20)


class FileSystem:
    """Mounted at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Not a byte is left."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            block = 65536
            while block:
                try:
                    file.write(b"x" * block)
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop ends only this way
                    block //= 2

    def free(self) -> None:
        """There is room again."""
        (self.path / "filler").unlink()

    def use_up_inodes(self) -> None:
        """No file can be made any more."""
        at = 0
        while True:
            try:
                (self.path / f"inode-{at}").touch()
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop ends only this way
                return
            at += 1

    def free_inodes(self) -> None:
        """Files can be made again."""
        for one in self.path.glob("inode-*"):
            one.unlink()

    def read_only(self) -> None:
        """As after a file system error."""
        _run("mount", "-o", "remount,ro", self.path)

    def writable(self) -> None:
        """Mended."""
        _run("mount", "-o", "remount,rw", self.path)

    def close(self) -> None:
        """Unmount, whoever still has a file open."""
        _run("umount", "-l", self.path)


class PowerCut(FileSystem):
    """ext4 on a file, whose power can be cut."""

    def __init__(self, path: Path, image: Path) -> None:
        super().__init__(path)
        self._image = image

    def cut(self) -> None:
        """From now on every write fails, and nothing that was not flushed is there afterwards."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _FS_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def power_on(self) -> None:
        """What the disk kept, its journal replayed; nobody may have a file open."""
        _run("umount", self.path)
        _run("mount", "-o", "loop", self._image, self.path)


@contextmanager
def tmpfs(path: Path, options: str = "size=2m") -> Iterator[FileSystem]:
    """In memory."""
    path.mkdir()
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", path)
    disk = FileSystem(path)
    try:
        yield disk
    finally:
        disk.close()


@contextmanager
def ext4(path: Path, megabytes: int = 16) -> Iterator[PowerCut]:
    """A real one, on a loop device."""
    path.mkdir()
    image = path.with_name(f"{path.name}.img")
    with image.open("wb") as file:
        file.truncate(megabytes * 1_000_000)
    _run("mkfs.ext4", "-q", "-m", "0", image)
    _run("mount", "-o", "loop", image, path)
    disk = PowerCut(path, image)
    try:
        yield disk
    finally:
        disk.close()
