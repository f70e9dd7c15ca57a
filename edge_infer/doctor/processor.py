"""The processor: what it can, which cores may be used, and what runtimes read about it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from edge_infer import cpu
from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.machine import Machine
from edge_infer.doctor.subject import Subject

_CORES = "/sys/devices/system/cpu"


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """Without AVX nothing is loaded, here or by the service."""
    processor, machine = subject.processor, subject.machine
    if processor.lacks:
        names = ", ".join(flag.upper() for flag in processor.lacks)
        yield fail(
            "cpu", f"{processor.model} has no {names}: runtimes may end by SIGILL, so none is run", cpu.REMEDY
        )
    elif processor.flags is None:
        yield warn(
            "cpu",
            "/proc/cpuinfo cannot be read: nobody knows what the processor can",
            "ProcSubset=all for the unit; a container needs /proc",
        )
    elif processor.would_like:
        names = ", ".join(flag.upper() for flag in processor.would_like)
        yield warn("cpu", f"{processor.model} has no {names}: networks run several times slower", cpu.REMEDY)
    else:
        known = [
            flag.upper()
            for flag in ("avx2", "avx512f", "avx_vnni", "amx_int8", "asimd", "asimddp")
            if flag in processor.flags
        ]
        yield ok("cpu", f"{processor.model}: {' '.join(known) or processor.machine}")
    yield _cores(machine)


def _cores(machine: Machine) -> Finding:
    present, online = machine.text(f"{_CORES}/present"), machine.text(f"{_CORES}/online")
    usable = len(os.sched_getaffinity(0))
    if present is None or online is None:
        return fail(
            "cpu.cores",
            f"{_CORES} cannot be read: OpenVINO never returns without it",
            "let the container or unit see /sys/devices/system/cpu",
        )
    if present != online:
        # runtimes count hidden siblings and crash, or pin threads where they may not
        return warn(
            "cpu.cores", f"cores {present} are there, only {online} are online: some runtimes crash on this",
            "give the container or machine all cores and limit its time instead (LXC: cpulimit for cores)",
        )  # fmt: skip
    return ok("cpu.cores", f"{usable} of {_count(present)} may be used")


def _count(ranges: str) -> int:
    total = 0
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            total += int(last or first) - int(first) + 1
    return total
