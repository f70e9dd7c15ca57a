"""How long the certificates of a connection hold: the device's own, its authority's, the broker's."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edge_infer.errors import DeliveryError
from edge_infer.mqtt.settings import Tls

if TYPE_CHECKING:
    from cryptography.x509 import Certificate as Parsed

SOON_DAYS = 30
"""With so few days left it is warned of."""

Whose = Literal["device", "ca", "broker"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """When one holds."""

    whose: Whose
    subject: str
    not_before: datetime
    not_after: datetime

    def days_left(self, now: datetime) -> float:
        """Negative where it has expired."""
        return (self.not_after - now).total_seconds() / 86400

    def invalid(self, now: datetime) -> str | None:
        """Why nobody accepts it now, by the clock."""
        if now < self.not_before:
            here = f"here it is {now:%Y-%m-%d %H:%M}: is the clock right?"
            return f"is not valid before {self.not_before:%Y-%m-%d %H:%M} UTC, and {here}"
        return f"has expired on {self.not_after:%Y-%m-%d}; replace it" if now > self.not_after else None

    def trouble(self, now: datetime) -> str | None:
        """What is, or soon will be, wrong with it."""
        if (invalid := self.invalid(now)) is not None:
            return invalid
        left = self.days_left(now)
        if left >= SOON_DAYS:
            return None
        return f"expires in {left:.0f} days, on {self.not_after:%Y-%m-%d}; replace it before"


def of_connection(tls: Tls, shown: bytes | None) -> Iterator[Certificate]:
    """All of one: those of `of_files`, and the broker's as it was ``shown`` (DER)."""
    yield from of_files(tls)
    if shown is not None and (broker := of_broker(shown)) is not None:
        yield broker


def of_files(tls: Tls) -> Iterator[Certificate]:
    """The device's own and its authority's, as far as their files can be read."""
    for whose, path in (("device", tls.cert), ("ca", tls.ca)):
        if path is not None:
            try:
                yield read(path, "device" if whose == "device" else "ca")
            except DeliveryError:
                # the connection says it, again and again
                continue


def read(path: Path, whose: Whose) -> Certificate:
    """A PEM file's. DeliveryError where there is none in it.

    A device's file has its own first. An authority's may hold an old one beside its successor: the one that
    holds longest counts.
    """
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise DeliveryError(f"cannot read the certificate {path}: {error.strerror}") from error
    except ValueError as error:
        raise DeliveryError(
            f"{path} holds no certificate", hint="wanted is PEM: -----BEGIN CERTIFICATE-----"
        ) from error
    return _certificate(whose, found[0] if whose == "device" else max(found, key=_end))


def of_broker(der: bytes) -> Certificate | None:
    """As it was shown in the handshake; None where it cannot be read."""
    from cryptography.x509 import load_der_x509_certificate

    try:
        return _certificate("broker", load_der_x509_certificate(der))
    except ValueError:
        return None


def own_trouble(tls: Tls, now: datetime) -> str | None:
    """Why the broker may not like the device's own, in words."""
    own = next((one for one in of_files(tls) if one.whose == "device"), None)
    invalid = own.invalid(now) if own is not None else None
    return f"this device's certificate {invalid}" if invalid is not None else None


def warnings(tls: Tls, now: datetime) -> Iterator[tuple[str, str]]:
    """What `check` says of the files that are there: key under ``tls:`` and text."""
    for key, path, whose in (("ca", tls.ca, "ca"), ("cert", tls.cert, "device")):
        if path is None or not path.exists():
            continue
        try:
            trouble = read(path, "ca" if whose == "ca" else "device").trouble(now)
        except DeliveryError as error:
            yield key, str(error)
            continue
        if trouble is not None:
            yield key, f"the certificate {path} {trouble}"
    if tls.key is not None and tls.key.exists() and tls.key.stat().st_mode & stat.S_IROTH:
        yield "key", f"everybody on this machine may read {tls.key}; chmod 600 it"


def _certificate(whose: Whose, parsed: Parsed) -> Certificate:
    return Certificate(whose, parsed.subject.rfc4514_string(), parsed.not_valid_before_utc, _end(parsed))


def _end(parsed: Parsed) -> datetime:
    return parsed.not_valid_after_utc
