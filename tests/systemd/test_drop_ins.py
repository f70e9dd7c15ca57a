"""Additions to the unit, which not every device needs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.systemd.probing import service_lines
from tests.systemd.test_unit import FORBIDDEN, UNIT, exposure, tree, verify

__all__ = ["tree"]

DROP_INS = sorted((UNIT.parent / "drop-ins").glob("*.conf"))
NEWER = "notify-reload"
"""Only for a systemd that is newer than the one that is asked here."""


def put(tree: Path, drop_in: Path) -> Path:
    folder = tree / f"etc/systemd/system/{UNIT.name}.d"
    folder.mkdir()
    return Path(shutil.copy(drop_in, folder))


@pytest.mark.parametrize(
    "drop_in", [one for one in DROP_INS if one.stem != NEWER], ids=lambda path: path.stem
)
def test_systemd_understands_every_line_of_it(tree: Path, drop_in: Path) -> None:
    put(tree, drop_in)
    done = verify(tree)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_needs_a_newer_systemd_is_one_line_of_one_drop_in(tree: Path) -> None:
    put(tree, UNIT.parent / f"drop-ins/{NEWER}.conf")
    said = verify(tree).stderr.splitlines()
    assert len(said) <= 1
    assert all("Failed to parse service type, ignoring: notify-reload" in line for line in said)


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.stem)
def test_the_exposure_stays_at_most_2(tmp_path: Path, drop_in: Path) -> None:
    done = exposure(UNIT, drop_in, folder=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_exposure_stays_at_most_2_with_all_that_one_device_may_need(tmp_path: Path) -> None:
    done = exposure(UNIT, *(one for one in DROP_INS if one.stem != NEWER), folder=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.stem)
def test_no_drop_in_has_a_line_that_is_forbidden_without_saying_for_whom_it_is(drop_in: Path) -> None:
    meant = {"onnxruntime-only": {"MemoryDenyWriteExecute=yes"}, NEWER: {"Type=notify-reload"}}
    assert set(service_lines(drop_in.read_text())) & set(FORBIDDEN) == meant.get(drop_in.stem, set())


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.stem)
def test_each_drop_in_says_what_it_is_for_and_where_it_goes(drop_in: Path) -> None:
    first = drop_in.read_text().splitlines()[0]
    assert first.startswith(("# For ", "# Only for ", "# Where "))
    assert f"/etc/systemd/system/{UNIT.name}.d/{drop_in.name}" in first


def test_the_documentation_has_each_drop_in_and_the_exposure_as_it_is(tmp_path: Path) -> None:
    text = (UNIT.parents[1] / "docs/service.md").read_text()
    assert {one.name for one in DROP_INS} <= set(re.findall(r"`([\w-]+\.conf)`", text))
    found = []
    for number, files in enumerate(([UNIT], [UNIT, UNIT.parent / "drop-ins/industrial-cameras.conf"])):
        (folder := tmp_path / str(number)).mkdir()
        found += re.findall(r"exposure level for \S+: ([\d.]+)", exposure(*files, folder=folder).stdout)
    said = re.search(r"says ([\d.]+) \(.*?with the drop-in for industrial cameras ([\d.]+);", text, re.DOTALL)
    assert said is not None
    assert [*said.groups()] == found


def test_a_misspelt_key_would_be_noticed(tree: Path) -> None:
    drop_in = put(tree, UNIT.parent / "drop-ins/industrial-cameras.conf")
    drop_in.write_text(drop_in.read_text().replace("DeviceAllow=", "DevicesAllow="))
    assert "'DevicesAllow'" in verify(tree).stderr
