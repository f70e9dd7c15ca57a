"""A machine with a real systemd: a Debian 12 in a container, thrown away at the end. Needs root."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pytest

TREE = Path(__file__).parents[3] / ".venv/machine"
"""Made once by `make test`."""
BOOT_S, STOP_S = 60.0, 30.0
_CGROUPS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup")
_NAME = "edge-infer-machine-"
_CLONE_NEWNET = 0x40000000

# What is written lies in memory, in a mount namespace of its own, and the first process ends with the tests:
# whatever ends those, nothing goes on.
# BPF enforces the policies of devices and addresses; without its options systemd only says that it cannot.
# The kernel's clock may be asked, not set, as on a machine.
_START = """
mount -t tmpfs -o size=4G machine "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" machine "$2/root"
shift
room=$1
shift
exec systemd-nspawn --quiet --directory="$room/root" --boot --register=no \
    --keep-unit --private-network --console=pipe --capability=CAP_BPF,CAP_PERFMON \
    --system-call-filter="bpf adjtimex clock_adjtime" "$@"
"""

T = TypeVar("T")


class Machine:
    """Runs from ``with`` to its end. Its files are at `root`, its network is entered by `network`."""

    def __init__(self, *options: str) -> None:
        """``options`` of systemd-nspawn, like ``--bind-ro=HERE:THERE``."""
        if not (TREE / "usr/bin/systemctl").exists():
            pytest.fail(f"{TREE} is missing: `make .venv/machine.stamp` makes it")
        self._options = options
        self._room = tempfile.TemporaryDirectory(prefix=f"{_NAME}{os.getpid()}-")
        self._log = Path(self._room.name).with_suffix(".log")
        # one of its own, else two machines would share theirs
        self._cgroups = [
            Path(one) / Path(self._room.name).name for one in _CGROUPS if Path(one, "cgroup.procs").exists()
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.leader = 0
        """Its first process, as this machine counts."""

    @property
    def root(self) -> Path:
        """Its files."""
        return Path(f"/proc/{self.leader}/root")

    def run(self, command: str, *, check: bool = True, timeout_s: float = 120) -> str:
        """A line of shell in it; what it printed on both streams. ``check``: it must succeed."""
        done = self.ask("sh", "-c", command, timeout_s=timeout_s)
        if check and done.returncode:
            pytest.fail(f"{command}: exit {done.returncode}:\n{done.stdout}\n{self.journal()[-4000:]}")
        return done.stdout

    def ask(self, *command: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """A program in it, both streams in ``stdout``."""
        return subprocess.run(
            ["nsenter", "-t", str(self.leader), "-a", "-r", "-w", *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, errors="replace", timeout=timeout_s, check=False,
            env={
                "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG": "C.UTF-8",
                "SYSTEMD_COLORS": "0",
            },
        )  # fmt: skip

    def show(self, unit: str, name: str) -> str:
        """A property, as ``systemctl show`` has it."""
        return self.run(f"systemctl show {unit} -P {name}").strip()

    def journal(self, unit: str = "") -> str:
        """Messages since it booted, of a unit or of all."""
        which = ["-u", unit] if unit else []
        return self.ask("journalctl", "--no-pager", "-q", "-b", "-o", "cat", *which).stdout

    def until(self, is_so: Callable[[], T], timeout_s: float = 60, what: str = "") -> T:
        """Wait for it; what it became."""
        end_s = time.monotonic() + timeout_s
        while not (seen := is_so()):
            if time.monotonic() > end_s:
                pytest.fail(f"not in {timeout_s} s: {what}\n{self.journal()[-4000:]}")
            time.sleep(0.05)
        return seen

    @contextmanager
    def network(self) -> Iterator[None]:
        """This thread, and each process that it starts, is in the machine's network."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open(f"/proc/{self.leader}/ns/net") as its:  # noqa: PTH123
            assert libc.setns(its.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(own.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())

    def __enter__(self) -> Machine:
        _sweep()
        for cgroup in self._cgroups:
            cgroup.mkdir()
        joins = "".join(f"echo 0 >{cgroup}/cgroup.procs\n" for cgroup in self._cgroups)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=slave", "--pid",
                 "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-euc", joins + _START, "sh",
                 TREE.resolve(), self._room.name, *self._options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )  # fmt: skip
        try:
            self.leader = self._wait(self._find_leader, "systemd")
            self._wait(self._booted, "the end of its boot")
            self.run("ip link set lo up")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _find_leader(self) -> int:
        assert self._process is not None
        for nspawn in _children(self._process.pid):
            for one in _children(nspawn):
                if Path(f"/proc/{one}/comm").read_text() == "systemd\n":
                    return one
        return 0

    def _booted(self) -> bool:
        return self.ask("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def _wait(self, is_so: Callable[[], T], what: str) -> T:
        assert self._process is not None
        end_s = time.monotonic() + BOOT_S
        while True:
            try:
                if seen := is_so():
                    return seen
            except OSError:
                pass  # a process that was just there
            if self._process.poll() is not None or time.monotonic() > end_s:
                pytest.fail(f"the machine did not reach {what}:\n{self._log.read_text(errors='replace')}")
            time.sleep(0.02)

    def _end(self) -> None:
        """Cleanly, else by force; nothing of it stays."""
        assert self._process is not None
        if self.leader and self._process.poll() is None:
            # systemd's word for: power off
            os.kill(self.leader, signal.SIGRTMIN + 4)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        self._process.kill()
        self._process.wait(STOP_S)
        for cgroup in self._cgroups:
            _remove(cgroup)
        self._log.unlink()
        self._room.cleanup()


def _children(pid: int) -> Sequence[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _remove(cgroup: Path) -> None:
    """With those below it; what was killed in it may still be ending."""
    end_s = time.monotonic() + STOP_S
    for folder in sorted([cgroup, *(one for one in cgroup.rglob("*") if one.is_dir())], reverse=True):
        while True:
            try:
                folder.rmdir()
            except FileNotFoundError:
                break  # others sweep too
            except OSError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.02)
            else:
                break


def _sweep() -> None:
    """What tests that were killed could not take away: empty folders."""
    for at in (*_CGROUPS, tempfile.gettempdir()):
        for one in Path(at).glob(f"{_NAME}*"):
            if Path("/proc", one.name.removeprefix(_NAME).partition("-")[0]).exists():
                continue
            if at in _CGROUPS:
                _remove(one)
            elif one.is_dir():
                with suppress(FileNotFoundError):
                    one.rmdir()
            else:
                one.unlink(missing_ok=True)
