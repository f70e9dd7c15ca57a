"""What TLS needs of the settings."""

from __future__ import annotations

import ssl

from edge_infer.errors import DeliveryError
from edge_infer.mqtt.settings import Tls


class _Socket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho only forgets it."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def context(tls: Tls) -> ssl.SSLContext:
    """Verifies the broker's name and certificate; DeliveryError where a file cannot be used."""
    try:
        made = ssl.create_default_context(cafile=str(tls.ca) if tls.ca else None)
    except (OSError, ssl.SSLError) as error:
        raise DeliveryError(f"cannot use the certificate authority {tls.ca}: {error}") from error
    made.sslsocket_class = _Socket
    if tls.cert is not None and tls.key is not None:
        try:
            made.load_cert_chain(tls.cert, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise DeliveryError(f"cannot use the certificate {tls.cert} with {tls.key}: {error}") from error
    return made
