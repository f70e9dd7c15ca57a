"""Entries added to a YAML file's list leave all else as a person wrote it."""

from __future__ import annotations

import pytest
import yaml

from edge_infer.yamlfile.append import append

ENTRY = {"image": "golden/b.png", "expect": "golden/b.json"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "# top\nname: x   # why\nlist: [1,\n  2] # end\n",
            ("# top\nname: x   # why\nlist: [1,\n  2] # end\n"
             "golden:\n  - {image: golden/b.png, expect: golden/b.json}\n"),
        ),
        ("name: x", "name: x\ngolden:\n  - {image: golden/b.png, expect: golden/b.json}\n"),
        (
            "name: x\r\n# end\r\n",
            "name: x\r\ngolden:\r\n  - {image: golden/b.png, expect: golden/b.json}\r\n# end\r\n",
        ),
        (
            "golden: []  # none yet\nname: x\n",
            "golden: [{image: golden/b.png, expect: golden/b.json}]  # none yet\nname: x\n",
        ),
        (
            "golden: [{image: a.png, expect: a.json}, ] # two\nname: x\n",
            ("golden: [{image: a.png, expect: a.json}, {image: golden/b.png, expect: golden/b.json}, ]"
             " # two\nname: x\n"),
        ),
        (
            "golden: [\n  {image: a.png, expect: a.json} # first\n]\n",
            ("golden: [\n  {image: a.png, expect: a.json}, {image: golden/b.png, expect: golden/b.json}"
             " # first\n]\n"),
        ),
        (
            "golden:\n- image: a.png\n  expect: a.json # kept\n\n# about the licence\nlicense: MIT\n",
            ("golden:\n- image: a.png\n  expect: a.json # kept\n"
             "- {image: golden/b.png, expect: golden/b.json}\n\n# about the licence\nlicense: MIT\n"),
        ),
        ("{name: x}\n", "{name: x, golden: [{image: golden/b.png, expect: golden/b.json}]}\n"),
        (
            "\ufeffname: x\nlabels:\n  - a\n  - b\n# the end",
            ("\ufeffname: x\nlabels:\n  - a\n  - b\n"
             "golden:\n  - {image: golden/b.png, expect: golden/b.json}\n# the end"),
        ),
        (
            "name: x\nlicense: |\n  MIT\n  and so on\n",
            ("name: x\nlicense: |\n  MIT\n  and so on\n"
             "golden:\n  - {image: golden/b.png, expect: golden/b.json}\n"),
        ),
    ],
)  # fmt: skip
def test_only_the_entry_is_new_and_every_comment_stays(before: str, after: str) -> None:
    got = append(before, "golden", [ENTRY])
    assert got == after
    old = yaml.safe_load(before)
    assert yaml.safe_load(got) == {**old, "golden": [*old.get("golden", []), ENTRY]}


@pytest.mark.parametrize("name", ["no", "# odd.png", "a: b.png", "ü {1}.png", "1e3", "0123", "-", "a, b"])
def test_names_that_yaml_would_read_as_something_else_stay_text(name: str) -> None:
    got = append("name: x\n", "golden", [{"image": name, "expect": "e"}])
    assert yaml.safe_load(got)["golden"] == [{"image": name, "expect": "e"}]


@pytest.mark.parametrize(
    "text", ["golden: &a x\n", "golden:\n", "a: &l []\ngolden: {b: c}\n", "- a\n", "a: [\n"]
)
def test_a_list_that_cannot_be_continued_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        append(text, "golden", [ENTRY])
