"""The examples are what people copy: they must load, and say what their keys mean."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from edge_infer.config.schema import json_schema
from edge_infer.config.site import Site, load_site

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = sorted((CHECKOUT / "deploy").glob("*.yaml"))
NOT_IN_THE_CHECKOUT = ("tls/ca.crt", "tls/ipc7.crt", "tls/ipc7.key", "videos/1.mp4")


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples and the bundled model as they lie in the checkout, and the files that a plant adds."""
    top = tmp_path_factory.mktemp("checkout")
    shutil.copytree(CHECKOUT / "models", top / "models", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(CHECKOUT / "deploy", top / "deploy")
    for name in NOT_IN_THE_CHECKOUT:
        (top / "deploy" / name).parent.mkdir(exist_ok=True)
        (top / "deploy" / name).write_text("made up\n")
    return top / "deploy"


def example(deploy: Path, name: str) -> Site:
    return load_site(deploy / name)


@pytest.mark.parametrize("name", [path.name for path in EXAMPLES])
def test_an_example_loads_without_a_mistake_or_warning(deploy: Path, name: str) -> None:
    site = example(deploy, name)
    assert site.warnings == ()
    assert site.broken_models == ()


def test_there_is_an_example_of_each_camera_trigger_and_backend(deploy: Path) -> None:
    sites = [example(deploy, path.name) for path in EXAMPLES]
    cameras = {type(camera).__name__ for site in sites for camera in site.cameras.values()}
    assert cameras == {"Synthetic", "V4l2", "Rtsp", "Files", "Gige"}
    triggers = {station.trigger.type for site in sites for station in site.stations.values()}
    assert triggers == {"camera", "every", "mqtt", "continuous"}
    assert {use.backend.type for site in sites for use in site.models.values()} == {"onnxruntime", "openvino"}


def test_the_demo_example_judges_as_the_demo_does(deploy: Path) -> None:
    text = (CHECKOUT / "models/bottles/demo.yaml").read_text(encoding="utf-8")
    (station,) = yaml.safe_load(text)["stations"].values()
    written = yaml.safe_load((deploy / "demo.yaml").read_text(encoding="utf-8"))["stations"]["filler"]
    assert [written[key] for key in ("region", "rules", "trigger")] == [
        station[key] for key in ("region", "rules", "trigger")
    ]


def test_no_example_holds_a_secret() -> None:
    for path in EXAMPLES:
        for line in path.read_text().splitlines():
            if "password:" in line and not line.lstrip().startswith("#"):
                assert re.search(r"password: \{(file|env|credential): \S+\}", line)


def test_the_documentation_explains_every_key() -> None:
    text = (CHECKOUT / "docs/configuration.md").read_text(encoding="utf-8")
    schema = json_schema()
    keys = {key for model in (schema, *schema["$defs"].values()) for key in model.get("properties", {})}
    assert sorted(key for key in keys if f"`{key}`" not in text) == []
