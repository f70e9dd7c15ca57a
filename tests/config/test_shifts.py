"""``shifts:`` in the site's YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from tests.support.sites import GOOD, write_site


def _site(tmp_path: Path, shifts: str) -> Path:
    return write_site(tmp_path, f"{GOOD}shifts: {shifts}\n")


def test_three_shifts_are_the_default(tmp_path: Path) -> None:
    assert load_site(write_site(tmp_path)).shifts == ("06:00", "14:00", "22:00")


def test_shifts_may_be_written_in_any_order(tmp_path: Path) -> None:
    assert load_site(_site(tmp_path, '["22:00", "06:30", "14:00"]')).shifts == ("06:30", "14:00", "22:00")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            "[06:00, 14:00]",
            'shifts[1]: 14:00 without quotes is read as the number 840, not as text; write "14:00"',
        ),
        ('["24:00"]', "24:00 is no time of day"),
        ('["6:00"]', "6:00 is no time of day"),
        ('["06:00", "06:00"]', "06:00 is written twice"),
        ("[]", "names no time"),
        ('"06:00"', "shifts"),
    ],
)
def test_what_is_no_shift_is_said(written: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_site(_site(tmp_path, written))
    assert len(caught.value.mistakes) == 1
    assert said in str(caught.value)
