"""The guest's half: runs a module's checks and reports each as a line of JSON."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.support.vivid import REPORTS, names

UDEV = "/lib/systemd/systemd-udevd"
UDEV_RULES = Path("/run/udev/rules.d")


def load_cameras(count: int = 2, numbers: str = "0,1") -> None:
    """``numbers``: which /dev/video each camera gets."""
    each = ",".join
    subprocess.run(
        [
            "insmod", "/run/vivid.ko", f"n_devs={count}", f"node_types={each(['0x1'] * count)}",
            f"num_inputs={each(['1'] * count)}", f"input_types={each(['0'] * count)}",
            f"vid_cap_nr={numbers}",
        ],
        check=True,
    )  # fmt: skip
    settle()


def unload_cameras() -> None:
    """As if all were pulled out; they must not be open."""
    subprocess.run(["rmmod", "vivid"], check=True)
    settle()


def settle() -> None:
    """Wait until udev has named everything."""
    subprocess.run(["udevadm", "settle", "--timeout=10"], check=True)


def control(number: int, **values: int) -> None:
    """Set controls of /dev/video ``number``, from another process as a technician would."""
    settings = ",".join(f"{name}={value}" for name, value in values.items())
    subprocess.run(["v4l2-ctl", "-d", f"/dev/video{number}", "-c", settings], check=True)


def main() -> None:
    """Cameras 0 and 1 are there when the first check starts."""
    subprocess.run(["stty", "-F", REPORTS, "raw"], check=True)
    subprocess.run([UDEV, "--daemon"], check=True)
    load_cameras()
    module = importlib.import_module(sys.argv[1])
    with Path(REPORTS).open("w", encoding="utf-8") as reports:
        for name in names(module):
            started_s = time.monotonic()
            error = None
            try:
                getattr(module, name)()
            except BaseException:  # noqa: BLE001 - whatever it is, it is this check's result
                error = traceback.format_exc()
            report = {"check": name, "error": error, "took_s": round(time.monotonic() - started_s, 2)}
            reports.write(json.dumps(report) + "\n")
            reports.flush()


if __name__ == "__main__":
    main()
