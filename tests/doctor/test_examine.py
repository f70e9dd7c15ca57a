"""All checks together: in time whatever hangs, in order, and no secret in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_infer.doctor import CHECKS
from edge_infer.doctor.examine import LIMIT_S, examine
from edge_infer.doctor.finding import Finding, fail, ok
from edge_infer.doctor.subject import Subject
from tests.support.patients import root, subject
from tests.support.runs import site

SECRET = "p%40ss/w#rd ümlaut"
HERE = "tests.doctor.test_examine"


def quick(_subject: Subject, _by_s: float) -> Iterator[Finding]:
    yield ok("quick", "is there")


def hangs(_subject: Subject, _by_s: float) -> Iterator[Finding]:
    yield ok("first", "was told before")
    threading.Event().wait(60)


def broken(_subject: Subject, _by_s: float) -> Iterator[Finding]:
    yield ok("half", "was told before")
    raise RuntimeError("a bug")


def leaks(subject: Subject, _by_s: float) -> Iterator[Finding]:
    assert subject.site is not None
    yield fail(
        "leak", f"said {SECRET} at rtsp://u:p%2540ss%2Fw%23rd%20%C3%BCmlaut@h/s", f"use {SECRET!r}\nand more"
    )


def test_what_hangs_is_told_at_the_limit_and_holds_nobody_else_up(tmp_path: Path) -> None:
    began_s = time.monotonic()
    table = {"a": f"{HERE}:hangs", "b": f"{HERE}:hangs", "c": f"{HERE}:quick"}
    found = list(examine(subject(root(tmp_path)), table, limit_s=1.5))
    assert [one.check for one in found] == ["first", "a", "first", "b", "quick"]
    assert [one.status for one in found if one.check in "ab"] == ["fail", "fail"]
    assert all(one.mend for one in found if one.check in "ab")
    assert time.monotonic() - began_s < 5


def test_the_limit_leaves_time_to_start_within_fifteen_seconds() -> None:
    assert LIMIT_S <= 13


def test_a_bug_in_one_check_is_raised_after_all_others_were_told(tmp_path: Path) -> None:
    telling = examine(subject(root(tmp_path)), {"a": f"{HERE}:broken", "b": f"{HERE}:quick"})
    assert [next(telling).check, next(telling).check] == ["half", "quick"]
    with pytest.raises(RuntimeError, match="a bug"):
        next(telling)


def test_no_secret_is_told_in_any_form_and_each_finding_is_one_line(tmp_path: Path) -> None:
    config = site(tmp_path / "site", None)
    (tmp_path / "site/password").write_text(SECRET)
    (found,) = examine(subject(root(tmp_path / "root"), config), {"leak": f"{HERE}:leaks"})
    assert found.found == "said ******** at rtsp://u:********@h/s"
    assert found.mend == "use '********' and more"


def test_each_check_of_the_table_is_there_and_ends(tmp_path: Path) -> None:
    found = list(examine(subject(root(tmp_path))))
    assert set(CHECKS) >= {"cpu", "runtimes", "cameras", "mqtt", "disk", "clock", "unit", "heat"}
    assert {"cpu", "disk.state", "clock", "unit", "heat", "memory", "limits"} <= {one.check for one in found}
    assert all(one.status == "ok" or one.mend for one in found)
    assert all("\n" not in one.found + one.mend for one in found)
