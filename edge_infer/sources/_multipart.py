"""The parts of an endless HTTP answer (multipart/x-mixed-replace), as cameras really write them."""

from __future__ import annotations

import re
from typing import NamedTuple

from edge_infer import picture

MOST_BYTES = 64_000_000
"""Of one part."""
_MOST_HEADERS = 65_536
_KEPT = 4096
"""Of what stands between two parts: a delimiter may have come half."""
_JPEG, _JPEG_END = b"\xff\xd8", b"\xff\xd9"


class Part(NamedTuple):
    """One part."""

    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def is_picture(self) -> bool:
        """False for texts and sounds that some cameras mix in."""
        return self.headers.get("content-type", "image/").lower().startswith(("image/", "application/octet"))


class Parts:
    """Takes bytes as they come, gives whole parts in order. ValueError, for people, where they make no sense.

    Cameras declare a boundary with or without the two dashes in front of it, or none; end lines in either
    way; leave out Content-Length, or write a wrong one.
    """

    def __init__(self, boundary: str | None) -> None:
        self._bytes = bytearray()
        self._headers: dict[str, str] | None = None
        self._searched = 0
        self._opening: re.Pattern[bytes] | None = None
        self._closing: re.Pattern[bytes] | None = None
        if boundary is not None and boundary.strip("-"):
            self._delimit(boundary.strip().lstrip("-").encode("latin-1", "replace"))

    def feed(self, data: bytes) -> None:
        """What came."""
        self._bytes += data

    def next(self) -> Part | None:
        """The next whole part; None where more must come."""
        if self._headers is None:
            self._headers = self._begin()
        if self._headers is None:
            return None
        length = self._headers.get("content-length", "").strip()
        body = self._counted(int(length)) if length.isdecimal() and len(length) < 12 else None
        if body is None and (not length.isdecimal() or len(self._bytes) >= int(length[:12])):
            body = self._delimited()
        return None if body is None else self._take(body)

    def early(self) -> Part | None:
        """A picture that is over by its own end, though no boundary came yet.

        To be asked only while nothing more comes: some cameras write the boundary only with the next picture.
        """
        if self._headers is None or not self._bytes.startswith(_JPEG):
            return None
        body = bytes(self._bytes).rstrip(b"\r\n")
        if not body.endswith(_JPEG_END) or not picture.reaches_its_end(body):
            return None
        return self._take(body)

    def _delimit(self, boundary: bytes) -> None:
        name = re.escape(boundary)
        self._opening = re.compile(rb"(?:^|(?<=\n))-*" + name + rb"(?:--)?[ \t]*\r?(?=\n)")
        self._closing = re.compile(rb"\r?\n-+" + name)

    def _begin(self) -> dict[str, str] | None:
        """The headers of the next part, once they are whole; all before them is dropped."""
        if self._opening is None:
            if not (found := re.search(rb"(?:^|\n)-+([^\s-][^\r\n]*?)[ \t]*\r?\n", self._bytes)):
                del self._bytes[:-_KEPT]
                return None
            self._delimit(found[1])
            return self._begin()
        if not (line := self._opening.search(self._bytes)):
            del self._bytes[:-_KEPT]
            return None
        if not (blank := re.compile(rb"\n\r?\n").search(self._bytes, line.end())):
            if len(self._bytes) - line.end() > _MOST_HEADERS:
                raise ValueError("a part's headers do not end")
            return None
        headers = {}
        for written in bytes(self._bytes[line.end() : blank.start()]).split(b"\n"):
            name, colon, value = written.decode("latin-1").partition(":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        del self._bytes[: blank.end()]
        self._searched = 0
        return headers

    def _counted(self, length: int) -> bytes | None:
        if length > MOST_BYTES:
            raise ValueError(f"a picture of {length / 1e6:.0f} MB")
        if len(self._bytes) < length:
            return None
        body = bytes(self._bytes[:length])
        whole = not body.startswith(_JPEG) or body.rstrip(b"\r\n\0").endswith(_JPEG_END)
        return body if whole else None

    def _delimited(self) -> bytes | None:
        assert self._closing is not None  # noqa: S101 - for mypy: a part has begun
        if found := self._closing.search(self._bytes, self._searched):
            return bytes(self._bytes[: found.start()])
        if len(self._bytes) > MOST_BYTES:
            raise ValueError(f"a picture that does not end after {MOST_BYTES // 1_000_000} MB")
        self._searched = max(0, len(self._bytes) - _KEPT)
        return None

    def _take(self, body: bytes) -> Part:
        assert self._headers is not None  # noqa: S101 - for mypy: a part has begun
        part = Part(self._headers, body)
        # the delimiter stays: it opens the next part
        del self._bytes[: len(body)]
        self._headers = None
        return part
