"""What a program may do under the lines of a unit, seen by `probe.py` in the machine."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.systemd.machine import Machine

PROBE = Path(__file__).with_name("probe.py")
ADDRESSES = (
    "10.9.9.9/32", "172.16.9.9/32", "192.168.9.9/32", "169.254.9.9/32", "203.0.113.9/32", "fd00::9/128",
    "2001:db8::9/128",
)  # fmt: skip
"""All are the machine's own, and somebody answers: who cannot reach them is kept from it."""
DEVICES = {
    "char-video4linux": ("/dev/video0", "81 0"),
    "char-media": ("/dev/media0", "240 0"),
    "char-drm": ("/dev/dri/renderD128", "226 128"),
    "char-accel": ("/dev/accel/accel0", "261 0"),
    "char-usb_device": ("/dev/bus/usb/001/001", "189 0"),
    "char-gpiochip": ("/dev/gpiochip0", "241 0"),
}
"""Kinds of devices that a kernel without drivers for them does not know by name: a node stands for each."""
BARE = ("User=nobody", "LimitRTPRIO=50")
"""Somebody without privileges who is kept from nothing."""
_ECHO = """\
import socket
server = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    server.accept()[0].close()
"""
_CHANGED = ("Type", "ExecStart", "ExecReload", "WatchdogSec", "Restart", "RestartPreventExitStatus")


class Probing:
    """Starts `probe.py` as units of their own."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._count = 0
        folder = machine.root / "usr/local/bin"
        shutil.copy(PROBE, folder / "probe")
        for address in ADDRESSES:
            machine.run(f"ip addr replace {address} dev lo nodad")
        for node, number in DEVICES.values():
            machine.run(f"mkdir -p {Path(node).parent}; mknod -m 666 {node} c {number}")
        machine.run(
            "mkdir -p /boot /usr/lib/modules; chmod 755 /root; touch /tmp/somebodys;"
            "mknod -m 666 /dev/vcs1 c 7 1; stat -Lc %i /proc/1/ns/uts >/usr/local/share/uts;"
            "cp /usr/bin/id /usr/local/bin/root-id; chmod 4755 /usr/local/bin/root-id"
        )
        # a cable to somebody, so that there is a way to everybody
        machine.run(
            "ip link add plant0 type veth peer name plant1; ip link set plant0 up; ip link set plant1 up;"
            "ip addr add 10.8.8.8/24 dev plant0; ip route add 255.255.255.255 dev plant0"
        )
        (machine.root / "usr/local/bin/echo-server").write_text(_ECHO)
        machine.run("systemd-run --quiet --unit=echo-server /usr/bin/python3 /usr/local/bin/echo-server")

    def look(self, units: Mapping[str, tuple[Iterable[str], Sequence[str]]]) -> dict[str, dict[str, str]]:
        """Of each unit, by what the caller calls it: its lines, and which probes to run. All at once."""
        names = {}
        for called, (lines, probes) in units.items():
            name = names[called] = f"probe-{self._count}"
            self._count += 1
            # directories and users of their own: they run beside each other
            own = [
                _with_nodes(line.replace("edge-infer", name))
                for line in lines
                if line.partition("=")[0] not in _CHANGED
            ]
            text = "\n".join(
                ["[Service]", "Type=oneshot", *own, f"StandardOutput=truncate:/run/{name}.json",
                 f"ExecStart=/usr/bin/python3 -I -B /usr/local/bin/probe {' '.join(probes)}", ""]
            )  # fmt: skip
            (self._machine.root / f"run/systemd/system/{name}.service").write_text(text)
        self._machine.run(f"systemctl daemon-reload; systemctl start {' '.join(names.values())}", check=False)
        return {called: self._answer(name) for called, name in names.items()}

    def _answer(self, name: str) -> dict[str, str]:
        text = self._machine.run(f"cat /run/{name}.json")
        assert text.startswith("{"), text + self._machine.journal(name)
        answer: dict[str, str] = json.loads(text.replace(name, "edge-infer"))
        return answer


def _with_nodes(line: str) -> str:
    for kind, (node, _) in DEVICES.items():
        line = line.replace(f"DeviceAllow={kind} ", f"DeviceAllow={node} ")
    return line


def service_lines(unit: str) -> list[str]:
    """The lines of a unit's [Service], without comments."""
    section = re.search(r"(?ms)^\[Service\]\n(.*?)(^\[|\Z)", unit)
    assert section is not None
    return [line for line in section[1].splitlines() if line and not line.startswith("#")]
