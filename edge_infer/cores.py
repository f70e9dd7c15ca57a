"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_OWN, _ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def allowed() -> int:
    """By CPU affinity (``taskset``, ``CPUAffinity=``, a container's CPU set)."""
    return len(os.sched_getaffinity(0))


def usable(own: Path = _OWN, root: Path = _ROOT) -> int:
    """By affinity and the quota of its control group (``CPUQuota=``, ``docker --cpus``); at least 1.

    With more busy threads than that the kernel stops all of them for the rest of each period.
    ``own`` and ``root``: where the kernel tells of control groups (version 2).
    """
    quota = _quota(own, root)
    return allowed() if quota is None else max(1, min(allowed(), math.ceil(quota)))


def leave_to_runtimes() -> None:
    """Call before the first import of numpy: its own threads would take the cores from the networks."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _quota(own: Path, root: Path) -> float | None:
    """Cores that the group and every group above it leave; None where none limits it."""
    try:
        paths = [line[3:] for line in own.read_text().splitlines() if line.startswith("0::")]
    except OSError:
        return None
    limits = []
    for path in paths:
        # in a container the path may be the host's, where nothing is found: the root is looked at anyway
        group = root / path.lstrip("/")
        while group != root.parent and len(group.parts) >= len(root.parts):
            limits.append(_limit(group))
            group = group.parent
    return min((one for one in limits if one is not None), default=None)


def _limit(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
