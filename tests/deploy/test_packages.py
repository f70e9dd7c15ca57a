"""What is in the package and the archive that devices are installed from, without installing them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from email import message_from_bytes
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from edge_infer.cli import cli
from tests.support.systemd import product

CHECKOUT = Path(__file__).parents[2]
INSTALL = CHECKOUT / "deploy/install"
LIBRARIES = "./opt/edge-infer/venv/lib/python3.11/site-packages"
DOCUMENTATION = "./usr/share/doc/edge-infer"

Files = tuple[list[tarfile.TarInfo], dict[str, bytes]]


@pytest.fixture(scope="module")
def files() -> Files:
    """Every entry, and the content of the small ones that are read here."""
    wanted = re.compile(
        rf"(?!{LIBRARIES}).*\.(service|yaml|md|8\.gz|cfg)|.*/bin/edge-infer|{LIBRARIES}/[^/]*/METADATA"
    )
    entries, content = [], {}
    with (
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", product.package()], stdout=subprocess.PIPE
        ) as package,
        tarfile.open(fileobj=package.stdout, mode="r|") as tree,
    ):
        for entry in tree:
            entries.append(entry)
            file = tree.extractfile(entry) if entry.isreg() and wanted.fullmatch(entry.name) else None
            if file:
                content[entry.name] = file.read()
    return entries, content


def field(name: str) -> str:
    done = subprocess.run(
        ["dpkg-deb", "--field", product.package(), name],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return done.stdout.strip()


def libraries(content: dict[str, bytes]) -> dict[str, str]:
    """Versions by name."""
    said = [message_from_bytes(text) for name, text in content.items() if name.endswith("/METADATA")]
    return {one["Name"]: one["Version"] for one in said}


def test_it_needs_the_python_that_its_libraries_were_compiled_for() -> None:
    minor = sys.version_info.minor
    assert f"python3 (>= 3.{minor}), python3 (<< 3.{minor + 1})" in field("Depends")
    assert field("Recommends") == "libaravis-0.8-0"


def test_all_of_it_is_roots_and_nobody_elses_to_write(files: Files) -> None:
    entries, _ = files
    assert {(one.uid, one.gid) for one in entries} == {(0, 0)}
    assert [one.name for one in entries if not one.issym() and one.mode & 0o7022] == []


def test_it_has_no_file_that_dpkg_would_ask_about_and_leaves_the_configuration_to_the_site(
    files: Files,
) -> None:
    entries, _ = files
    below = [one.name.rstrip("/") for one in entries if one.name.startswith("./etc/")]
    assert [one for one in below if one != "./etc"] == ["./etc/edge-infer"]


def test_it_knows_no_place_but_that_of_its_installation(files: Files) -> None:
    _, content = files
    assert content["./opt/edge-infer/venv/bin/edge-infer"].startswith(
        b"#!/opt/edge-infer/venv/bin/python -IB\n"
    )
    assert content["./opt/edge-infer/venv/pyvenv.cfg"].startswith(b"home = /usr/bin\n")


def test_the_unit_is_that_of_the_checkout(files: Files) -> None:
    _, content = files
    unit = (CHECKOUT / "systemd/edge-infer.service").read_bytes()
    assert content["./lib/systemd/system/edge-infer.service"] == unit


def test_the_libraries_are_those_that_the_tests_run_with_and_no_tools_of_development(files: Files) -> None:
    _, content = files
    names = libraries(content)
    assert names == {name: version(name) for name in names}
    assert {"numpy", "onnxruntime", "openvino", "av", "gpiod"} <= set(names)
    assert {"pytest", "mypy", "ruff", "pip", "setuptools", "iotcore", "pypylon"}.isdisjoint(names)


def test_the_licence_of_everything_is_named_and_those_that_oblige_whoever_passes_it_on(files: Files) -> None:
    entries, content = files
    page = content[f"{DOCUMENTATION}/third-party.md"].decode()
    rows = dict(re.findall(r"^\| (\S+) \| \S+ \| (.+?) \|", page, re.MULTILINE))
    assert set(libraries(content)) - {"edge-infer"} == set(rows) - {"package", "---"}
    brought = {one.name for one in entries if "/av.libs/" in one.name}
    for library in ("x264", "x265"):
        assert any(f"lib{library}" in one for one in brought)
        assert f"**{library}**" in page
    assert any(one.name == f"{DOCUMENTATION}/licences/GPL-3" for one in entries)


def test_each_example_uses_the_network_that_is_installed(files: Files) -> None:
    entries, content = files
    (link,) = (one for one in entries if one.name == "./opt/edge-infer/models")
    model = f"./opt/edge-infer/{link.linkname}/bottles/model.yaml"
    assert model in {one.name for one in entries}
    examples = {name: text for name, text in content.items() if "/examples/" in name}
    assert {Path(one).name for one in examples} == {one.name for one in (CHECKOUT / "deploy").glob("*.yaml")}
    assert all(b"../models" not in text for text in examples.values())


def test_the_manual_has_every_command_and_no_mistake() -> None:
    manual = INSTALL / "edge-infer.8"
    done = subprocess.run(
        ["man", "--warnings", "--local-file", manual], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    named = subprocess.run(["lexgrog", manual], capture_output=True, text=True, check=False, timeout=60)
    assert named.returncode == 0
    text = re.sub(r"\\f.|\\", "", manual.read_text())
    with click.Context(cli) as context:
        commands = set(cli.list_commands(context))
    assert [one for one in sorted(commands) if not re.search(rf"^\.\S+ \"?{one}\b", text, re.MULTILINE)] == []


def test_what_is_documented_of_its_size_holds() -> None:
    size_mb = product.package().stat().st_size / 1e6
    installed_mb = int(field("Installed-Size")) / 1000
    page = (CHECKOUT / "deploy/README.md").read_text()
    said = re.search(r"Debian 12 .*\| (\d+) MB, installed (\d+) MB", page)
    assert said
    assert int(said[1]) == pytest.approx(size_mb, rel=0.1)
    assert int(said[2]) == pytest.approx(installed_mb, rel=0.1)
