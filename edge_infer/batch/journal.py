"""Beside the lines: what batch they are of, and marks of how far they go, each confirmed by a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from edge_infer.batch.items import Position

BEGINNING = Position(0, 0)
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two lines."""

    lines: int = 0
    """So many lines come before it."""
    errors: int = 0
    """So many of them are errors."""
    size: int = 0
    """Bytes of them."""
    checksum: int = 0
    """CRC-32 of them."""
    next: Position = BEGINNING
    """What the next line is about."""
    complete: bool = False
    """Nothing comes after it."""

    def text(self) -> bytes:
        """One line of the journal."""
        values = [self.lines, self.errors, self.size, self.checksum, *self.next, self.complete]
        return json.dumps(values).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Found:
    """What an earlier run left."""

    batch: Mapping[str, str]
    """What its lines are of."""
    mark: Mark
    """The last one that the lines confirm."""
    size: int
    """Bytes of the journal up to there."""
    complete: Mark | None
    """Its last line, where that says that all lines were there, whether or not they still are."""


def head(batch: Mapping[str, str]) -> bytes:
    """The journal's first line."""
    return json.dumps({"format": 1, "batch": dict(batch)}).encode() + b"\n"


def read(journal: Path, lines: Path) -> Found | None:
    """None where there is no beginning to go on from. OSError where it cannot be read."""
    try:
        with journal.open("rb") as file:
            first = file.readline()
            batch = _batch(first)
            if batch is None:
                return None
            best, size, last = Mark(), len(first), Mark()
            with lines.open("rb") if lines.exists() else BytesIO() as data:
                confirmed = True
                checksum = 0
                for text in file:
                    mark = _mark(text)
                    if mark is None:
                        break
                    last = mark
                    if confirmed:
                        checksum, whole = _sum(data, mark.size - data.tell(), checksum)
                        confirmed = whole and checksum == mark.checksum
                    if confirmed:
                        best, size = mark, size + len(text)
    except FileNotFoundError:
        return None
    return Found(batch, best, size, last if last.complete else None)


def _sum(data: BinaryIO, size: int, checksum: int) -> tuple[int, bool]:
    """The checksum over ``size`` more bytes, and whether there were so many."""
    while size > 0 and (block := data.read(min(size, _BLOCK))):
        checksum = zlib.crc32(block, checksum)
        size -= len(block)
    return checksum, size == 0


def _batch(text: bytes) -> dict[str, str] | None:
    try:
        told = json.loads(text)
        return dict(told["batch"]) if text.endswith(b"\n") and told["format"] == 1 else None
    except (ValueError, KeyError, TypeError):
        return None


def _mark(text: bytes) -> Mark | None:
    """None for what a power cut left of a line."""
    try:
        lines, errors, size, checksum, at, frame, complete = json.loads(text)
    except (ValueError, TypeError):
        return None
    if not text.endswith(b"\n"):
        return None
    return Mark(lines, errors, size, checksum, Position(at, frame), complete)
