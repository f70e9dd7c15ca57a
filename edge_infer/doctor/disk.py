"""Where the service writes: room beside its budgets, files, read-only, kind of file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject

_FILES = 500
"""Inodes that pictures need to be stored."""
_FEW = 50
"""Inodes below which the outbox may fail."""
_LEAST = 16_000_000
"""Bytes without which the outbox cannot write."""
_CACHE = 200_000_000
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs")
_FLEETING = ("tmpfs", "ramfs")
_WITHOUT_JOURNAL = ("vfat", "exfat", "msdos", "ext2")


class _Place(NamedTuple):
    name: str
    path: Path
    needed: int
    """Bytes without which it cannot work."""
    wanted: int
    """Bytes that it may come to use."""
    why: str


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - one that hangs is told by its limit
    """State, cache and pictures."""
    for place in _places(subject):
        yield from _place(subject, place)


def _places(subject: Subject) -> Iterator[_Place]:
    site, state = subject.site, subject.state_dir
    used = _size(state / "outbox.db")
    budget = site.outbox.max_bytes if site is not None else 0
    yield _Place("disk.state", state, _LEAST, max(0, budget - used), "outbox.max_bytes")
    if site is not None and (evidence := site.evidence) is not None:
        needed = evidence.min_free_bytes
        yield _Place("disk.evidence", state / "evidence", needed, needed, "evidence.min_free_bytes")
    yield _Place("disk.cache", _cache(subject), 0, _CACHE, "compiled models")


def _cache(subject: Subject) -> Path:
    given = subject.environ.get("CACHE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else Path("/var/cache") / (subject.unit.get("CacheDirectory") or "edge-infer")


def _place(subject: Subject, place: _Place) -> Iterator[Finding]:
    path = _that_exists(place.path)
    try:
        disk = os.statvfs(path)
    except OSError as error:
        yield fail(place.name, f"{place.path}: {error.strerror}", f"ls -ld {path}; dmesg | tail")
        return
    mounted, kind = _mount(subject, path)
    free = disk.f_bavail * disk.f_frsize
    clean = f"df -h {path}; sudo du -xh --max-depth=2 {mounted} | sort -h | tail finds what fills it"
    troubles = []
    if disk.f_flag & os.ST_RDONLY:
        troubles.append(
            fail(
                place.name,
                f"{path} is read-only ({kind} on {mounted})",
                f"dmesg | grep -i {kind} says why (often a damaged disk); sudo mount -o remount,rw {mounted}",
            )
        )
    elif not _is_units(subject, place.path) and not os.access(path, os.W_OK):
        troubles.append(
            fail(
                place.name,
                f"{path} may not be written by {subject.who.name}",
                f"sudo chown {subject.who.name} {path}, or another state_dir",
            )
        )
    if free < place.needed:
        troubles.append(
            fail(place.name, f"{path} has {_mb(free)} free, {place.why} wants {_mb(place.needed)}", clean)
        )
    elif free < place.wanted:
        troubles.append(
            warn(
                place.name,
                f"{path} has {_mb(free)} free, {place.why} may come to {_mb(place.wanted)} more",
                clean,
            )
        )
    if disk.f_files and disk.f_favail < _FILES:
        few = fail if disk.f_favail < _FEW or place.name == "disk.evidence" else warn
        troubles.append(
            few(
                place.name,
                f"{path} can hold only {disk.f_favail} more files",
                f"df -i {path}; delete many small files below {mounted}",
            )
        )
    if place.name == "disk.state":
        troubles.extend(_kind(place, path, kind, mounted))
    if troubles:
        yield from troubles
    else:
        seen = "" if path == place.path else f" ({place.path} is made at the start, or hidden from this user)"
        yield ok(place.name, f"{path}: {_mb(free)} free, {kind}{seen}")


def _kind(place: _Place, path: Path, kind: str, mounted: str) -> Iterator[Finding]:
    if kind in _NETWORK:
        yield fail(
            place.name,
            f"{path} lies on a network ({kind}): SQLite's locks and flushes are not safe there",
            "write state_dir: with a folder on a disk of this device",
        )
    elif kind in _FLEETING:
        yield warn(
            place.name,
            f"{path} is memory ({kind}): results are lost when the power goes",
            "write state_dir: with a folder on a disk of this device",
        )
    elif kind in _WITHOUT_JOURNAL:
        yield warn(place.name, f"{path} is {kind}, which a power cut may damage", f"use ext4 for {mounted}")


def _that_exists(path: Path) -> Path:
    """Itself, or the nearest folder above that this user can see."""
    for one in (path, *path.parents):
        try:
            if one.exists():
                return one
        except OSError:
            continue
    return Path("/")


def _is_units(subject: Subject, path: Path) -> bool:
    """systemd makes it and gives it to whom the service runs as."""
    return subject.unit.installed and path.is_relative_to("/var")


def _mount(subject: Subject, path: Path) -> tuple[str, str]:
    """Where it is mounted, and the kind of file system."""
    best, kind = "/", "unknown"
    where = str(path.resolve())
    for line in (subject.machine.text("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if (where == point or where.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return best, kind


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size < 10**10 else f"{size / 1e9:.0f} GB"
