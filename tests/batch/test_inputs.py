"""Which files a batch is over, and in which order."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import pytest

from edge_infer.batch.inputs import Inputs, find
from edge_infer.errors import EdgeInferError


def found(*given: str | Path, standard_input: bytes = b"", ours: Sequence[Path] = ()) -> Inputs:
    return find([str(one) for one in given], BytesIO(standard_input), ours)


def paths(inputs: Inputs) -> list[str]:
    return [inputs.path(at) for at in range(len(inputs)) if inputs.trouble(at) is None]


def troubles(inputs: Inputs) -> list[tuple[str, str]]:
    told = [(inputs.path(at), inputs.trouble(at)) for at in range(len(inputs))]
    return [(path, why) for path, why in told if why is not None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_a_folder_is_its_own_files_in_natural_order_and_then_the_folders_below_it(folder: Path) -> None:
    make(folder, "p/10.png", "p/2.PNG", "p/b/1.jpg", "p/a10/1.png", "p/a9/z.mp4", "p/notes.txt", "p/.x.png")
    make(folder, "p/~y.png", "p/.hidden/1.png", "p/B1.png", "p/b01.png", "p/b1.png", "p/9.png")
    assert paths(found("p")) == [
        "p/2.PNG", "p/9.png", "p/10.png", "p/B1.png", "p/b01.png", "p/b1.png", "p/a9/z.mp4", "p/a10/1.png",
        "p/b/1.jpg",
    ]  # fmt: skip


def test_inputs_keep_their_order_and_are_named_as_they_were_given(folder: Path) -> None:
    make(folder, "b.png", "a/1.png", "c.mp4")
    given = ["./c.mp4", "a/", str(folder / "b.png"), "b.png", "./c.mp4", "none.png"]
    assert paths(found(*given)) == [
        "./c.mp4", "a/1.png", str(folder / "b.png"), "b.png", "./c.mp4", "none.png",
    ]  # fmt: skip


def test_a_pattern_means_files_and_a_file_that_looks_like_a_pattern_means_itself(folder: Path) -> None:
    make(folder, "p/10.png", "p/9.png", "p/deep/1.png", "p/x.txt", "[1].png", "p/.h.png")
    (folder / "p/folder.png").mkdir()
    assert paths(found("p/*")) == ["p/9.png", "p/10.png"]
    assert paths(found("p/**/*.png")) == ["p/9.png", "p/10.png", "p/deep/1.png"]
    assert paths(found("[1].png")) == ["[1].png"]


def test_what_gives_nothing_is_told_in_its_place(folder: Path) -> None:
    make(folder, "1.png", "texts/a.txt")
    (folder / "empty").mkdir()
    make(folder, "list.txt")
    (folder / "list.txt").write_bytes(b"\n  \n")
    inputs = found("empty", "1.png", "texts", "no*.png", "@list.txt")
    assert paths(inputs) == ["1.png"]
    assert [path for path, _ in troubles(inputs)] == ["empty", "texts", "no*.png", "@list.txt"]
    assert [inputs.trouble(at) is None for at in range(5)] == [False, True, False, False, False]


def test_links_in_a_circle_end_and_no_folder_is_read_twice(folder: Path) -> None:
    make(folder, "p/1.png", "p/b/2.png", "other/3.png")
    (folder / "p/b/up").symlink_to("..")
    (folder / "p/a").symlink_to("b")
    (folder / "p/c").symlink_to("../other")
    (folder / "p/self").symlink_to("self")
    (folder / "p/self.png").symlink_to("self.png")
    (folder / "p/gone.png").symlink_to("nowhere.png")
    inputs = found("p")
    assert paths(inputs) == ["p/1.png", "p/gone.png", "p/self.png", "p/a/2.png", "p/c/3.png"]
    assert not troubles(inputs)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_folder_that_may_not_be_read_is_told_and_the_others_go_on(open_to_all: Path) -> None:
    make(open_to_all, "a/1.png", "b/2.png", "c/3.png")
    (open_to_all / "b").chmod(0)
    os.seteuid(65534)
    try:
        inputs = found(open_to_all)
    finally:
        os.seteuid(0)
    assert paths(inputs) == [str(open_to_all / "a/1.png"), str(open_to_all / "c/3.png")]
    [(path, why)] = troubles(inputs)
    assert path == str(open_to_all / "b")
    assert "Permission denied" in why
    assert inputs.path(1) == path


def test_a_list_has_a_path_a_line_whatever_wrote_it(folder: Path) -> None:
    make(folder, "a b.png", "c/1.png", "c/2.png")
    (folder / "list.txt").write_bytes(b"\xef\xbb\xbfa b.png\r\n\r\nc\nf\xfcll.png")
    assert paths(found("@list.txt", "a b.png")) == [
        "a b.png",
        "c/1.png",
        "c/2.png",
        "f\udcfcll.png",
        "a b.png",
    ]
    assert paths(found("@-", standard_input=b"c/2.png\n")) == ["c/2.png"]


def test_a_list_of_find_print0_holds_names_with_line_feeds(folder: Path) -> None:
    make(folder, "two\nlines.png", "1.png")
    names = b"./two\nlines.png\0./1.png\0"
    assert paths(found("@-", standard_input=names)) == ["./two\nlines.png", "./1.png"]


def test_a_list_that_cannot_be_read_is_refused_before_anything_is_done(folder: Path) -> None:
    with pytest.raises(EdgeInferError, match=r"cannot read the list none\.txt: No such file"):
        found("@none.txt")
    make(folder, "@odd.png")
    assert paths(found("./@odd.png")) == ["./@odd.png"]


def test_the_output_is_never_an_input_however_the_shell_names_it(folder: Path) -> None:
    make(folder, "1.png", "out.jsonl", "out.jsonl.part/lines.jsonl", "sub/out.jsonl")
    ours = [folder / "out.jsonl", folder / "out.jsonl.part"]
    given = ["1.png", "out.jsonl", "./out.jsonl.part/", str(folder / "out.jsonl"), "sub/../out.jsonl"]
    assert paths(found(*given, ours=ours)) == ["1.png"]
    assert paths(found("sub/out.jsonl", ours=ours)) == ["sub/out.jsonl"]
    assert paths(found(".", ours=ours)) == ["./1.png"]


def test_the_identity_changes_with_every_name_size_time_and_order(folder: Path) -> None:
    make(folder, "1.png", "2.png")
    os.utime("1.png", ns=(0, 0))
    seen = {found("1.png", "2.png").identity()}
    assert found("1.png", "2.png").identity() in seen

    def is_new(*given: str) -> bool:
        identity = found(*given).identity()
        new = identity not in seen
        seen.add(identity)
        return new

    assert is_new("2.png", "1.png")
    assert is_new("1.png")
    assert is_new("./1.png", "2.png")
    assert is_new("1.png", "2.png", "3.png")
    os.utime("1.png", ns=(0, 1))
    assert is_new("1.png", "2.png")
    (folder / "1.png").write_bytes(b"xy")
    os.utime("1.png", ns=(0, 1))
    assert is_new("1.png", "2.png")
    (folder / "1.png").unlink()
    assert is_new("1.png", "2.png")


def test_a_name_takes_less_than_300_bytes_while_a_folder_is_read(folder: Path) -> None:
    (folder / "many").mkdir()
    for at in range(2_000):
        (folder / f"many/part-{at}.png").symlink_to("nothing")
    tracemalloc.start()
    try:
        inputs = found("many")
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert inputs.path(1_999) == "many/part-1999.png"
    assert kept < 2_000 * 120
    assert most < 2_000 * 300
