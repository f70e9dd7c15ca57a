"""What a socket to the broker needs, for the device that publishes and for subscribers."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

from edge_infer.errors import DeliveryError


def no_delay(_client: object, _data: object, sock: Any) -> None:
    """For paho's ``on_socket_open``."""
    # Nagle's algorithm waits up to 40 ms for company
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pending(sock: Any) -> bool:
    """TLS may hold decrypted bytes that no poll or selector can see."""
    return isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and sock.pending() > 0


class _Socket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho only forgets it."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_context(
    ca: str | Path | None, cert: str | Path | None = None, key: str | Path | None = None
) -> ssl.SSLContext:
    """Verifies the broker's name and certificate. PEM files; without ``ca`` the system's authorities are
    trusted, without ``key`` it lies in the file of ``cert``. DeliveryError where one cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise DeliveryError(f"cannot use the certificate authority {ca}: {error}") from error
    context.sslsocket_class = _Socket
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            raise DeliveryError(f"cannot use the certificate {cert} with {key}: {error}") from error
    return context
