"""The unit: there, enabled, running, whole, and open enough for what the configuration needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject
from edge_infer.doctor.systemd import UNIT, Unit
from edge_infer.errors import EdgeInferError
from edge_infer.settings import Secret

if TYPE_CHECKING:
    from edge_infer.config.site import Site

OLDEST = 252
"""systemd's version that the unit is tested with."""
_NOTIFY_RELOAD = 253
RELOAD = "sudo systemctl daemon-reload && sudo systemctl restart edge-infer"
OWN = f"/etc/systemd/system/{UNIT}"
DROP_INS = f"{OWN}.d"
OFFERED = "/usr/share/edge-infer/drop-ins"
_PACKAGED = (f"/lib/systemd/system/{UNIT}", f"/usr/lib/systemd/system/{UNIT}")


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - systemd has a limit of its own
    """Without systemd, or without the unit, that is said and nothing else."""
    unit = subject.unit
    if unit.trouble is not None:
        yield warn(
            "unit",
            f"systemd does not answer: {unit.trouble}",
            "systemctl is-system-running; in a container run `edge-infer run` as its program",
        )
    elif unit.version is None:
        yield ok("unit", "there is no systemd here")
    elif not unit.installed:
        running = "a service runs by hand" if subject.service_runs else "no service runs"
        yield ok("unit", f"{UNIT} is not installed on this systemd {unit.version}; {running}")
    else:
        yield from _state(subject, unit)
        yield from _files(subject, unit)
        yield from _hardening(subject, unit)
        yield from _credentials(subject, unit)


def _state(subject: Subject, unit: Unit) -> Iterator[Finding]:
    active, enabled, restarts = unit.get("ActiveState"), unit.get("UnitFileState"), unit.get("NRestarts")
    if active == "failed":
        why = f"{unit.get('Result')}, exit {unit.get('ExecMainStatus')}"
        yield fail(
            "unit",
            f"it is stopped: {why}",
            "journalctl -u edge-infer -n 100 says why; "
            "then sudo systemctl reset-failed edge-infer && sudo systemctl start edge-infer",
        )
    elif not unit.runs:
        yield warn("unit", f"it does not run ({active})", "sudo systemctl start edge-infer")
    else:
        said = unit.get("StatusText")
        yield ok("unit", f"{active}{f': {said}' if said else ''}, started again {restarts or 0} times")
    if unit.runs and int(restarts or 0) > 0:
        yield warn(
            "unit.restarts",
            f"it was started again {restarts} times",
            "journalctl -u edge-infer -p warning -b",
        )
    if enabled not in ("enabled", "static", "alias", "generated"):
        yield warn(
            "unit.enabled",
            f"it is {enabled or 'not enabled'}: it does not start with the machine",
            "sudo systemctl enable edge-infer",
        )
    service = subject.service
    if unit.runs and isinstance(service, EdgeInferError):
        yield warn(
            "unit.asked", f"how it is cannot be asked: {service.message}", "sudo edge-infer ctl status"
        )


def _files(subject: Subject, unit: Unit) -> Iterator[Finding]:
    own, machine = unit.get("FragmentPath"), subject.machine
    packaged = next((text for path in _PACKAGED if (text := machine.text(path)) is not None), None)
    if unit.version is not None and unit.version < OLDEST:
        yield warn(
            "unit.systemd",
            f"systemd {unit.version} is older than {OLDEST}: it ignores some lines silently",
            "upgrade the system",
        )
    if unit.get("NeedDaemonReload") == "yes":
        yield warn("unit.files", "its files were changed and are not in force", RELOAD)
    if own == OWN and packaged is not None and machine.text(OWN) != packaged:
        yield warn(
            "unit.files",
            f"{OWN} hides the unit of the package, and is another one",
            f"sudo rm {OWN} && {RELOAD}; keep changes in {DROP_INS}/",
        )
    if unit.get("Type") == "notify-reload" and (unit.version or 0) < _NOTIFY_RELOAD:
        yield fail(
            "unit.systemd",
            f"systemd {unit.version} does not know Type=notify-reload: it is not waited for",
            f"sudo rm {DROP_INS}/notify-reload.conf && {RELOAD}",
        )
    if missing := [group for group in unit.words("SupplementaryGroups") if machine.has_group(group) is False]:
        yield fail(
            "unit.groups",
            f"no group {', '.join(missing)} here: each start fails with 216/GROUP",
            "sudo systemd-sysusers",
        )


def _hardening(subject: Subject, unit: Unit) -> Iterator[Finding]:
    site = subject.site
    if unit.get("MemoryDenyWriteExecute") == "yes" and (site is None or _uses_openvino(site)):
        severe = warn if site is None else fail
        yield severe(
            "unit.hardening",
            "MemoryDenyWriteExecute=yes: OpenVINO compiles code at run time and fails (can't protect)",
            f"sudo rm {DROP_INS}/onnxruntime-only.conf && {RELOAD}",
        )
    if unit.get("ProcSubset") == "pid":
        yield warn(
            "unit.hardening",
            "ProcSubset=pid hides /proc/cpuinfo: runtimes are slow, or never return",
            f"remove ProcSubset= from {DROP_INS}/, then {RELOAD}",
        )
    if site is not None:
        yield from _openings(site, unit)


def _uses_openvino(site: Site) -> bool:
    return any(use.backend.type == "openvino" for use in site.models.values())


def _openings(site: Site, unit: Unit) -> Iterator[Finding]:
    """What devices of the configuration need."""
    kinds = {type(camera).__name__.lower() for camera in site.cameras.values()}
    allowed = unit.get("DeviceAllow")
    closed = unit.get("DevicePolicy") in ("closed", "strict")
    raw = "cap_net_raw" in unit.get("AmbientCapabilities").lower() and "AF_PACKET" in unit.get(
        "RestrictAddressFamilies"
    )
    if kinds & {"gige", "basler"} and not raw:
        yield fail(
            "unit.drop-ins",
            "industrial cameras need raw sockets, which the unit is not given",
            f"sudo install -Dm 644 {OFFERED}/industrial-cameras.conf -t {DROP_INS} && {RELOAD}",
        )
    if (
        any(station.trigger.type == "gpio" for station in site.stations.values())
        and closed
        and "gpiochip" not in allowed
    ):
        yield fail(
            "unit.drop-ins",
            "light barriers on inputs need /dev/gpiochip*, which the unit is not given",
            f"sudo install -Dm 644 {OFFERED}/gpio.conf -t {DROP_INS} && {RELOAD}",
        )
    if "v4l2" in kinds and (unit.get("PrivateDevices") == "yes" or (closed and "video" not in allowed)):
        yield fail(
            "unit.hardening",
            "the unit hides /dev/video*: PrivateDevices= or DeviceAllow=",
            f"remove it from {DROP_INS}/, then {RELOAD}",
        )


def _credentials(subject: Subject, unit: Unit) -> Iterator[Finding]:
    given = unit.credentials
    for name, path in given.items():
        try:
            there = Path(path).exists()
        except OSError:
            # only root sees it
            continue
        if not there:
            yield fail(
                "unit.credentials",
                f"LoadCredential={name}: there is no {path}: each start fails with 243/CREDENTIALS",
                f"sudo install -m 0600 /dev/stdin {path}    # type it, Enter, Ctrl-D",
            )
    site = subject.site
    if site is None:
        return
    known = {*given, *(word.partition(":")[0] for word in unit.words("LoadCredentialEncrypted"))}
    for settings in (site.mqtt, *site.cameras.values()):
        for value in dict(settings).values():
            if isinstance(value, Secret) and value.credential is not None and value.credential not in known:
                name = value.credential
                yield fail(
                    "unit.credentials",
                    f"the configuration names the credential {name}, which the unit is not given",
                    f"sudo systemctl edit edge-infer: LoadCredential={name}:/etc/edge-infer/{name} "
                    f"below [Service], then {RELOAD}",
                )
