"""settle.py VENV PYTHON: an environment made somewhere becomes that of /opt/edge-infer/venv on PYTHON."""

from __future__ import annotations

import sys
from pathlib import Path

HOME = Path("/opt/edge-infer/venv")


def settle(venv: Path, python: Path) -> None:
    """``python`` as /usr/bin/python3.11."""
    (venv / "pyvenv.cfg").write_text(f"home = {python.parent}\ninclude-system-site-packages = false\n")
    for one in list((venv / "bin").iterdir()):
        if one.name.startswith("python"):
            continue
        if one.name != "edge-infer":
            # tools of libraries, and shells' settings for development
            one.unlink()
            continue
        _, _, program = one.read_text().partition("\n")
        # nothing of the caller's environment gets in, nothing is written beside the program
        one.write_text(f"#!{HOME}/bin/python -IB\n{program}")
    for record in venv.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        # programs that are gone, or not what they were: they named the place where they were made
        kept = [
            line
            for line in record.read_text().splitlines(keepends=True)
            if not line.startswith("../../../bin/")
        ]
        record.write_text("".join(kept))
    for name, to in (("python", str(python)), ("python3", "python"), (python.name, "python")):
        (venv / "bin" / name).unlink(missing_ok=True)
        (venv / "bin" / name).symlink_to(to)


if __name__ == "__main__":
    settle(Path(sys.argv[1]), Path(sys.argv[2]))
