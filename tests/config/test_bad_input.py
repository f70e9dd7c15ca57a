"""A good file, made wrong at every key: never a traceback, always a mistake at the right line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError, Mistake
from edge_infer.yamlfile import load, tree
from tests.support.sites import GOOD, write_site

LINES = GOOD.splitlines()
NAMED = ("cameras", "models", "stations")

WRONG = {
    "mapping": "{what: ever}",
    "list": "[[what, ever]]",
    "braces": "{WHATEVER}",
    "bare no": "NO",
    "octal": "0123",
    "nan": ".nan",
    "endless": "1e999",
    "date": "2024-05-01",
    "minus": "-12345678901234567890",
    "control": '"\\u0007\\n"',
    "empty": '""',
    "text": "what-ever",
}
FITS = {
    # what is no mistake at some places: text where any text may stand, a negative number nowhere
    "text": {"site", "line", "device", "mqtt.host", "mqtt.user", "cameras.top.user", "mqtt.password.file",
             "cameras.top.password.env", "state_dir", "mqtt.topic_prefix", "cameras.usb.path",
             "models.seals.backend.device", "models.seals.backend.fallback[0]", "stations.cap.rules[0].name",
             "stations.cap.rules[1].name", "stations.part.rules[0].name", "stations.asked.rules[0].name",
             "stations.replay.rules[0].name", "metrics.sysfs"},
    "control": {"cameras.top.user", "state_dir", "metrics.sysfs", "mqtt.password.file", "cameras.usb.path",
                "models.seals.backend.device", "models.seals.backend.fallback[0]"},
    # told at the camera: its password then belongs to nobody
    "empty": {"cameras.top.user"},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(folder)
    return folder


@pytest.fixture(scope="module")
def root(folder: Path) -> tree.Node:
    return load(folder / "site.yaml").root


def entries(root: tree.Node) -> Iterator[tuple[tree.Path, tree.Entry]]:
    for path, node in tree.walk(root):
        if isinstance(node, tree.Map):
            for key, entry in node.entries.items():
                yield (*path, key), entry


def scalars(root: tree.Node) -> Iterator[tuple[tree.Path, tree.Scalar]]:
    for path, node in tree.walk(root):
        if isinstance(node, tree.Scalar):
            yield path, node


def last_line(node: tree.Node) -> int:
    return max(below.place.line for _, below in tree.walk(node))


def mistakes(folder: Path, text: str) -> tuple[Mistake, ...]:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load_site(path)
    except ConfigError as error:
        for one in error.mistakes:
            assert str(one).isprintable(), one
            assert one.line > 0, one
            assert "validator" not in one.message, one
            assert "Input" not in one.message, one
        return error.mistakes
    return ()


def test_the_good_file_is_good(folder: Path) -> None:
    assert mistakes(folder, GOOD) == ()


def rounds(root: tree.Node) -> Iterator[list[tuple[tree.Path, tree.Scalar]]]:
    """Every scalar once; in a round one of each camera, model, station and so on, all wrong at once."""
    pieces: dict[tree.Path, list[tuple[tree.Path, tree.Scalar]]] = {}
    for path, node in scalars(root):
        pieces.setdefault(path[:2] if path[0] in NAMED else path[:1], []).append((path, node))
    for number in range(max(map(len, pieces.values()))):
        yield [piece[number] for piece in pieces.values() if number < len(piece)]


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_values_are_told_at_their_lines_all_at_once(folder: Path, root: tree.Node, kind: str) -> None:
    for wrong in rounds(root):
        lines = list(LINES)
        for _, node in wrong:
            index, start = node.place.line - 1, node.place.column - 1
            end = start + len(node.written) + (0 if node.plain else 2)
            lines[index] = lines[index][:start] + WRONG[kind] + lines[index][end:]
        told = mistakes(folder, "\n".join(lines) + "\n")
        silent = {tree.dotted(path) for path, node in wrong} - FITS.get(kind, set())
        silent -= {
            tree.dotted(path) for path, node in wrong if any(one.line == node.place.line for one in told)
        }
        assert not silent, [str(one) for one in told]


@pytest.mark.parametrize("value", ["NO", "12", "what-ever", "[1]", ""])
def test_a_scalar_in_place_of_a_mapping_is_told_at_its_line(
    folder: Path, root: tree.Node, value: str
) -> None:
    for path, entry in entries(root):
        if isinstance(entry.value, tree.Map) and entry.value.entries:
            line = entry.key.line
            head = LINES[line - 1].split(":")[0]
            rest = LINES[last_line(entry.value) :]
            told = mistakes(folder, "\n".join([*LINES[: line - 1], f"{head}: {value}", *rest]) + "\n")
            optional = value == "" and told == ()
            assert optional or any(one.line == line for one in told), (path, [str(one) for one in told])


def test_an_unknown_key_is_told_with_the_one_that_was_meant(folder: Path, root: tree.Node) -> None:
    for path, entry in entries(root):
        if len(path) == 2 and path[0] in (*NAMED, "recipes"):
            continue
        line, column = entry.key.line, entry.key.column
        old, key = LINES[line - 1], str(path[-1])
        new = f"{old[: column - 1]}{key}x{old[column - 1 + len(key) :]}"
        told = mistakes(folder, "\n".join([*LINES[: line - 1], new, *LINES[line:]]) + "\n")
        here = [one for one in told if (one.line, one.column) == (line, column)]
        assert here, (path, [str(one) for one in told])
        assert any(f'did you mean "{key}"?' in one.message for one in here), [str(one) for one in here]


def test_a_missing_key_is_told_at_its_parent_or_has_a_default(folder: Path, root: tree.Node) -> None:
    missing = []
    for path, entry in entries(root):
        first, last = entry.key.line, last_line(entry.value)
        if LINES[first - 1].lstrip().startswith("- "):
            continue
        told = mistakes(folder, "\n".join([*LINES[: first - 1], *LINES[last:]]) + "\n")
        missing += [tree.dotted(path)] if any(one.key == tree.dotted(path) for one in told) else []
        for one in told:
            if one.key == tree.dotted(path):
                parent = tree.place_of(root, path[:-1], key=True)
                assert one.line == (parent.line if len(path) > 1 else 1), one
    assert {"format", "site", "line", "mqtt", "cameras", "models", "stations", "mqtt.host"} <= set(missing)
    assert {"cameras.top.url", "models.seals.path", "stations.cap.camera", "stations.cap.model"} <= set(
        missing
    )
    assert not {"device", "outbox", "recipes", "mqtt.port", "stations.cap.trigger"} & set(missing)


def test_a_key_given_twice_is_told_with_both_lines(folder: Path, root: tree.Node) -> None:
    for path, entry in entries(root):
        first, last = entry.key.line, last_line(entry.value)
        if LINES[first - 1].lstrip().startswith("- "):
            continue
        told = mistakes(folder, "\n".join([*LINES[:last], *LINES[first - 1 : last], *LINES[last:]]) + "\n")
        again = last + 1
        assert any(
            one.line == again and f"line {first} and in line {again}" in one.message for one in told
        ), (path, [str(one) for one in told])  # fmt: skip


def test_a_file_cut_anywhere_is_told(folder: Path) -> None:
    # a cut behind a whole station leaves a good file
    for position in range(0, GOOD.index("stations:"), 17):
        path = folder / "site.yaml"
        path.write_text(GOOD[:position], encoding="utf-8")
        with pytest.raises(ConfigError):
            load_site(path)
    for position in range(GOOD.index("stations:"), len(GOOD), 17):
        mistakes(folder, GOOD[:position])
