"""Whether the unit lets the service reach what it must: whoever asks from a shell may reach more."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edge_infer.doctor.finding import Finding, fail, ok
from edge_infer.doctor.subject import Subject
from edge_infer.doctor.systemd import Unit

if TYPE_CHECKING:
    from edge_infer.config.site import Site

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - a silent name server is told by the limit
    """systemd drops what is not allowed, and no error says so."""
    site, unit = subject.site, subject.unit
    if site is None or not unit.installed or not unit.words("IPAddressDeny"):
        return
    troubles, hosts = [], dict(_hosts(site))
    for name, host in hosts.items():
        for address in _addresses(host):
            if not allowed(unit, address):
                troubles.append(
                    _closed(
                        f"reach.{name}", f"{host} is {address}" if host != str(address) else host, address
                    )
                )
                break
    if any(not _is_address(host) and host != "localhost" for host in hosts.values()):
        troubles += [
            _closed("reach.names", f"the name server {one}", one)
            for one in _name_servers(subject)
            if not allowed(unit, one)
        ]
    yield from troubles or [ok("reach", "the unit lets the service reach broker and cameras")]


def _closed(name: str, what: str, address: Address) -> Finding:
    return fail(
        name,
        f"{what}: the unit's IPAddressAllow= does not have it, its packets are dropped",
        f"sudo systemctl edit edge-infer: IPAddressAllow={address} below [Service], then restart it",
    )


def allowed(unit: Unit, address: Address) -> bool:
    """As systemd decides: allowed goes before denied."""
    return _holds(unit.words("IPAddressAllow"), address) or not _holds(unit.words("IPAddressDeny"), address)


def _holds(networks: list[str], address: Address) -> bool:
    for text in networks:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if address.version == network.version and address in network:
            return True
    return False


def _hosts(site: Site) -> Iterator[tuple[str, str]]:
    yield "mqtt", site.mqtt.host
    for name, camera in site.cameras.items():
        if isinstance(url := getattr(camera, "url", None), str) and (host := urlsplit(url).hostname):
            yield f"cameras.{name}", host
        elif isinstance(address := getattr(camera, "address", None), str) and _is_address(address):
            yield f"cameras.{name}", address


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _addresses(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # whoever connects says that nobody knows the name
        return []
    return list(dict.fromkeys(ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found))


def _name_servers(subject: Subject) -> list[Address]:
    servers = []
    for line in (subject.machine.text("/etc/resolv.conf") or "").splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and _is_address(words[1].partition("%")[0]):
            servers.append(ipaddress.ip_address(words[1].partition("%")[0]))
    return servers
