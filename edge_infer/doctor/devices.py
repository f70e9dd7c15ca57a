"""NPU and GPU: is there one, has it a driver, may the service use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.machine import Machine
from edge_infer.doctor.subject import Subject

_PROCESSING_ACCELERATOR = "0x1200"
_DISPLAY = "0x03"
_LIBRARIES = (
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/local/lib",
    "/usr/local/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
)
_KINDS = {
    "NPU": (
        "npu",
        "/dev/accel",
        "accel[0-9]*",
        "intel_vpu",
        ("libze_intel_npu.so*", "libze_intel_vpu.so*"),
        _PROCESSING_ACCELERATOR,
    ),
    "GPU": (
        "gpu",
        "/dev/dri",
        "renderD*",
        "i915 or xe",
        ("intel-opencl/libigdrcl.so*", "libze_intel_gpu.so*"),
        _DISPLAY,
    ),
}
_USER_SPACE = {
    "NPU": "install intel-level-zero-npu of its maker's driver release, in the container too",
    "GPU": "sudo apt-get install intel-opencl-icd, in the container too",
}
"""By OpenVINO's name: what it is called here, folder and names of its nodes, module, libraries, PCI class."""


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """Whether OpenVINO sees it is told by the runtimes' check."""
    wanted = _wanted(subject)
    for kind in _KINDS:
        yield _kind(subject, kind, wanted=kind in wanted)


def _wanted(subject: Subject) -> set[str]:
    """Kinds that a model asks for."""
    site = subject.site
    if site is None:
        return set()
    named = [
        device.upper()
        for use in site.models.values()
        for device in (use.backend.device, *use.backend.fallback)
    ]
    return {kind for kind in _KINDS for device in named if kind in device}


def _kind(subject: Subject, kind: str, *, wanted: bool) -> Finding:
    name, folder, pattern, module, libraries, pci = _KINDS[kind]
    machine, severe = subject.machine, fail if wanted else warn
    nodes = sorted(machine.path(folder).glob(pattern))
    if not nodes:
        driverless = [one for one in _pci(machine, pci) if not (one / "driver").exists()]
        if driverless and kind == "NPU":
            return severe(
                name, f"an {kind} is in the machine ({driverless[0].name}) and no driver has taken it",
                f"sudo modprobe {module}; where there is none: a kernel from 6.8 on, firmware-misc-nonfree",
            )  # fmt: skip
        if wanted:
            return fail(
                name, f"no {kind}: there is no {folder}/{pattern}",
                f"sudo modprobe {module.partition(' ')[0]}; in a container pass the device through "
                f"(--device {folder}); or `device: CPU`",
            )  # fmt: skip
        return ok(name, f"no {kind}, and none is asked for")
    who = subject.who
    for node in nodes:
        trouble = who.may_use(node)
        if trouble is not None:
            return severe(name, trouble, who.mend(node))
    if not any(any(machine.path(place).glob(one)) for place in _LIBRARIES for one in libraries):
        return severe(
            name, f"{nodes[0].name} is there, its user-space driver is not: OpenVINO cannot see it",
            _USER_SPACE[kind],
        )  # fmt: skip
    return ok(
        name, f"{', '.join(str(one.name) for one in nodes)}, driver {_driver(machine, nodes[0]) or 'unknown'}"
    )


def _pci(machine: Machine, pci: str) -> list[Path]:
    """Intel's devices of that class."""
    return [
        one
        for one in sorted(machine.path("/sys/bus/pci/devices").glob("*"))
        if (machine.text(f"/sys/bus/pci/devices/{one.name}/class") or "").startswith(pci)
        and machine.text(f"/sys/bus/pci/devices/{one.name}/vendor") == "0x8086"
    ]


def _driver(machine: Machine, node: Path) -> str | None:
    group = "accel" if node.name.startswith("accel") else "drm"
    link = machine.path(f"/sys/class/{group}/{node.name}/device/driver")
    return link.resolve().name if link.exists() else None
