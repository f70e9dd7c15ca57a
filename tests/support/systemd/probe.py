"""probe.py NAME...: what a program under the unit's settings can do; prints a JSON object of words.

Standard library only. A word is ``done`` or an error's name: which one says which line stood in the way.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import re
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_NUMBERS = {"x86_64": {"bpf": 321, "ioprio_set": 251}, "aarch64": {"bpf": 280, "ioprio_set": 30}}[
    os.uname().machine
]
"""Of system calls that the C library has no function for."""
_PROBES: dict[str, Callable[[], object]] = {}


def probe(look: Callable[[], object]) -> Callable[[], object]:
    _PROBES[look.__name__] = look
    return look


def call(name: str, *arguments: object) -> int:
    """A function of the C library that says -1 and why."""
    result: int = getattr(_LIBC, name)(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def status(name: str) -> str:
    """A line of this process's own status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def _write(path: str) -> None:
    Path(path).write_text("x")


def _mode(path: str | Path) -> str:
    return f"{stat.S_IMODE(Path(path).stat().st_mode):04o}"


# -- who it is


@probe
def identity() -> str:
    return "dynamic" if 61184 <= os.getuid() <= 65519 else "static"


@probe
def groups() -> str:
    lines = [line.split(":") for line in Path("/etc/group").read_text().splitlines()]
    mine = {name for name, _, number, _ in lines if int(number) in os.getgroups()}
    return " ".join(sorted(mine & {"render", "video"})) or "none"


@probe
def mode_of_a_new_file() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "new")
        path.touch()
        return _mode(path)


def _folder(variable: str) -> str:
    folder = os.environ[variable]
    Path(folder, "probe").write_text("x")
    return f"{folder.replace(Path(folder).name, '*')} {_mode(folder)}"


@probe
def open_files() -> str:
    return "{} {}".format(*resource.getrlimit(resource.RLIMIT_NOFILE))


@probe
def core_file() -> str:
    return "none" if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0) else "some"


# -- privileges


@probe
def new_privileges() -> str:
    """/usr/local/bin/root-id is `id` with root's setuid bit."""
    told = subprocess.check_output(["/usr/local/bin/root-id", "-u"], text=True)
    return "root" if told == "0\n" else "itself"


@probe
def capabilities() -> str:
    most = status("CapBnd")
    return most if int(most, 16) in (0, 1 << 13) else "some"


@probe
def setuid_bit() -> None:
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0o4755)  # noqa: PTH101, S103


@probe
def realtime() -> None:
    # a policy that the kernel does not know either: whoever gets so far is told that, whatever else it may do
    os.sched_setscheduler(0, 99, os.sched_param(0))


@probe
def namespace_of_its_own() -> None:
    call("unshare", 0x10000000)


@probe
def other_personality() -> None:
    call("personality", ctypes.c_ulong(8))


# -- files


@probe
def others_tmp() -> str:
    """The tests put a file there."""
    return "seen" if Path("/tmp/somebodys").exists() else "hidden"


@probe
def mounts_reach_others() -> str:
    """What is mounted here would be seen outside."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    (root,) = (line for line in lines if line.split()[4] == "/")
    return "yes" if re.search(r" shared:\d+ - ", root) else "no"


@probe
def control_groups() -> None:
    Path("/sys/fs/cgroup/probe").mkdir()


@probe
def set_clock() -> None:
    call("adjtimex", ctypes.create_string_buffer(208))


@probe
def host_name() -> str:
    """The tests wrote down which namespace is the machine's."""
    machines = Path("/usr/local/share/uts").read_text().strip()
    return "the machine's" if str(Path("/proc/self/ns/uts").stat().st_ino) == machines else "its own"


def _see(folder: str) -> None:
    next(Path(folder).iterdir(), None)


def _run_from_own(variable: str) -> str:
    return _run_from(os.environ[variable])


def _run_from(folder: str) -> str:
    # others try the same beside this one
    path = Path(folder, f"run-me-{os.getpid()}")
    path.write_text("#!/bin/sh\necho done\n")
    path.chmod(0o700)
    try:
        return subprocess.check_output([path], text=True).strip()
    finally:
        path.unlink()


@probe
def load_from_state() -> None:
    path = Path(os.environ["STATE_DIRECTORY"], "library.so")
    path.write_bytes(next(Path("/usr/lib").rglob("libm.so.6")).read_bytes())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        pass


# -- devices


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


# -- system calls


@probe
def trace_another() -> None:
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        call("ptrace", 16, child, 0, 0)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@probe
def bpf() -> None:
    call("syscall", _NUMBERS["bpf"], 0, None, 0)


@probe
def change_owner() -> None:
    with tempfile.NamedTemporaryFile() as file:
        os.chown(file.name, -1, -1)


@probe
def place_threads() -> None:
    os.sched_setaffinity(0, os.sched_getaffinity(0))


@probe
def io_priority() -> None:
    call("syscall", _NUMBERS["ioprio_set"], 1, 0, 2 << 13 | 4)


@probe
def foreign_system_calls() -> str:
    """32-bit getpid by int 0x80, from machine code: mov eax, 20; int 0x80; ret."""
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
    child = os.fork()
    if child == 0:
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else 1)
    _, ended = os.waitpid(child, 0)
    return "done" if ended == 0 else "refused"


@probe
def writable_code() -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


# -- network


def _socket(family: int, kind: int) -> None:
    socket.socket(family, kind).close()


@probe
def ask_everybody() -> None:
    """GigE Vision's question who is there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.sendto(b"x", ("255.255.255.255", 3956))


def _connect(address: str) -> None:
    socket.create_connection((address, 7), timeout=1).close()


_OWN = {name: f"{name.upper()}_DIRECTORY" for name in ("state", "cache", "logs", "runtime")}
_PROBES |= {f"{name}_folder": partial(_folder, variable) for name, variable in _OWN.items()}
_PROBES |= {f"run_from_{name}": partial(_run_from_own, variable) for name, variable in _OWN.items()}
_PROBES |= {
    "home": lambda: os.environ["HOME"],
    "write_usr": partial(_write, "/usr/probe"),
    "write_etc": partial(_write, "/etc/probe"),
    "write_opt": partial(_write, "/opt/probe"),
    "write_configuration": partial(_write, "/etc/edge-infer/probe"),
    "see_home": partial(_see, "/home"),
    "see_root": partial(_see, "/root"),
    "see_boot": partial(_see, "/boot"),
    "modules": partial(_see, "/usr/lib/modules"),
    "others_processes": partial(_see, "/proc/1"),
    "kernel_log": partial(_mode, "/proc/kmsg"),
    "kernel_symbols": partial(_mode, "/proc/kallsyms"),
    "kernel_settings": partial(_write, "/proc/sys/net/ipv4/ip_forward"),
    "run_from_tmp": partial(_run_from, "/tmp"),
    "run_from_var_tmp": partial(_run_from, "/var/tmp"),
    "run_from_memory": partial(_run_from, "/dev/shm"),
    # nodes without a driver here, so what is let through finds nothing
    "camera": partial(_open, "/dev/video0"),
    "media_controller": partial(_open, "/dev/media0"),
    "gpu": partial(_open, "/dev/dri/renderD128"),
    "npu": partial(_open, "/dev/accel/accel0"),
    "usb_camera": partial(_open, "/dev/bus/usb/001/001"),
    "light_barrier": partial(_open, "/dev/gpiochip0"),
    "console": partial(_open, "/dev/vcs1"),
    "null": partial(_open, "/dev/null"),
    "vsock_socket": partial(_socket, socket.AF_VSOCK, socket.SOCK_STREAM),
    "packet_socket": partial(_socket, socket.AF_PACKET, socket.SOCK_DGRAM),
    "netlink_socket": partial(_socket, socket.AF_NETLINK, socket.SOCK_RAW),
    "unix_socket": partial(_socket, socket.AF_UNIX, socket.SOCK_DGRAM),
    # the tests listen there
    "reach_itself": partial(_connect, "127.0.0.1"),
    "reach_plant": partial(_connect, "10.9.9.9"),
    "reach_office": partial(_connect, "172.16.9.9"),
    "reach_workshop": partial(_connect, "192.168.9.9"),
    "reach_ula": partial(_connect, "fd00::9"),
    "reach_unconfigured_camera": partial(_connect, "169.254.9.9"),
    "reach_internet": partial(_connect, "203.0.113.9"),
    "reach_internet_6": partial(_connect, "2001:db8::9"),
}


def look(name: str) -> str:
    """In a process of its own: some change what they may do."""
    read, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(told, _look(name).encode())
        os._exit(0)
    os.close(told)
    with open(read, encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def _look(name: str) -> str:
    try:
        seen = _PROBES[name]()
    except TimeoutError:
        return "ETIMEDOUT"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except KeyError as error:
        return f"no {error.args[0]}"
    return "done" if seen is None else str(seen)


if __name__ == "__main__":
    print(json.dumps({name: look(name) for name in sys.argv[1:]}))  # noqa: T201 - its answer
