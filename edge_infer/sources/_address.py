"""Addresses and passwords of network cameras: no secrets in the file, none in messages."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import ConfigDict, model_validator

from edge_infer.errors import EdgeInferError, SourceError
from edge_infer.settings import Secret, Secrets
from edge_infer.sources._driver import DriverSettings


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


class NetworkSettings(DriverSettings):
    """What every camera with an address and a login has."""

    # an address with a password in it is refused, and must not be printed by the refusal
    model_config = ConfigDict(hide_input_in_errors=True)

    url: str
    user: str | None = None
    """For basic and digest authentication; written as it is, not percent-encoded."""
    password: Secret | None = None

    @model_validator(mode="after")
    def _password_of_somebody(self) -> NetworkSettings:
        if self.password is not None and not self.user:
            raise ValueError("a password needs its user")
        return self

    @property
    def address(self) -> str:
        """For people."""
        return for_people(self.url)

    def read_password(self, camera: str, secrets: Secrets) -> str | None:
        """None where the camera asks for none; SourceError where it is not on this machine."""
        try:
            return secrets.read(self.password) if self.password else None
        except EdgeInferError as error:
            raise SourceError(f"camera {camera}: {error.message}", hint=error.hint) from error
