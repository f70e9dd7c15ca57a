"""Recipes in the site's YAML: read as merged station settings, each mistake told at the recipe's own key."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import numpy as np
import pytest

from edge_infer.config.recipes import KEPT, RecipeSettings
from edge_infer.config.schema import json_schema
from edge_infer.config.site import Site, load_site
from edge_infer.errors import ConfigError, Mistake
from edge_infer.station import StationSettings
from edge_infer.yamlfile import load
from tests.support import networks
from tests.support.sites import GOOD, write_site

ABOVE = "[[0, 0], [1, 0], [1, 0.1]]"
"""Corners of a zone that the region of the station ``cap`` leaves out."""
RECIPES = GOOD[: GOOD.index("recipes:")]


def write(folder: Path, recipes: str, *changes: tuple[str, str]) -> Path:
    text = RECIPES
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return write_site(folder, f"{text}{recipes}")


def told(path: Path) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        load_site(path)
    return list(caught.value.mistakes)


def place(path: Path, text: str) -> tuple[int, int]:
    """Line and column of a text that stands once in the file's recipes."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if number > RECIPES.count("\n") and text in line:
            return number, line.index(text) + 1
    raise AssertionError(text)


def recipe(**keys: str) -> str:
    return "recipes:\n  small:\n    cap:\n" + "".join(f"      {key}: {keys[key]}\n" for key in keys)


def test_a_recipe_is_the_stations_settings_with_its_own_keys_put_in(tmp_path: Path) -> None:
    rules = "[{name: one, count: {labels: [tear], at_least: 1}}]"
    site: Site = load_site(write(tmp_path, recipe(rules=rules, region="null", model="plain")))
    plain, small = site.stations["cap"], site.recipes["small"]["cap"]
    assert [one.name for one in small.rules] == ["one"]
    assert (small.region, small.model) == (None, "plain")
    assert (small.trigger, small.camera, small.confirm) == (plain.trigger, plain.camera, plain.confirm)
    assert small.deadline_ms == plain.deadline_ms == 500
    assert set(site.recipes["small"]) == {"cap"}


@pytest.mark.parametrize("nothing", ["", "recipes: {}\n"])
def test_a_site_needs_no_recipes(tmp_path: Path, nothing: str) -> None:
    assert load_site(write(tmp_path, nothing)).recipes == {}


def test_models_that_only_a_recipe_uses_are_used(tmp_path: Path) -> None:
    changes = (("  plain:\n", "  third:\n    path: seals\n  plain:\n"),)
    path = write(tmp_path, recipe(model="third"), *changes)
    site = load_site(path)
    assert site.warnings == ()
    assert site.used_models == ("seals", "plain", "third")
    (tmp_path / "b").mkdir()
    (warning,) = load_site(write(tmp_path / "b", "", *changes)).warnings
    assert warning.key == "models.third"


@pytest.mark.parametrize("key", KEPT)
def test_a_recipe_keeps_its_stations_camera_and_trigger(tmp_path: Path, key: str) -> None:
    path = write(tmp_path, recipe(**{key: "{type: continuous}" if key == "trigger" else "top"}))
    (mistake,) = told(path)
    assert mistake.key == f"recipes.small.cap.{key}"
    assert mistake.message == f"a recipe keeps the station's {key}; remove it"
    assert (mistake.line, mistake.column) == place(path, f"{key}:")


@pytest.mark.parametrize(
    ("keys", "wrong", "words"),
    [
        ({"regoin": "null"}, "regoin", 'did you mean "region"?'),
        ({"hold_s": "-1"}, "hold_s", "greater than or equal to 0"),
        ({"hold_s": "x"}, "hold_s", "wanted is a number"),
        ({"hold_s": "null"}, "hold_s", "wanted is a number"),
        ({"model": "seal"}, "model", 'did you mean "seals"?'),
        ({"confirm": "{k: 3, n: 2}"}, "confirm", "NOK could never be reached"),
        ({"rules": "[]"}, "rules", "needs rules"),
        ({"anomaly_threshold": "0.4"}, "anomaly_threshold", "finds no anomalies"),
        (
            {"rules": "[{name: a, count: {labels: [tera], at_most: 0}}]"},
            "rules[0].count.labels[0]",
            'did you mean "tear"?',
        ),
        (
            {"rules": "[{name: a, count: {labels: [tear], at_most: 0}, zone: {polygon: " + ABOVE + "}}]"},
            "rules[0].zone",
            "outside the station's region",
        ),
    ],
)
def test_what_is_wrong_for_a_station_is_wrong_in_a_recipe_at_the_recipes_key(
    tmp_path: Path, keys: dict[str, str], wrong: str, words: str
) -> None:
    path = write(tmp_path, recipe(**keys))
    (mistake,) = told(path)
    assert mistake.key in {f"recipes.small.cap.{wrong}", "recipes.small.cap.rules"}
    assert words in mistake.message
    assert mistake.line == place(path, next(iter(keys)))[0]


def test_what_only_the_stations_trigger_makes_wrong_is_told_at_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, "recipes:\n  small:\n    part:\n      hold_s: 3\n")
    (mistake,) = told(path)
    assert mistake.key == "recipes.small.part.hold_s"
    assert "would mix parts" in mistake.message
    assert (mistake.line, mistake.column) == place(path, "3")


def test_a_recipes_model_must_answer_the_rules_that_the_station_keeps(tmp_path: Path) -> None:
    networks.rows(tmp_path / "other.onnx", np.zeros((1, 5, 84), np.float32))
    path = write(
        tmp_path, recipe(model="other"), ("  plain:\n", "  other:\n    path: other.onnx\n  plain:\n")
    )
    (mistake, *_) = told(path)
    assert mistake.key == "recipes.small.cap.model"
    assert "has no label" in mistake.message
    assert (mistake.line, mistake.column) == place(path, "other")


def test_a_recipes_region_must_meet_the_zones_that_the_station_keeps(tmp_path: Path) -> None:
    polygon = ("[[0, 0], [1, 0], [1, 1]]", "[[0, 0.25], [1, 0.25], [1, 0.4]]")
    path = write(tmp_path, recipe(region="{box: [0, 0.5, 1, 1]}"), polygon)
    (mistake,) = told(path)
    assert mistake.key == "recipes.small.cap.region"
    assert "the zone of the rule no-tear lies outside" in mistake.message
    assert mistake.line == place(path, "region")[0]


def test_a_wrong_station_is_not_told_again_by_its_recipes(tmp_path: Path) -> None:
    path = write(tmp_path, recipe(line_stop="null"), ("hold_s: 1", "hold_s: x"))
    assert [one.key for one in told(path)] == ["stations.cap.hold_s"]


def test_a_recipe_for_a_station_that_is_not_there_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    path = write(tmp_path, "recipes:\n  small:\n    cup: {hold_s: 1}\n")
    (mistake,) = told(path)
    assert mistake.key == "recipes.small.cup"
    assert mistake.message == 'there is no station cup under stations:; did you mean "cap"?'
    assert (mistake.line, mistake.column) == place(path, "cup")


@pytest.mark.parametrize(
    ("recipes", "key"),
    [
        ("recipes: [small]\n", "recipes"),
        ("recipes: {small: {}}\n", "recipes.small"),
        ("recipes: {small: cap}\n", "recipes.small"),
        ("recipes: {small: {cap: null}}\n", "recipes.small.cap"),
        ('recipes: {"small bottle": {cap: {hold_s: 1}}}\n', "recipes.small bottle"),
        ("recipes: {0123: {cap: {hold_s: 1}}}\n", "recipes.0123"),
    ],
)
def test_what_is_no_recipe_is_told_at_its_place(tmp_path: Path, recipes: str, key: str) -> None:
    assert [one.key for one in told(write(tmp_path, recipes))] == [key]


def test_a_station_may_be_called_version(tmp_path: Path) -> None:
    path = write(tmp_path, "recipes: {small: {version: {hold_s: 1}}}\n", ("  replay:\n", "  version:\n"))
    assert load_site(path).recipes["small"]["version"].hold_s == 1


def test_a_recipe_may_have_every_key_of_a_station_but_those_it_keeps(tmp_path: Path) -> None:
    assert set(RecipeSettings.model_fields) == set(StationSettings.model_fields) - set(KEPT)
    schema = json_schema()
    fields = schema["$defs"]["RecipeSettings"]["properties"]
    of_station = schema["$defs"]["StationSettings"]["properties"]
    for name, field in fields.items():
        assert {**field, "default": None} == {**of_station[name], "default": None}
    path = write(tmp_path, recipe(hold_s="1", line_stop="null", rules="[]"))
    jsonschema.validate(load(path).data, schema, cls=jsonschema.Draft202012Validator)
    path = write(tmp_path, recipe(hold_s="1", camera="top"))
    with pytest.raises(jsonschema.ValidationError, match="camera"):
        jsonschema.validate(load(path).data, schema, cls=jsonschema.Draft202012Validator)
