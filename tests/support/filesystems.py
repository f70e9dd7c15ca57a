"""Small file systems: full, out of inodes, read-only, frozen, cut off from their power. Needs root."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest

_FS_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_IN_USE_S = 10.0


def _run(*command: str | Path) -> None:
    subprocess.run([str(one) for one in command], check=True, capture_output=True, timeout=20)


class FileSystem:
    """Mounted at ``path``; unmounted by `close`, or at the end of a ``with``."""

    def __init__(self, path: Path, *how: str | Path) -> None:
        self.path = path
        self._how = how
        path.mkdir(parents=True, exist_ok=True)
        self._mount()

    def __enter__(self) -> FileSystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def free(self) -> int:
        """Bytes."""
        told = os.statvfs(self.path)
        return told.f_bavail * told.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Somebody else takes all but so many bytes."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            block = 65536
            while block and (not leave or self.free > leave):
                try:
                    file.write(b"x" * (min(block, self.free - leave) if leave else block))
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop ends only this way
                    block //= 2
            # not on disk yet is not free either
            os.fsync(file.fileno())

    def make_room(self) -> None:
        """They delete what is theirs."""
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

    def freeze(self) -> None:
        """Every write hangs in the kernel."""
        _run("fsfreeze", "-f", self.path)

    def thaw(self) -> None:
        """Writes go on; does nothing where it is not frozen."""
        subprocess.run(["fsfreeze", "-u", str(self.path)], check=False, timeout=20, capture_output=True)

    def cut(self) -> None:
        """From now on every write fails, and nothing that was not flushed is there afterwards. ext4 only."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _FS_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def power_on(self) -> None:
        """What the disk kept, its journal replayed; as soon as nobody has a file open."""
        self._unmount()
        self._mount()

    def close(self) -> None:
        """Thawed and unmounted, whoever still has a file open."""
        self.thaw()
        _run("umount", "-l", self.path)

    def _mount(self) -> None:
        _run("mount", *self._how, self.path)

    def _unmount(self) -> None:
        until_s = time.monotonic() + _IN_USE_S
        while True:
            try:
                return _run("umount", self.path)
            except subprocess.CalledProcessError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.02)


def tmpfs(path: Path, size: str = "2m", *more: str) -> FileSystem:
    """In memory: full at exactly so many bytes."""
    return FileSystem(path, "-t", "tmpfs", "-o", ",".join([f"size={size}", *more]), "tmpfs")


def ext4(path: Path, size: str = "16MB") -> FileSystem:
    """A real one, on a loop device: can be frozen, and its power cut."""
    image = path.with_name(f"{path.name}.img")
    image.parent.mkdir(parents=True, exist_ok=True)
    _run("truncate", "-s", size, image)
    _run("mkfs.ext4", "-q", "-m", "0", image)
    return FileSystem(path, "-o", "loop", image)


SmallDisk = Callable[[str], FileSystem]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """``ext4`` of 32 MB, or a tmpfs of the size that is named."""
    mounted: list[FileSystem] = []

    def mount(kind: str) -> FileSystem:
        path = tmp_path / "disk"
        mounted.append(ext4(path, "32M") if kind == "ext4" else tmpfs(path, kind))
        return mounted[-1]

    yield mount
    for one in mounted:
        one.close()
