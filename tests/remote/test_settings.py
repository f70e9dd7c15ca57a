from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from edge_infer.messages.command import VERBS
from edge_infer.remote.settings import CommandSettings
from tests.support.sites import GOOD, write_site


def _site(tmp_path: Path, commands: str) -> CommandSettings:
    without = re.sub(r"^commands:\n(  .*\n)+", "", GOOD, flags=re.MULTILINE)
    return load_site(write_site(tmp_path, f"{without}{commands}")).commands


def test_nothing_is_allowed_unless_it_is_written(tmp_path: Path) -> None:
    assert _site(tmp_path, "") == CommandSettings(allow=(), per_minute=60)


def test_each_verb_can_be_allowed_by_name(tmp_path: Path) -> None:
    read = _site(tmp_path, f"commands: {{allow: [{', '.join(VERBS)}], per_minute: 5}}\n")
    assert (read.allow, read.per_minute) == (VERBS, 5)


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ("commands: {allow: [set_treshold]}\n", "commands.allow[0]"),
        ("commands: {allow: ['*']}\n", "commands.allow[0]"),
        ("commands: {allow: all}\n", "commands.allow"),
        ("commands: {allow: [ping, ping]}\n", "ping stands there twice"),
        ("commands: {allow: [ping], per_minute: 0}\n", "commands.per_minute"),
        ("commands: {alow: [ping]}\n", "commands.alow"),
    ],
)
def test_what_is_misspelt_allows_nothing(tmp_path: Path, commands: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        _site(tmp_path, commands)
