"""Addresses of network cameras: without secrets in the file, without secrets in messages."""

from __future__ import annotations

from urllib.parse import urlsplit


def checked(url: str, *schemes: str) -> str:
    """``url`` itself; ValueError, which does not repeat it, where it is none or holds user and password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0 or parts.scheme not in schemes:
        name = schemes[0].upper()
        raise ValueError(f"is not an {name} address; write {schemes[0]}://HOST:PORT/PATH")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold user and password; they have keys of their own beside it")
    return url


def for_people(url: str) -> str:
    """Without what stands behind ``?``, where some cameras take a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
