from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edge_infer.errors import ConfigError, Mistake
from edge_infer.yamlfile import load


def read(folder: Path, content: str | bytes) -> object:
    path = folder / "site.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(path).data


def mistakes(folder: Path, content: str | bytes) -> tuple[Mistake, ...]:
    with pytest.raises(ConfigError) as caught:
        read(folder, content)
    return caught.value.mistakes


def told(path: Path) -> tuple[Mistake, ...]:
    """What is wrong, nothing if nothing is."""
    try:
        return load(path).mistakes
    except ConfigError as error:
        return error.mistakes


def only(folder: Path, content: str | bytes) -> Mistake:
    (mistake,) = mistakes(folder, content)
    assert "\n" not in str(mistake)
    assert mistake.file == str(folder / "site.yaml")
    return mistake


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8883", 8883),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("plant1", "plant1"),
        ("3.1.1", "3.1.1"),
        ('"8883"', "8883"),
        ("'no'", "no"),
        ("!!str 12", "12"),
        ("[1, a]", [1, "a"]),
    ],
)
def test_plain_values_are_what_json_would_make_of_them(tmp_path: Path, text: str, value: object) -> None:
    assert read(tmp_path, f"key: {text}\n") == {"key": value}


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "Off",
        "NO",
        "Y",
        "0123",
        "0o17",
        "0x1F",
        "1_000",
        "12:30",
        "2024-05-01",
        ".nan",
        "=",
    ],
)
def test_what_other_yaml_tools_turn_into_something_else_stays_as_written(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, f"key: {text}\n") == {"key": text}


def test_a_key_given_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    mistake = only(tmp_path, "a: 1\nb: 2\na: 3\n")
    assert (mistake.line, mistake.column, mistake.key) == (3, 1, "a")
    assert "line 1 and in line 3" in mistake.message


def test_every_key_given_twice_is_told_at_once(shared: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _ = load(shared / "cases/open/E03/dup.yaml").data
    told = {one.key: (one.line, one.message) for one in caught.value.mistakes}
    assert set(told) == {"cameras.line1", "threshold"}
    assert told["cameras.line1"][0] == 6
    assert "line 2 and in line 6" in told["cameras.line1"][1]
    assert "line 8 and in line 9" in told["threshold"][1]


def test_anchors_and_merge_keys_survive_the_duplicate_check(shared: Path) -> None:
    data = load(shared / "cases/open/E21/merge.yaml").data
    expected = json.loads((shared / "cases/open/E21/expected.json").read_text())["files"]["merge.yaml"]
    assert data == expected["plain_pyyaml"]


def test_aliases_share_nothing(shared: Path) -> None:
    data = load(shared / "cases/open/E21/merge.yaml").data
    data["base"]["fps"] = 99
    assert data["cams"]["b"]["fps"] == 5


def test_of_two_merged_mappings_the_first_wins_and_a_written_key_wins_over_both(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\n"
    assert read(tmp_path, text)["c"] == {"x": 1, "y": 3, "z": 2}  # type: ignore[index]


def test_bare_words_stay_the_written_text(shared: Path) -> None:
    data = load(shared / "cases/open/E01/labels.yaml").data
    assert data == {"labels": ["yes", "no", "on", "off", "NO", "Y", "ok"], "site": "NO", "state_ok": "on"}


def test_a_byte_order_mark_is_no_part_of_the_first_key(shared: Path) -> None:
    assert load(shared / "cases/open/E05/bom.yaml").data == {"name": "Kühler", "label": "不良"}


def test_a_file_that_is_not_utf8_is_told_with_byte_and_line(shared: Path) -> None:
    with pytest.raises(ConfigError, match=r"latin1.yaml:1:8: .*not UTF-8: byte 0xFC at position 7"):
        load(shared / "cases/open/E05/latin1.yaml")


def test_the_position_of_a_bad_byte_counts_the_byte_order_mark(tmp_path: Path) -> None:
    mistake = only(tmp_path, b"\xef\xbb\xbfa: 1\nname: K\xfchler\n")
    assert (mistake.line, mistake.column) == (2, 8)
    assert "position 15" in mistake.message


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_the_locale_does_not_matter(shared: Path, locale: str) -> None:
    code = (
        "import sys, pathlib; from edge_infer.yamlfile import load\n"
        "print(ascii(load(pathlib.Path(sys.argv[1])).data))"
    )
    environment = {
        **os.environ,
        "LC_ALL": locale,
        "LANG": locale,
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, str(shared / "cases/open/E05/bom.yaml")],
        env=environment, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.strip() == ascii({"name": "Kühler", "label": "不良"})


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ("a: 1\n\tb: 2\n", 2, 1, "tab"),
        ("a:\n  b: 1\n  \tc: 2\n", 3, 3, "tab"),
        ('a: "x\nb: 1\n', 3, 1, "quote is not closed .*line 1"),
        ("a: [1, 2\nb: 1\n", 2, 2, r"bracket \[ .*line 1"),
        ("a: {b: 1\nc: 1\n", 2, 2, r"bracket \{ .*line 1"),
        ("a: b: c\n", 1, 5, "colon cannot stand here"),
        ("site\nline: 1\n", 2, 5, "colon cannot stand here"),
        ("a: *b\n", 1, 4, "'b'"),
        ("a: @x\n", 1, 4, "quotes"),
        ("a: {site}/x\n", 1, 10, "quotes"),
        ("a: 1\n}\n", 2, 1, "closing bracket"),
        ("a:\n  b: 1\n c: 2\n", 3, 2, "indented"),
        ("a: 1\n---\nb: 1\n", 2, 1, "second document"),
        ('"\\q": 1\n', 1, 3, "backslash"),
        ('a: "\\UFFFFFFFF"\n', 1, 7, "escape"),
        ("a: x\0y\n", 1, 5, "NUL"),
        ("a: 1\nb: \x07\n", 2, 4, "U\\+0007"),
        ("a: &x 1\nb: &x 2\n", 2, 4, "anchor"),
        ("a: &x [*x]\n", 1, 4, "alias"),
        ("%YAML 9.9\n---\na: 1\n", 1, 1, "version"),
    ],
)  # fmt: skip
def test_broken_syntax_is_one_line_at_its_place(
    tmp_path: Path, content: str, line: int, column: int, words: str
) -> None:
    mistake = only(tmp_path, content)
    assert (mistake.line, mistake.column) == (line, column), mistake
    assert re.search(words, mistake.message), mistake


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"# only a comment\n", b"\xef\xbb\xbf", b"---\n", b"---\n...\n"]
)
def test_an_empty_file_is_called_empty(tmp_path: Path, content: bytes) -> None:
    assert "empty" in only(tmp_path, content).message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_named_or_told_by_its_zero_bytes(tmp_path: Path, encoding: str) -> None:
    assert re.search("UTF-16|NUL", only(tmp_path, "a: 1\n".encode(encoding)).message)


def test_a_missing_file_a_folder_and_a_forbidden_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("nul\0byte.yaml"))
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / ("x" * 300))


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # root, who may run the tests, may read everything
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", f"{path} {mode}")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="may not be read by this user"):
        load(tmp_path / "site.yaml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[a]: 1\n", "key must be text"),
        ("no: 1\n", 'in quotes: "no"'),
        ("0123: 1\n", 'in quotes: "0123"'),
        ("true: 1\n", 'in quotes: "true"'),
        ("1.5: 1\n", None),
        ("~: 1\n", "in quotes"),
        ("? \n: 1\n", "in quotes"),
        ("a: !foo 3\n", "tag !foo"),
        ("a: !!python/object/apply:os.system [ls]\n", "tag !!python"),
        ('a: "\\0"\n', "no text"),
        ('a: "\\uD800"\n', "no text"),
        ("<<: 3\n", "wants a mapping"),
        ("<<: {a: 1}\n<<: {b: 1}\n", "given twice"),
    ],
)
def test_what_yaml_allows_and_a_configuration_does_not(
    tmp_path: Path, content: str, words: str | None
) -> None:
    if words is None:
        read(tmp_path, content)
    else:
        assert words in only(tmp_path, content).message


def test_whole_numbers_may_be_keys(tmp_path: Path) -> None:
    assert read(tmp_path, "labels: {1: cap, 7: tear}\n") == {"labels": {"1": "cap", "7": "tear"}}


@pytest.mark.parametrize(
    "content", ["[" * 5000, "{a: " * 5000, "- " * 5000 + "x", "a: " + "[" * 60 + "]" * 60]
)
def test_deep_nesting_is_refused_without_recursion(tmp_path: Path, content: str) -> None:
    assert "deeper than 40" in only(tmp_path, content).message


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "aliases" in only(tmp_path, "\n".join(lines)).message


def test_a_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    with path.open("wb") as file:
        file.truncate(8 * 1024**3)
    with pytest.raises(ConfigError, match="larger than"):
        load(path)


def test_cut_or_shuffled_files_never_raise_anything_else(tmp_path: Path) -> None:
    text = (
        'site: plant1\ncameras:\n  top: &t {type: rtsp, url: "rtsp://a/b", n: [1, 2.5, NO]}\n'
        "  other: {<<: *t, x: 'y'}\nlist:\n  - a\n  - b: |\n      text\n      more\n"
    )
    path = tmp_path / "site.yaml"
    strange = [
        "\t",
        ":",
        "{",
        "]",
        "&",
        "*x",
        "!",
        '"',
        "'",
        "\0",
        "---\n",
        "\\",
        "%",
        "\x85",
        "- ",
        "? ",
        "|",
    ]
    for position in range(len(text)):
        for extra in (None, strange[position % len(strange)], strange[(position * 7 + 3) % len(strange)]):
            changed = text[:position] if extra is None else text[:position] + extra + text[position:]
            path.write_text(changed)
            for mistake in told(path):
                assert "\n" not in str(mistake)
