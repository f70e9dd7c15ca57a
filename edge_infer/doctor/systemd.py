"""What systemd knows of the unit, for whoever asks: no root is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

UNIT = "edge-infer.service"
ASK_S = 3.0
_CREDENTIALS = ("LoadCredential", "LoadCredentialEncrypted")
"""Which ``systemctl show`` calls unprintable; ``systemctl cat`` has them."""
_PROPERTIES = (
    *("LoadState", "UnitFileState", "ActiveState", "Result", "NRestarts", "StatusText", "ExecMainStatus"),
    *("FragmentPath", "DropInPaths", "NeedDaemonReload", "Type", "User", "ExecStart"),
    *("MemoryMax", "MemoryCurrent", "TasksMax", "LimitNOFILE", "MemoryDenyWriteExecute"),
    *("SupplementaryGroups", "IPAddressAllow", "IPAddressDeny", "DevicePolicy", "DeviceAllow"),
    *("PrivateDevices", "ProcSubset", "AmbientCapabilities", "RestrictAddressFamilies"),
    *("CacheDirectory", "StateDirectory"),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """edge-infer.service as systemd has it loaded."""

    version: int | None = None
    """Of systemd; None where there is none."""
    trouble: str | None = None
    """Why systemd did not answer."""
    said: Mapping[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """systemd knows a unit of that name."""
        return self.get("LoadState") not in ("", "not-found")

    @property
    def runs(self) -> bool:
        """It is started, or being started."""
        return self.get("ActiveState") in ("active", "activating", "reloading", "deactivating")

    def get(self, name: str) -> str:
        """Empty where systemd says nothing."""
        return self.said.get(name, "")

    def words(self, name: str) -> list[str]:
        """Of a list."""
        return self.get(name).split()

    def number(self, name: str) -> int | None:
        """None: no limit, or unknown."""
        text = self.get(name)
        # systemd says 2^64 - 1 for "not set" in some properties
        return int(text) if text.isdecimal() and int(text) < 2**63 else None

    @property
    def credentials(self) -> dict[str, str]:
        """Files by credential, those that are not encrypted."""
        pairs = (word.partition(":") for word in self.words("LoadCredential"))
        return {name: path for name, _, path in pairs if path}

    @property
    def configuration(self) -> str | None:
        """The file that it runs."""
        _, found, rest = self.get("ExecStart").partition(" run ")
        return rest.split()[0] if found and rest.split() else None


def ask(booted: Path) -> Unit:
    """Waits up to ``ASK_S`` a question. ``booted``: a folder that systemd makes as the first process."""
    if not booted.is_dir():
        return Unit()
    try:
        first = _said("systemctl", "--version").split()
        version = int(first[1]) if len(first) > 1 and first[1].isdecimal() else None
        said = parse(_said("systemctl", "show", UNIT, f"--property={','.join(_PROPERTIES)}"))
        if said.get("LoadState") == "loaded":
            said |= credentials(_said("systemctl", "cat", UNIT))
    except FileNotFoundError:
        return Unit()
    except subprocess.TimeoutExpired:
        return Unit(trouble=f"systemd does not answer within {ASK_S:g} s")
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        return Unit(version=_version(), trouble=" ".join(told.split()))
    return Unit(version, None, said)


def parse(said: str) -> dict[str, str]:
    """``Name=value`` lines; a name that is there again (DeviceAllow) adds to its list."""
    found: dict[str, str] = {}
    for line in said.splitlines():
        name, _, value = line.partition("=")
        found[name] = f"{found[name]} {value}" if found.get(name) else value
    return found


def credentials(files: str) -> dict[str, str]:
    """Those of a unit's file with its drop-ins, as ``systemctl cat`` puts them one behind the other."""
    found: dict[str, list[str]] = {name: [] for name in _CREDENTIALS}
    for line in files.splitlines():
        name, is_set, value = line.partition("=")
        if name.strip() in found and is_set:
            # an empty one takes back those before it
            found[name.strip()] = [*found[name.strip()], value.strip()] if value.strip() else []
    return {name: " ".join(values) for name, values in found.items()}


def _version() -> int | None:
    try:
        words = _said("systemctl", "--version").split()
    except (OSError, subprocess.SubprocessError):
        return None
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else None


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, timeout=ASK_S, check=True, text=True).stdout
