"""The machine's files, below a root that tests lay out."""

from __future__ import annotations

import grp
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """Reads what the kernel and the distribution tell in files."""

    root: Path = Path("/")

    def path(self, absolute: str) -> Path:
        """Where ``/proc/…``, ``/sys/…``, ``/dev/…``, ``/etc/…`` lie."""
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str | None:
        """A file's, without white space at its ends; None where it cannot be read."""
        try:
            return self.path(absolute).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def number(self, absolute: str) -> int | None:
        """None where there is none."""
        text = self.text(absolute)
        return int(text) if text is not None and text.isdecimal() else None

    def has_group(self, name: str) -> bool | None:
        """None where the list of groups cannot be read."""
        text = self.text("/etc/group")
        if text is None:
            return None
        if any(line.partition(":")[0] == name for line in text.splitlines()):
            return True
        return self.root == Path("/") and _known(name)


def _known(group: str) -> bool:
    """Also to a directory service."""
    try:
        grp.getgrnam(group)
    except KeyError:
        return False
    return True


def group_name(gid: int) -> str:
    """Its number where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


@dataclass(frozen=True, slots=True)
class Who:
    """Whose permissions count: the service's where it is installed, else those of whoever asks."""

    name: str
    uid: int | None
    """None: made up by systemd at each start; nothing is its own beforehand."""
    groups: frozenset[str]
    remedy: str
    """How to put it into a group; ``{group}`` is filled in."""

    def may_use(self, node: Path) -> str | None:
        """Why it may not read and write a device node; None: it may. OSError where there is none."""
        status = node.stat()
        owner, group, mode = status.st_uid, group_name(status.st_gid), status.st_mode
        if self.uid == 0:
            return None
        if self.uid is not None and owner == self.uid:
            allowed = mode & stat.S_IRUSR and mode & stat.S_IWUSR
        elif group in self.groups:
            allowed = mode & stat.S_IRGRP and mode & stat.S_IWGRP
        else:
            allowed = mode & stat.S_IROTH and mode & stat.S_IWOTH
        if allowed:
            return None
        return (
            f"{self.name} may not use {node}: it is group {group}'s ({stat.filemode(mode)}), "
            f"and {self.name} is in {', '.join(sorted(self.groups)) or 'none'}"
        )

    def mend(self, node: Path) -> str:
        """How it may."""
        return self.remedy.format(group=group_name(node.stat().st_gid))
