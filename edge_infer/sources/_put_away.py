"""A judged picture goes into another folder, and nothing that lies there is ever overwritten."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path

_NOREPLACE = 1
_AT_CWD = -100
_NOT_ABLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""Answers of file systems on a network to a rename that must not replace."""


def move(path: Path, folder: Path) -> Path:
    """Under a name of its own, at once, whole; OSError where that fails."""
    for number in range(1, 100_000):
        target = folder / (path.name if number == 1 else f"{path.stem}-{number}{path.suffix}")
        try:
            _rename(path, target)
        except FileExistsError:
            continue
        return target
    raise FileExistsError(f"{folder} holds too many pictures named {path.name}")


def _rename(path: Path, target: Path) -> None:
    if _libc().renameat2(_AT_CWD, os.fsencode(path), _AT_CWD, os.fsencode(target), _NOREPLACE) == 0:
        return
    failure = ctypes.get_errno()
    if failure not in _NOT_ABLE:
        raise OSError(failure, os.strerror(failure), str(path), None, str(target))
    # ours from now on; a kill before the rename leaves it behind, empty
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    try:
        path.rename(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return libc
