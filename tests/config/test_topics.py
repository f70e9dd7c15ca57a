from __future__ import annotations

import re

import pytest

from edge_infer.config.topics import MAX_BYTES, fill_in
from edge_infer.errors import EdgeInferError


def filled(template: str) -> str:
    return fill_in(template, site="plant1", line="l3", device="ipc7")


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("vision/v1/{site}/{line}/{device}", "vision/v1/plant1/l3/ipc7"),
        ("acme/{site}/area5/{line}/vision", "acme/plant1/area5/l3/vision"),
        ("fest", "fest"),
        ("Werk Süd/{line}", "Werk Süd/l3"),
        ("{{x}}/{line}", "{x}/l3"),
    ],
)
def test_the_prefix_is_the_template_filled_in(template: str, prefix: str) -> None:
    assert filled(template) == prefix


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a/+/b", r"\+ has a meaning"),
        ("a/#", "# has a meaning"),
        ("$SYS/{site}", r"\$ has a meaning"),
        ("a/\0", "control character"),
        ("a/\n", "control character"),
        ("/a", "empty level"),
        ("a/", "empty level"),
        ("a//b", "empty level"),
        ("", "empty level"),
        ("{sight}", re.escape('{sight} is not a field of the template; did you mean "site"?')),
        ("{station}", re.escape("{station} is not a field")),
        ("{}", "is not a field"),
        ("{site!r}", "is not a field"),
        ("{site:9}", "is not a field"),
        ("{site.x}", "is not a field"),
        ("{site", "without its partner"),
        ("site}", "without its partner"),
        ("x" * (MAX_BYTES + 1), "longer than"),
        ("ü" * (MAX_BYTES // 2 + 1), "longer than"),
    ],
)
def test_a_prefix_that_no_broker_takes_is_refused(template: str, words: str) -> None:
    with pytest.raises(EdgeInferError, match=words):
        filled(template)
