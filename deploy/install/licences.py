"""licences.py FOLDER PLACE...: what others wrote that is in PLACE (site-packages, or wheels), with versions
and licences, as FOLDER/third-party.md; the texts that came with it in FOLDER/licences."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import Distribution, PackagePath, distributions
from pathlib import Path

PAGE = Path(__file__).with_name("third-party.md")
FILE = re.compile(r"(licen[cs]e|copying|notice|authors|third.?party)", re.IGNORECASE)
TEXT = ("", ".txt", ".md", ".rst", ".APACHE", ".BSD")
GNU = ("GPL-2", "GPL-3", "LGPL-2.1", "LGPL-3")
COMMON = Path("/usr/share/common-licenses")


def licence(of: Distribution) -> str:
    """As its metadata says, the newest way of saying it first."""
    # .json, as metadata's own reader warns of keys that are not there
    said = of.metadata.json
    named = [one.rpartition(" :: ")[2] for one in said.get("classifier", []) if one.startswith("License ::")]
    for text in (said.get("license_expression"), said.get("license"), ", ".join(named)):
        # some put the whole text there
        if isinstance(text, str) and text and "\n" not in text:
            return text.rpartition(" :: ")[2]
    raise SystemExit(f"{of.name} {of.version} says no licence: look it up before it is passed on")


def libraries(of: Distribution) -> list[str]:
    """Compiled ones that a wheel brings along, without their own digests."""
    brought = [one.name for one in of.files or () if one.parts[0].endswith(".libs")]
    return sorted({name.split(".so")[0].split("-")[0].removeprefix("lib") for name in brought})


def texts(of: Distribution) -> list[PackagePath]:
    """Of licences, wherever they lie in it."""
    return [one for one in of.files or () if FILE.search(str(one)) and one.suffix in TEXT]


def collect(folder: Path, places: list[str]) -> None:
    """A table, and the texts beside it."""
    rows = []
    for one in sorted(distributions(path=places), key=lambda one: one.name.lower()):
        if one.name == "edge-infer":
            continue
        rows.append(f"| {one.name} | {one.version} | {licence(one)} | {', '.join(libraries(one))} |\n")
        for text in texts(one):
            its = folder / "licences" / one.name / "_".join(text.parts[1:])
            its.parent.mkdir(parents=True, exist_ok=True)
            # in a wheel it is a part of a file, which only it itself can read
            its.write_bytes(text.read_binary())
    for name in GNU:
        shutil.copyfile(COMMON / name, folder / "licences" / name)
    (folder / PAGE.name).write_text(PAGE.read_text().replace("@PACKAGES@\n", "".join(rows) + "\n"))


if __name__ == "__main__":
    collect(Path(sys.argv[1]), sys.argv[2:])
