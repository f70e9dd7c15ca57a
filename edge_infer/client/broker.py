"""Where the broker is, and the socket to it."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from edge_infer.errors import DeliveryError


@dataclass(frozen=True, slots=True)
class Tls:
    """Encrypt. PEM files; without ``ca`` the system's authorities are trusted."""

    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is and as whom to speak to it."""

    host: str
    port: int | None = None
    """Default 1883, with tls 8883."""
    protocol: Literal["5", "3.1.1"] = "5"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    keepalive_s: int = 15

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port or (1883 if self.tls is None else 8883)}"


def no_delay(_client: object, _data: object, sock: Any) -> None:
    """For paho's ``on_socket_open``."""
    # Nagle's algorithm waits up to 40 ms for company
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pending(sock: Any) -> bool:
    """TLS may hold decrypted bytes that no selector can see."""
    return isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and sock.pending() > 0


class _Socket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho only forgets it."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_context(tls: Tls) -> ssl.SSLContext:
    """DeliveryError where the files cannot be used."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
    except (OSError, ssl.SSLError) as error:
        raise DeliveryError(f"cannot use the certificate authority {tls.ca}: {error}") from error
    context.sslsocket_class = _Socket
    if tls.cert is not None:
        try:
            context.load_cert_chain(tls.cert, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise DeliveryError(f"cannot use the certificate {tls.cert} with {tls.key}: {error}") from error
    return context
