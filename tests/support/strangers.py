"""Which hosts a process asks for anything."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

# libuuid opens a socket to read a network card's number, and says nothing over it
_ASKED = re.compile(r"\b(connect|sendto|sendmsg|sendmmsg)\(.*AF_INET")
_QUIET = ("CI", "NNCF_CI", "ORT_DISABLE_TELEMETRY", "TF_BUILD", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI",
          "TRAVIS", "JENKINS_URL", "APPVEYOR")  # fmt: skip


def strangers_asked(command: Sequence[str], home: Path, trace: Path) -> list[str]:
    """Run ``command`` to its good end; what it and its children said to other machines."""
    # a continuous integration is what reporters leave alone, and ours switches them off in this process
    environ = {name: value for name, value in os.environ.items() if name not in _QUIET}
    environ |= {"HOME": str(home)}
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=network", "-o", str(trace), *command],
        env=environ, check=True, timeout=120, capture_output=True,
    )  # fmt: skip
    calls = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    return [call for call in calls if _ASKED.search(call)]
