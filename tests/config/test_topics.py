from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from tests.support.sites import GOOD, write_site

WRITTEN = '"vision/v1/{site}/{line}/{device}"'


def site_with(folder: Path, template: str) -> Path:
    return write_site(folder, GOOD.replace(WRITTEN, json.dumps(template)))


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("vision/v1/{site}/{line}/{device}", "vision/v1/plant1/l3/ipc7"),
        ("acme/{site}/area5/{line}/vision", "acme/plant1/area5/l3/vision"),
        ("fest", "fest"),
        ("Werk Süd/{line}", "Werk Süd/l3"),
    ],
)
def test_the_prefix_is_the_template_filled_in(tmp_path: Path, template: str, prefix: str) -> None:
    assert load_site(site_with(tmp_path, template)).topic_prefix == prefix


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a/+/b", "+ # or $"),
        ("a/#", "+ # or $"),
        ("$SYS/{site}", "+ # or $"),
        ("a/\u0085", "control character"),
        ("a/\n", "control character"),
        ("/a", "empty level"),
        ("a/", "empty level"),
        ("a//b", "empty level"),
        ("", "at least 1 character"),
        ("{sight}", "{site}, {line} and {device}, not {sight}"),
        ("{station}", "not {station}"),
        ("{}", "not {}"),
        ("{site!r}", "not {site!r}"),
        ("{site:9}", "not {site:9}"),
        ("{site.x}", "not {site.x}"),
        ("{{x}}", "not {x}"),
        ("{site", "brace without its partner"),
        ("site}", "brace without its partner"),
        ("x" * 70_000, "longer than"),
        ("ü" * 600, "longer than"),
    ],
)
def test_a_prefix_that_no_broker_takes_is_refused_at_its_key(
    tmp_path: Path, template: str, words: str
) -> None:
    path = site_with(tmp_path, template)
    with pytest.raises(ConfigError) as caught:
        load_site(path)
    (mistake,) = caught.value.mistakes
    assert (mistake.key, mistake.line, mistake.column) == ("mqtt.topic_prefix", 17, 17)
    assert words in mistake.message
    assert len(str(mistake)) < 300


@pytest.mark.parametrize(
    ("before", "after", "where", "words"),
    [
        ("  replay:\n", "  cmd:\n", "stations.cmd", "those of commands"),
        ("  replay:\n", "  camera:\n", "stations.camera", "those of cameras"),
        ("site: plant1", "site: rsp", "site", "vision/v1/rsp/"),
        (WRITTEN, '"vision/v1/rsp/{device}"', "mqtt.topic_prefix", "vision/v1/rsp/"),
    ],
)
def test_no_result_is_published_where_something_else_is(
    tmp_path: Path, before: str, after: str, where: str, words: str
) -> None:
    assert GOOD.count(before) == 1
    with pytest.raises(ConfigError) as caught:
        load_site(write_site(tmp_path, GOOD.replace(before, after)))
    (mistake,) = caught.value.mistakes
    assert mistake.key == where
    assert words in mistake.message
