"""Which hosts a process asks for anything."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

_LOCAL = re.compile(r"AF_UNIX|AF_NETLINK")


def strangers_asked(command: Sequence[str], home: Path, trace: Path) -> list[str]:
    """Run ``command`` to its good end; the calls for sockets that are not local, of its children too."""
    # a continuous integration is what some reporters leave alone
    environ = {name: value for name, value in os.environ.items() if name not in ("CI", "NNCF_CI")}
    environ |= {"HOME": str(home)}
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=network", "-o", str(trace), *command],
        env=environ, check=True, timeout=120, capture_output=True,
    )  # fmt: skip
    calls = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    return [call for call in calls if "AF_INET" in call or ("socket(" in call and not _LOCAL.search(call))]
