# ruff: noqa: E501 - the sentences are compared whole
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from edge_infer.errors import ConfigError
from edge_infer.settings import Id, Secret, Settings, SitePath, Size
from edge_infer.yamlfile import load


class Rtsp(Settings):
    type: Literal["rtsp"]
    url: str
    password: Secret | None = None
    max_age_s: Annotated[float, Field(gt=0)] = 1


class Files(Settings):
    type: Literal["files"]
    path: SitePath
    loop: bool = False
    rate: int = 1


class Periodic(Settings):
    every_s: Annotated[float, Field(gt=0)]


class Site(Settings):
    site: Id
    """The plant."""
    cameras: dict[Id, Annotated[Rtsp | Files, Field(discriminator="type")]] = Field(default_factory=dict)
    publish: Literal["every", "change"] | Periodic = "every"
    labels: tuple[str, ...] | dict[int, str] = ()
    size: Size = 3
    protocol: Literal["5", "3.1.1"] = "5"
    polygon: tuple[tuple[float, float], ...] = ()
    scale: float | None = None
    name: str | None = None


def told(folder: Path, text: str) -> list[str]:
    path = folder / "site.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path).validate(Site)
    prefix = f"{path}:"
    assert all(str(one).startswith(prefix) for one in caught.value.mistakes)
    return [str(one).removeprefix(prefix) for one in caught.value.mistakes]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("site: NO", '1:7: site: NO without quotes is read as false, not as text; write "NO"'),
        ("site: 0123", '1:7: site: 0123 without quotes is read as the number 83, not as text; write "0123"'),
        ("site: 1_000", '1:7: site: 1_000 without quotes is read as the number 1000, not as text; write "1_000"'),
        ("site: 12:30", '1:7: site: 12:30 without quotes is read as the number 750, not as text; write "12:30"'),
        ("site: 1e3", '1:7: site: 1e3 without quotes is read as a number, not as text; write "1e3"'),
        ("site: .nan", '1:7: site: .nan without quotes is read as the number nan, not as text; write ".nan"'),
        ("site: 2024-05-01", '1:7: site: 2024-05-01 without quotes is read as a date, not as text; write "2024-05-01"'),
        ("site: 2024-99-99", '1:7: site: 2024-99-99 without quotes is read as something else, not as text; write "2024-99-99"'),
        ("site: true", '1:7: site: true without quotes is read as true, not as text; write "true"'),
        ("site: null", "1:7: site: null is nothing; wanted is text"),
        ("site:", "1:6: site: nothing is written here; wanted is text"),
        ("site: a b", '1:7: site: "a b" cannot be a name: 1 to 40 of A-Z a-z 0-9 _ - (it becomes part of a topic)'),
        ("site: [a]", "1:1: site: a list is written here; wanted is text"),
        ("site: {SITE}", '1:1: site: {SITE} without quotes is a mapping, wanted is text; put it in quotes: "{SITE}"'),
        ("sit: a\nsite: a", '1:1: sit: unknown key; did you mean "site"?'),
        ("site: a\nSITE: a", '2:1: SITE: unknown key; did you mean "site"?'),
        ("site: a\nx: a", "2:1: x: unknown key; known: cameras, labels, name, polygon, protocol, publish, scale, site, size"),
        ("name: a", "1:1: site: is missing (The plant)"),
        ("site: a\nscale: 0123", "2:8: scale: 0123 is not a plain decimal number (like 10 or 0.5); wanted is a number"),
        ("site: a\nscale: 1e999", "2:8: scale: 1e999 is not a plain decimal number (like 10 or 0.5); wanted is a number"),
        ("site: a\nscale: .inf", "2:8: scale: .inf is not a plain decimal number (like 10 or 0.5); wanted is a number"),
        ('site: a\nscale: "3"', '2:8: scale: "3" is text because of its quotes; wanted is a number'),
        ("site: a\nscale: x", "2:8: scale: x is text; wanted is a number"),
        ("site: a\nscale: true", "2:8: scale: true is true or false; wanted is a number"),
        ("site: a\nsize: 5GBB", "2:7: size: '5GBB' is not a size; write a number with one of B, kB, MB, GB, KiB, MiB, GiB, like 500MB"),
        ("site: a\nsize: -1", "2:7: size: -1: should be greater than or equal to 0"),
        ("site: a\nprotocol: 5", '2:11: protocol: 5 without quotes is read as the number 5, not as text; write "5"'),
        ("site: a\nprotocol: 4", "2:11: protocol: 4 is a number; wanted is 5 or 3.1.1"),
        ("site: a\npublish: chang", '2:10: publish: chang is text; wanted is every or change or a mapping (key: value); did you mean "change"?'),
        ("site: a\npublish: no", "2:10: publish: no is not text; wanted is every or change or a mapping (key: value)"),
        ("site: a\npublish: {every_s: 0}", "2:20: publish.every_s: 0: should be greater than 0"),
        ("site: a\npublish: {every_s: NO}", "2:20: publish.every_s: NO is not a plain decimal number (like 10 or 0.5); wanted is a number"),
        ("site: a\nlabels: [ok, on]", '2:14: labels[1]: on without quotes is read as true, not as text; write "on"'),
        ("site: a\nlabels: {x: b}", '2:10: labels.x: "x" cannot be a key here; wanted is a whole number'),
        ("site: a\nlabels: no", "2:9: labels: no is not text; wanted is a list or a mapping (key: value)"),
        ("site: a\npolygon: [[0, 1, 2]]", "2:11: polygon[0]: 3 entries are written here; wanted are at most 2"),
        ("site: a\npolygon: [[0]]", "2:11: polygon[0][1]: is missing"),
        ("site: a\ncameras: {a: {type: rtps}}", '2:21: cameras.a.type: rtps is not a type that is known; did you mean "rtsp"?'),
        ("site: a\ncameras: {a: {type: no}}", "2:21: cameras.a.type: no is not a type that is known; known: files, rtsp"),
        ("site: a\ncameras: {a: {url: x}}", "2:11: cameras.a: the key type is missing"),
        ("site: a\ncameras: {a: {type: files, path: x, lop: true}}", '2:37: cameras.a.lop: unknown key; did you mean "loop"?'),
        ("site: a\ncameras: {a: {type: files, path: x, loop: yes}}", "2:43: cameras.a.loop: yes is not true or false; write true"),
        ("site: a\ncameras: {a: {type: files, path: x, loop: n}}", "2:43: cameras.a.loop: n is not true or false; write false"),
        ("site: a\ncameras: {a: {type: files, path: x, rate: 1.0}}", "2:43: cameras.a.rate: 1.0 is not a whole number; write 1"),
        ("site: a\ncameras: {a: {type: files, path: x, rate: 1.5}}", "2:43: cameras.a.rate: 1.5 is not a whole number"),
        ("site: a\ncameras: {a: {type: files}}", "2:11: cameras.a.path: is missing"),
        ("site: a\ncameras: {'a/b': {type: files, path: x}}", '2:11: cameras.a/b: "a/b" cannot be a name: 1 to 40 of A-Z a-z 0-9 _ - (it becomes part of a topic)'),
        ("site: a\ncameras: no", "2:10: cameras: no is not text; wanted is a mapping (key: value)"),
        ("site: a\ncameras:", "2:9: cameras: nothing is written here; wanted is a mapping (key: value)"),
        ("- a", "1:1: a list is written here; wanted is a mapping (key: value)"),
        ("a", "1:1: a is text; wanted is a mapping (key: value)"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_sentence_at_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    assert told(tmp_path, text) == [sentence]


def test_all_mistakes_come_at_once_in_the_files_order(tmp_path: Path) -> None:
    text = "site: NO\nsite: b\nlabels: [yes]\ncameras:\n  no: {type: files, path: 3}\nfoo: 1\n"
    keys = [line.split(": ")[1] for line in told(tmp_path, text)]
    assert keys == ["site", "site", "labels[0]", "cameras.no", "cameras.no.path", "foo"]


def test_a_mistake_in_an_anchor_points_to_where_it_is_written(tmp_path: Path) -> None:
    text = "site: a\ncameras:\n  a: &a {type: files, path: 3}\n  b: {<<: *a, loop: true}\n"
    lines = told(tmp_path, text)
    assert [line.split(" ")[0] for line in lines] == ["3:29:", "3:29:"]
    assert [line.split(": ")[1] for line in lines] == ["cameras.a.path", "cameras.b.path"]


@pytest.mark.parametrize(
    ("password", "key", "words"),
    [
        ("hunter2", "", "never written into this file"),
        ('"hunter2"', "", "never written into this file"),
        ("0123", "", "never written into this file"),
        ("314159", "", "never written into this file"),
        ("[hunter2]", "", "never written into this file"),
        ("{MQTT_PASSWORD}", ".MQTT_PASSWORD", "{env: MQTT_PASSWORD}"),
        ("{hunter2}", "", "{env: NAME}"),
        ("{hunter2: hunter2}", "", "unknown key; a secret is {file: PATH}"),
        ("{fil: hunter2}", ".fil", 'did you mean "file"?'),
        ("{env: hunter2-hunter2}", ".env", "name"),
        ("{password: hunter2}", "", "unknown key; a secret is"),
        ("{env: hunter2, file: hunter2}", "", "exactly one"),
        ("{env: }", "", "exactly one"),
        ("{env: [hunter2]}", ".env", "wanted is text"),
        ("{credential: hunter2 hunter2}", ".credential", "name"),
        ("{}", "", "exactly one"),
    ],
)
def test_a_secret_is_never_echoed(tmp_path: Path, password: str, key: str, words: str) -> None:
    text = f"site: a\ncameras:\n  c: {{type: rtsp, url: x, password: {password}}}\n"
    (line,) = told(tmp_path, text)
    assert "314159" not in line
    assert "0123" not in line
    assert words in line
    assert "hunter2" not in line
    assert f" cameras.c.password{key}: " in line


def test_the_password_in_an_address_is_never_echoed(tmp_path: Path) -> None:
    for address in (
        "rtsp://u:hunter2@cam/x",
        "rtsp:/u:hunter2@cam/x",
        "rtsp://u:hunt@er2@cam/x",
        "rtsp://cam/?password=hunter2&x=1",
    ):
        for line in told(tmp_path, f"site: {address}\npublish: {address}\n'{address}': 1\n"):
            assert "hunter2" not in line
            assert "er2@" not in line
            assert "cam/" in line


def test_text_from_the_file_cannot_move_the_cursor(tmp_path: Path) -> None:
    for line in told(
        tmp_path, 'site: "a\\nb\\e[31m"\n"x\\ry": 1\ncameras: {"a\\nb": {type: files, path: x}}\n'
    ):
        assert line.isprintable()


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(
        "site: a\ncameras: {a: {type: files, path: x.mp4}, b: {type: files, path: /y}}\n"
    )
    site = load(tmp_path / "site.yaml").validate(Site)
    paths = [camera.path for camera in site.cameras.values() if isinstance(camera, Files)]
    assert paths == [tmp_path / "x.mp4", Path("/y")]
