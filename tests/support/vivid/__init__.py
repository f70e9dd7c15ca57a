"""A machine with cameras: Debian's kernel and its own test driver, vivid, in an emulator.

The guest sees this machine's files read-only, so that the same Python, packages and checkout run there. It
needs neither root nor hardware support for virtual machines, and is some ten times slower than the host.
"""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

KERNEL = Path(sys.prefix) / "vivid"
"""Made by the Makefile."""
REPORTS = "/dev/ttyS1"
"""Where the guest's reports go; the first serial line is the console, where the kernel talks too."""


@dataclass
class Guest:
    """What a guest reported, and everything that it printed."""

    checks: dict[str, dict[str, object]] = field(default_factory=dict)
    console: str = ""


def names(module: ModuleType) -> list[str]:
    """The checks of a module, in the order in which they stand there."""
    return [name for name in vars(module) if name.startswith("check_")]


def run_in_guest(module: ModuleType, folder: Path, timeout_s: float) -> Guest:
    """Boot, run the module's checks one after the other, power off; ended by force after ``timeout_s``."""
    command = _command(folder, module)
    console = folder / "console"
    process = subprocess.Popen(
        [
            # two processors as tests have here; tcg works on every machine
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024",
            "-display", "none", "-monitor", "none", "-no-reboot", "-nic", "none",
            "-serial", f"file:{console}", "-serial", "stdio",
            "-kernel", KERNEL / "vmlinuz", "-initrd", command,
            "-append", "console=ttyS0 quiet loglevel=3 panic=-1",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )  # fmt: skip
    limit = threading.Timer(timeout_s, process.kill)
    limit.start()
    guest = Guest()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                report = json.loads(line)
                guest.checks[report.pop("check")] = report
        process.wait(10)
    finally:
        limit.cancel()
        process.kill()
        process.wait(5)
        if process.stdout is not None:
            process.stdout.close()
    guest.console = console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""
    return guest


def _command(folder: Path, module: ModuleType) -> Path:
    """The initramfs with what to run in it: archives may follow each other."""
    assert module.__file__ is not None
    run = shlex.join([sys.executable, "-B", "-m", "tests.support.vivid.guest", module.__name__])
    checkout = shlex.quote(str(Path(__file__).parents[3]))
    (folder / "command").write_text(
        # udev's commands would do nothing: they see that the host's files are not the guest's root
        "export SYSTEMD_IGNORE_CHROOT=1\n"
        "export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run HOME=/run\n"
        f"cd {checkout} && {run}\n"
    )
    archive = subprocess.run(
        ["cpio", "--quiet", "-o", "-H", "newc"],
        input=b"command\n",
        cwd=folder,
        capture_output=True,
        check=True,
    ).stdout
    initramfs = folder / "initramfs"
    initramfs.write_bytes((KERNEL / "initramfs").read_bytes() + gzip.compress(archive))
    return initramfs
