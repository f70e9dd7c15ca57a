"""What is examined: a machine, perhaps a configuration, perhaps a service that runs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_infer import cpu
from edge_infer.doctor import systemd
from edge_infer.doctor.later import later
from edge_infer.doctor.machine import Machine, Who, group_name
from edge_infer.errors import ConfigError, EdgeInferError
from edge_infer.settings import Secret, Secrets

if TYPE_CHECKING:
    from edge_infer.config.site import Site

STATUS_S = 4.0
"""For the service that runs to say how it is."""


class UnitSecrets(Secrets):
    """Also credentials that only the unit is given, where this user may read their files."""

    def __init__(self, environ: Mapping[str, str], credentials: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._environment = environ
        self._credentials = credentials

    def path(self, secret: Secret) -> Path:
        """See Secrets."""
        given = self._credentials.get(secret.credential or "")
        if given and not self._environment.get("CREDENTIALS_DIRECTORY"):
            return Path(given)
        return super().path(secret)


class Subject:
    """Thread-safe. What takes long is begun at once, and waited for by whoever needs it."""

    def __init__(
        self, machine: Machine, config: Path | None, environ: Mapping[str, str], state_dir: Path
    ) -> None:
        """``state_dir``: of a configuration that does not say."""
        self.machine = machine
        self.config = config
        self.environ = environ
        self._default_state_dir = state_dir
        self.processor = cpu.look(machine.path("/proc/cpuinfo"))
        self._unit = later("unit", partial(systemd.ask, machine.path("/run/systemd/system")))
        self._site = later("configuration", self._load)
        self._service = later("service", self._ask_service)

    @property
    def unit(self) -> systemd.Unit:
        """Waits."""
        return self._unit.result()

    def load(self) -> Site | None:
        """Waits; None without a configuration, errors as `load_site`."""
        return self._site.result()

    @property
    def site(self) -> Site | None:
        """Waits; None also where it is wrong, which one check tells."""
        try:
            return self._site.result()
        except EdgeInferError:
            return None

    @property
    def is_misconfigured(self) -> bool:
        """The configuration was looked at, and is wrong; does not wait."""
        return self._site.done() and isinstance(self._site.exception(), ConfigError)

    @property
    def known_site(self) -> Site | None:
        """The site if it is loaded by now; does not wait."""
        return self.site if self._site.done() else None

    @property
    def service(self) -> Mapping[str, Any] | EdgeInferError:
        """Waits: how the service is that runs, or why it did not say."""
        return self._service.result()

    @property
    def its_cameras(self) -> Mapping[str, Mapping[str, Any]]:
        """By name: those that a service of this configuration holds, as it says how they are."""
        service = self.service
        if isinstance(service, EdgeInferError) or self.config is None:
            return {}
        running = (service.get("configuration") or {}).get("file")
        if running is None or Path(running).resolve() != self.config.resolve():
            return {}
        return {one["camera"]: one for one in service.get("cameras", ())}

    @property
    def service_runs(self) -> bool:
        """As far as anybody can see from here."""
        return not isinstance(self.service, EdgeInferError) or (self._is_the_units and self.unit.runs)

    @property
    def secrets(self) -> Secrets:
        """Waits for the unit."""
        return UnitSecrets(self.environ, self.unit.credentials)

    @property
    def state_dir(self) -> Path:
        """Where the service keeps its state."""
        site = self.site
        if site is not None and site.state_dir is not None:
            return site.state_dir
        if self._is_the_units and self.unit.installed:
            return Path("/var/lib") / (self.unit.get("StateDirectory") or "edge-infer")
        return self._default_state_dir

    @property
    def who(self) -> Who:
        """Whose permissions count."""
        unit = self.unit
        if self._is_the_units and unit.installed:
            groups = frozenset(unit.words("SupplementaryGroups"))
            remedy = (
                "sudo systemctl edit edge-infer: SupplementaryGroups={group} below [Service], then restart"
            )
            return Who("the service", None, groups, remedy)
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        groups = frozenset(group_name(gid) for gid in (*os.getgroups(), os.getegid()))
        return Who(name, uid, groups, f"sudo usermod -aG {{group}} {name}, then log in again")

    @property
    def _is_the_units(self) -> bool:
        """What is asked for is what the unit runs."""
        given = self.unit.configuration
        return self.config is None or (given is not None and self.config.resolve() == Path(given).resolve())

    def _load(self) -> Site | None:
        # Python's libraries for pictures are built for processors that have these, too
        if self.config is None or self.processor.lacks:
            return None
        from edge_infer.config.site import load_site

        return load_site(self.config)

    def _ask_service(self) -> Mapping[str, Any] | EdgeInferError:
        from edge_infer.ctl.client import ask
        from edge_infer.ctl.protocol import SOCKET, Request

        trouble = EdgeInferError("the service does not run")
        for folder in dict.fromkeys((self.machine.path("/run/edge-infer"), self.state_dir)):
            try:
                answer = ask(folder / SOCKET, Request(do="status"), STATUS_S)
            except EdgeInferError as error:
                trouble = error
                continue
            status = answer.get("status")
            if isinstance(status, dict):
                return status
            trouble = EdgeInferError(str(answer.get("message")))
        return trouble
