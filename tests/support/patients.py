"""Machines for the doctor: trees like /, and packages that a program dies of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from edge_infer.doctor.finding import Finding
from edge_infer.doctor.machine import Machine
from edge_infer.doctor.subject import Subject
from tests.support.sysfs import write

CELERON = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 55
model name\t: Intel(R) Celeron(R) CPU  J1900  @ 1.99GHz
flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush dts acpi \
mmx fxsr sse sse2 ss ht tm pbe syscall nx rdtscp lm constant_tsc arch_perfmon pebs bts rep_good nopl \
xtopology tsc_reliable nonstop_tsc cpuid aperfmperf tsc_known_freq pni pclmulqdq dtes64 monitor \
ds_cpl vmx est tm2 ssse3 cx16 xtpr pdcm sse4_1 sse4_2 movbe popcnt tsc_deadline_timer rdrand lahf_lm \
3dnowprefetch epb pti ibrs ibpb stibp tpr_shadow vnmi flexpriority ept vpid tsc_adjust smep erms \
dtherm ida arat \
md_clear
"""
"""A fanless PC of 2013, many of which still stand beside lines."""
CORE = (
    "model name\t: Intel(R) Core(TM) i5-8500T\nflags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 avx f16c fma avx2"
)
ARM = "processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 cpuid\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4"

UNIT = {
    "LoadState": "loaded",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "Result": "success",
    "NRestarts": "0",
    "ExecMainStatus": "0",
    "StatusText": "1 of 1 stations judge",
    "FragmentPath": "/lib/systemd/system/edge-infer.service",
    "DropInPaths": "",
    "NeedDaemonReload": "no",
    "Type": "notify",
    "User": "edge-infer",
    "ExecStart": "{ path=/opt/x/python ; argv[]=/opt/x/python -I -B -m edge_infer run CONFIG ; pid=1 }",
    "MemoryMax": "2147483648",
    "MemoryCurrent": "600000000",
    "TasksMax": "256",
    "LimitNOFILE": "4096",
    "MemoryDenyWriteExecute": "no",
    "SupplementaryGroups": "video render",
    "IPAddressAllow": "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fe80::/10",
    "IPAddressDeny": "0.0.0.0/0 ::/0",
    "DevicePolicy": "closed",
    "DeviceAllow": "char-video4linux rw",
    "PrivateDevices": "no",
    "ProcSubset": "all",
    "AmbientCapabilities": "",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "LoadCredential": "",
    "CacheDirectory": "edge-infer",
    "StateDirectory": "edge-infer",
}
"""What systemd 252 says of the unit."""

Check = Callable[[Subject, float], Iterator[Finding]]


def root(folder: Path, **files: str) -> Path:
    """A healthy machine without systemd; ``files`` are written over it."""
    write(
        folder,
        {
            "proc/cpuinfo": CORE,
            "proc/meminfo": "MemTotal:        8000000 kB\nMemAvailable:    6000000 kB",
            "sys/devices/system/cpu/present": "0-3",
            "sys/devices/system/cpu/online": "0-3",
            "etc/group": "root:x:0:\nvideo:x:44:\nrender:x:106:",
            "etc/resolv.conf": "nameserver 10.0.0.1",
            **files,
        },
    )
    return folder


def booted(folder: Path, config: Path | str = "/etc/edge-infer/edge-infer.yaml", **said: str) -> Path:
    """With systemd: a folder for PATH whose systemctl says what the real one said, and ``said`` instead."""
    (folder / "run/systemd/system").mkdir(parents=True)
    programs = folder / "programs"
    programs.mkdir()
    lines = {**UNIT, **said}
    lines["ExecStart"] = lines["ExecStart"].replace("CONFIG", str(config))
    credentials = lines.pop("LoadCredential")
    (folder / "said").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    (folder / "files").write_text(
        f"[Service]\nLoadCredential=old:/x\nLoadCredential=\nLoadCredential={credentials}\n"
    )
    program = programs / "systemctl"
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) echo "systemd 252 (252.39-1~deb12u1)";;\n'
        f"cat) cat {folder}/files;; *) cat {folder}/said;; esac\n"
    )
    program.chmod(0o755)
    return programs


def subject(root: Path, config: Path | None = None, **environ: str) -> Subject:
    """Of a machine."""
    return Subject(Machine(root), config, environ, root / "state")


def told(check: Check, patient: Subject, limit_s: float = 30.0) -> dict[str, Finding]:
    """By name; the last one of each."""
    return {one.check: one for one in check(patient, time.monotonic() + limit_s)}


def runtime(folder: Path, name: str, code: str) -> Path:
    """A folder for PYTHONPATH with another package of a runtime's name."""
    package = folder / name
    package.mkdir(parents=True)
    if code:
        (package / "__init__.py").write_text(code)
    return folder
