"""Names of classes: from a text file, and made to fit a head."""

from __future__ import annotations

from pathlib import Path

from edge_infer.errors import EdgeInferError
from edge_infer.model.card import Background

_SHOWN = 5
_BACKGROUNDS = ("__background__", "background", "no-object", "no_object", "no object")


def read_labels(path: Path) -> tuple[str, ...]:
    """One name a line; empty lines at the end do not count. EdgeInferError says what is wrong."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise EdgeInferError(f"there is no file {path}") from error
    except OSError as error:
        raise EdgeInferError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise EdgeInferError(f"{path}:{line}: not UTF-8 text; save it as UTF-8") from error
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise EdgeInferError(f"{path} names no label; write one name a line")
    if "" in lines:
        # dropping it would shift every class behind it
        raise EdgeInferError(f"{path}:{lines.index('') + 1}: an empty line between names; name the class")
    return tuple(lines)


def named(by_id: dict[int, str], classes: int) -> tuple[str, ...]:
    """A name for each of ``classes``; those that nobody named are ``class3``."""
    return tuple(by_id.get(i, f"class{i}") for i in range(classes))


def shown(labels: tuple[str, ...]) -> str:
    """For sentences: the first few."""
    return ", ".join(labels[:_SHOWN]) + (", ..." if len(labels) > _SHOWN else "")


def without_background(
    by_id: dict[int, str] | None, *, by_number: bool
) -> tuple[dict[int, str] | None, Background | None]:
    """Labels that name the background first or last lose it; those ``by_number`` keep all."""
    if not by_id or by_number:
        return by_id, None
    names = list(by_id.values())
    if names[0].lower() in _BACKGROUNDS:
        return dict(enumerate(names[1:])), "first"
    if names[-1].lower() in _BACKGROUNDS:
        return dict(enumerate(names[:-1])), "last"
    return by_id, None
