"""What this user's processes may take: of a service that is started by hand; the unit has its own."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from edge_infer.doctor.finding import Finding, ok, warn
from edge_infer.doctor.subject import Subject

_FILES = 512
_THREADS = 256
_TASKS = 64


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - asks the kernel
    """Runtimes fail with strange words where they meet one."""
    unit = subject.unit
    if unit.installed:
        tasks, files = unit.number("TasksMax"), unit.number("LimitNOFILE")
        if tasks is not None and tasks < _TASKS:
            yield warn(
                "limits",
                f"the unit may have {tasks} threads: runtimes fail to start theirs",
                "sudo systemctl edit edge-infer: TasksMax=256 below [Service]",
            )
        elif files is not None and files < _FILES:
            yield warn(
                "limits",
                f"the unit may open {files} files",
                "sudo systemctl edit edge-infer: LimitNOFILE=4096 below [Service]",
            )
        else:
            yield ok(
                "limits",
                f"the unit may have {tasks or 'any number of'} threads, {files or 'any number of'} files",
            )
        return
    found = []
    if _soft(resource.RLIMIT_NOFILE) < _FILES:
        found.append(
            warn("limits", f"{_soft(resource.RLIMIT_NOFILE)} open files are allowed", "ulimit -n 4096")
        )
    if _soft(resource.RLIMIT_NPROC) < _THREADS:
        found.append(
            warn(
                "limits",
                f"{_soft(resource.RLIMIT_NPROC)} threads are allowed: runtimes fail to start theirs",
                "ulimit -u unlimited",
            )
        )
    if _soft(resource.RLIMIT_AS) < 2**62:
        found.append(
            warn(
                "limits",
                "address space is limited: OpenVINO cannot load its plug-ins",
                "ulimit -v unlimited; limit memory by cgroup instead",
            )
        )
    yield from found or [ok("limits", "files, threads and address space are enough")]


def _soft(which: int) -> int:
    soft, _ = resource.getrlimit(which)
    return 2**63 if soft == resource.RLIM_INFINITY else soft
