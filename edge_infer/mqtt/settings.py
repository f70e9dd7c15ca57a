"""``mqtt:`` in the site's YAML."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from edge_infer.settings import Secret, Settings, SitePath, Size

MAX_PREFIX_BYTES = 1000
"""Leaves room in MQTT's 65,535 bytes for whatever follows."""

_PLACEHOLDERS = ("site", "line", "device")
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""MQTT takes no NUL and brokers no control characters."""


def _bare_host(value: str) -> str:
    if not re.fullmatch(r"[^\s/:]+|[0-9A-Fa-f:]+", value):
        raise ValueError("write the broker's bare name or address, without mqtt:// and port")
    # what no name server can be asked for
    if len(value) > 253 or any(not 0 < len(part) < 64 for part in value.rstrip(".").split(".")):
        raise ValueError("is no host name: its parts between dots are 1 to 63 characters, together 253")
    return value


class Tls(Settings):
    """``tls: {ca: ca.crt, cert: ipc7.crt, key: ipc7.key}``; ``tls: {}`` trusts the system's authorities."""

    ca: SitePath | None = None
    """Who signed the broker's certificate (PEM); default the system's authorities."""
    cert: SitePath | None = None
    """This device's certificate (PEM), where the broker asks for one."""
    key: SitePath | None = None
    """Its key (PEM), readable by the service's user only."""

    @model_validator(mode="after")
    def _cert_and_key(self) -> Tls:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key belong together; give both or neither")
        return self


class MqttSettings(Settings):
    """Where the broker is and how to speak to it."""

    host: Annotated[Text, AfterValidator(_bare_host)]
    """Name or address of the broker, without a scheme."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Default 1883, with tls 8883."""
    protocol: Literal["5", "3.1.1"] = "5"
    """MQTT 5, or 3.1.1 for a broker that speaks nothing newer: refusals are invisible and nothing expires."""
    user: Text | None = None
    """User name at the broker."""
    password: Secret | None = None
    """Where the password is."""
    tls: Tls | None = None
    """Encrypt; without it everything, the password too, is readable on the network."""
    topic_prefix: Annotated[str, StringConstraints(min_length=1)] = "vision/v1/{site}/{line}/{device}"
    """Everything is published below it; {site}, {line} and {device} are filled in."""
    client_id: Annotated[Text, StringConstraints(max_length=200)] | None = None
    """Default: made of the device's name and a hash of this machine and prefix. Two clients with one id
    throw each other out."""
    keepalive_s: Annotated[int, Field(ge=5, le=600)] = 15
    """A dead connection is noticed within twice this; the broker says `offline` after 1.5 times."""
    max_image_bytes: Annotated[Size, Field(ge=1000, le=200_000_000)] = 256_000
    """Larger pictures are made smaller or not published, whatever the broker takes."""
    valid_s: Annotated[float, Field(ge=2, le=3600)] = 5.0
    """How long `decision` and `last` may be believed after the inspection they come from."""

    # each at its own key, and told even where another key is wrong
    @field_validator("password")
    @classmethod
    def _password_of_somebody(cls, password: Secret | None, info: ValidationInfo) -> Secret | None:
        if password is not None and info.data.get("protocol") == "3.1.1" and info.data.get("user") is None:
            raise ValueError("MQTT 3.1.1 sends no password without a user; add user")
        return password

    @field_validator("topic_prefix")
    @classmethod
    def _prefix(cls, prefix: str) -> str:
        unknown = [name for name in re.findall(r"\{([^{}]*)\}", prefix) if name not in _PLACEHOLDERS]
        if unknown:
            raise ValueError(f"knows {{site}}, {{line}} and {{device}}, not {{{unknown[0]}}}")
        # the values are ids, which hold none of these
        plain = re.sub(r"\{[^{}]*\}", "x", prefix)
        if re.search(r"[{}]", plain):
            raise ValueError("has a brace without its partner")
        if re.search(r"[+#$]", plain):
            raise ValueError("must not hold + # or $: they mean something in MQTT")
        if not plain.isprintable():
            raise ValueError("must not hold control characters")
        if any(not level for level in plain.split("/")):
            raise ValueError("has an empty level: no / at its ends and no // in it")
        if len(plain.encode()) > MAX_PREFIX_BYTES:
            raise ValueError(f"is longer than {MAX_PREFIX_BYTES} bytes")
        return prefix

    @property
    def broker_port(self) -> int:
        """The port to connect to."""
        return self.port or (8883 if self.tls is not None else 1883)

    def prefix(self, *, site: str, line: str, device: str) -> str:
        """The prefix of every topic, without a slash at its end."""
        return self.topic_prefix.format(site=site, line=line, device=device)
