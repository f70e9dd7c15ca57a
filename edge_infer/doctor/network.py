"""Network cards and kernel settings for GigE cameras, and ports that somebody else has."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.machine import Machine
from edge_infer.doctor.subject import Subject

if TYPE_CHECKING:
    from edge_infer.sources.gige import Gige

_USUAL_MTU = 1500
_LISTENS = "0A"
RMEM = "/proc/sys/net/core/rmem_max"


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """Nothing without a configuration: what is enough depends on it."""
    site, machine = subject.site, subject.machine
    if site is None:
        return
    from edge_infer.sources.gige import Gige

    cameras = {name: one for name, one in site.cameras.items() if isinstance(one, Gige)}
    if cameras:
        yield from _buffers(machine, cameras)
    for name, camera in cameras.items():
        if camera.address is not None:
            yield _card(machine, name, camera)
    if site.metrics is not None and (port := site.metrics.port) is not None and not subject.service_runs:
        if port in _taken(machine):
            yield fail(
                "network.metrics",
                f"TCP port {port} is taken: metrics are not served",
                f"sudo ss -ltnp 'sport = :{port}' names who has it; or another metrics.port",
            )
        else:
            yield ok("network.metrics", f"TCP port {port} is free")


def _buffers(machine: Machine, cameras: dict[str, Gige]) -> Iterator[Finding]:
    limit, wanted = machine.number(RMEM), max(one.socket_buffer for one in cameras.values())
    if limit is None:
        yield ok("network.buffers", f"{RMEM} cannot be read here")
    elif limit < wanted:
        file = "/etc/sysctl.d/60-edge-infer.conf"
        yield warn(
            "network.buffers",
            f"net.core.rmem_max is {limit}, socket_buffer {wanted}: large pictures lose packets",
            f"echo net.core.rmem_max={wanted} | sudo tee {file} && sudo sysctl --system",
        )
    else:
        yield ok("network.buffers", f"net.core.rmem_max is {limit}")


def _card(machine: Machine, name: str, camera: Gige) -> Finding:
    check_name, address = f"network.{name}", ipaddress.IPv4Address(str(camera.address))
    card = _towards(machine, address)
    if card is None:
        return fail(
            check_name,
            f"no network card is in the network of {address}",
            f"ip -br address; give the camera's card an address beside {address}",
        )
    mtu = machine.number(f"/sys/class/net/{card}/mtu")
    if mtu is not None and camera.packet_size is not None and camera.packet_size > mtu and card != "lo":
        return fail(
            check_name,
            f"packets of {camera.packet_size} bytes do not go through {card} (MTU {mtu})",
            f"sudo ip link set {card} mtu 9000 (every switch too), or packet_size: {mtu}",
        )
    if mtu is not None and mtu <= _USUAL_MTU:
        return ok(
            check_name,
            f"over {card}, MTU {mtu}; jumbo frames (sudo ip link set {card} mtu 9000) take less processor",
        )
    return ok(check_name, f"over {card}, MTU {mtu}")


def _towards(machine: Machine, address: ipaddress.IPv4Address) -> str | None:
    """The card of the narrowest direct route; over a router no camera is found."""
    best, card = -1, None
    for line in (machine.text("/proc/net/route") or "").splitlines()[1:]:
        words = line.split()
        if len(words) < 8:
            continue
        destination, gateway, mask = (_quad(words[at]) for at in (1, 2, 7))
        if int(address) & mask == destination and not gateway and mask.bit_count() > best:
            best, card = mask.bit_count(), words[0]
    return "lo" if card is None and address.is_loopback else card


def _quad(text: str) -> int:
    return int(struct.unpack("<I", struct.pack(">I", int(text, 16)))[0])


def _taken(machine: Machine) -> set[int]:
    ports = set()
    for family in ("tcp", "tcp6"):
        for line in (machine.text(f"/proc/net/{family}") or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == _LISTENS:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports
