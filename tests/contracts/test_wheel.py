"""What is built is whole: the demo runs from the wheel alone, in an empty directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    # a copy: an older build/ beside the checkout would be packed too
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    for name in ("edge_infer", "models"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = out.glob("*.whl")
    return built


def test_every_folder_of_code_is_in_the_list_of_packages() -> None:
    config = ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    folders = {path.parent for path in (CHECKOUT / "edge_infer").rglob("*.py")}
    there = {".".join(folder.relative_to(CHECKOUT).parts) for folder in folders}
    assert listed == there | {"edge_infer.bundled"}


def test_the_wheel_holds_the_bundled_model_and_nothing_large(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "edge_infer/bundled/bottles/model.yaml" in names
    assert "edge_infer/bundled/bottles/model.onnx" in names
    assert "edge_infer/py.typed" in names
    assert not any("__pycache__" in name for name in names)
    assert wheel.stat().st_size < 4_000_000


def test_the_demo_runs_from_the_wheel_in_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    packages, empty = tmp_path / "site packages", tmp_path / "empty dir"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)  # the wheel built above
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import edge_infer; print(edge_infer.__file__)"],
        env=environment, cwd=empty, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(packages) in where.stdout
    done = subprocess.run(
        [sys.executable, "-P", "-m", "edge_infer", "demo", "--seconds", "8", "--json"],
        env=environment, cwd=empty, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *results, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert summary["summary"]["parts"] == len(results) >= 3
    assert list(empty.iterdir()) == []
