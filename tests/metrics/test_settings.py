from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from tests.support.runs import site


def _warnings(folder: Path, metrics: dict[str, Any]) -> list[str]:
    return [str(one) for one in load_site(site(folder / "site", None, metrics=metrics)).warnings]


def _mistakes(folder: Path, metrics: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        load_site(site(folder / "site", None, metrics=metrics))
    return str(refused.value)


def test_nothing_is_exposed_unless_the_configuration_says_so(tmp_path: Path) -> None:
    assert load_site(site(tmp_path / "site", None)).metrics is None


def test_only_this_device_can_ask_unless_the_configuration_says_otherwise(tmp_path: Path) -> None:
    read = load_site(site(tmp_path / "site", None, metrics={"port": 9464}))
    assert read.metrics is not None
    assert (read.metrics.address, read.metrics.port, read.metrics.textfile) == ("127.0.0.1", 9464, None)
    assert not read.warnings


@pytest.mark.parametrize("address", ["127.0.0.2", "::1"])
def test_other_addresses_of_this_device_alone_are_not_warned_of(tmp_path: Path, address: str) -> None:
    assert not _warnings(tmp_path, {"address": address, "port": 9464})


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.7"])  # noqa: S104 - it is warned of
def test_an_address_that_others_can_reach_is_warned_of_where_it_stands(tmp_path: Path, address: str) -> None:
    (said,) = _warnings(tmp_path, {"address": address, "port": 9464})
    assert "metrics.address" in said
    assert "without a password" in said


def test_check_prints_the_warning_and_still_succeeds(tmp_path: Path) -> None:
    path = site(tmp_path / "site", None, metrics={"address": "0.0.0.0", "port": 9464})  # noqa: S104
    done = subprocess.run(
        [sys.executable, "-m", "edge_infer", "check", str(path), "--json"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    keys = {json.loads(line)["key"]: json.loads(line)["level"] for line in done.stdout.splitlines()}
    assert keys["metrics.address"] == "warning"


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({}, "go nowhere"),
        ({"address": "127.0.0.1"}, "needs a port"),
        ({"address": "localhost", "port": 9464}, "no IP address"),
        ({"port": 0}, "metrics.port"),
        ({"port": 65536}, "metrics.port"),
        ({"textfile": "edge-infer.txt"}, "ends in .prom"),
        ({"textfile": "a.prom", "every_s": 0}, "metrics.every_s"),
        ({"port": 9464, "adress": "::1"}, "address"),
    ],
)
def test_what_cannot_be_meant_is_a_mistake(tmp_path: Path, metrics: dict[str, Any], said: str) -> None:
    assert said in _mistakes(tmp_path, metrics)


def test_a_textfile_is_beside_the_yaml_and_a_folder_that_is_missing_is_warned_of(tmp_path: Path) -> None:
    read = load_site(site(tmp_path / "site", None, metrics={"textfile": "own.prom"}))
    assert read.metrics is not None
    assert read.metrics.textfile == tmp_path / "site/own.prom"
    assert not read.warnings
    (said,) = _warnings(tmp_path, {"textfile": "none/own.prom"})
    assert "there is no folder" in said


def test_the_yaml_of_the_documentation_is_right(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```yaml\n")[1:]]
    shown = [yaml.safe_load(block)["metrics"] for block in blocks if block.startswith("metrics:")]
    assert len(shown) >= 2
    for one in shown:
        load_site(site(tmp_path / "site", None, metrics=one))


def test_neither_settings_nor_the_command_line_load_prometheus_client() -> None:
    loaded = "import sys, edge_infer.cli, edge_infer.config.site, edge_infer.service"
    code = f"{loaded}; print('prometheus_client' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
