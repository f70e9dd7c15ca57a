"""An authority and what it signed, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Pki:
    """``ca``, and signed by it ``server``, ``expired`` and ``future`` (servers too) and ``ipc7``; ``rogue``
    signed itself."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.fail("openssl is not installed: apt-get install openssl")
        folder.mkdir()
        self._folder = folder
        self._signed("ca", None)
        self._signed("rogue", None)
        for name in ("server", "ipc7"):
            self._signed(name, "ca")
        self._signed("expired", "ca", days=-1)
        self.sign("future", begins_in_days=2, days=30)

    def path(self, name: str) -> str:
        """Of a PEM file, like ``ca.crt`` or ``ipc7.key``."""
        return str(self._folder / name)

    def lines(self, server: str = "server", *, client: bool = False) -> tuple[str, ...]:
        """For mosquitto's configuration; ``client``: it asks for a certificate."""
        return (
            f"cafile {self.path('ca.crt')}",
            f"certfile {self.path(f'{server}.crt')}",
            f"keyfile {self.path(f'{server}.key')}",
            f"require_certificate {'true' if client else 'false'}",
        )

    def _signed(self, name: str, signer: str | None, days: int = 30) -> None:
        key, certificate = self.path(f"{name}.key"), self.path(f"{name}.crt")
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        if signer is None:
            own = ["-x509", "-new", "-key", key, "-subj", f"/CN={name}", "-days", str(days)]
            self._openssl("req", *own, "-out", certificate)
            return
        request = self.path(f"{name}.csr")
        self._openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        extensions = self.path("extensions")
        Path(extensions).write_text("subjectAltName=IP:127.0.0.1\n")
        signing = ["-CA", self.path(f"{signer}.crt"), "-CAkey", self.path(f"{signer}.key"), "-CAcreateserial"]
        validity = ["-days", str(days), "-extfile", extensions]
        self._openssl("x509", "-req", "-in", request, *signing, *validity, "-out", certificate)

    def sign(self, name: str, *, days: float, begins_in_days: float = -1, ca: bool = False) -> None:
        """Another one of ``ca``, which holds from one day to another (openssl 3.0 cannot begin later)."""
        now = datetime.now(UTC)
        signer = x509.load_pem_x509_certificate(Path(self.path("ca.crt")).read_bytes())
        signer_key = serialization.load_pem_private_key(Path(self.path("ca.key")).read_bytes(), None)
        assert isinstance(signer_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(signer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=begins_in_days))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), ca)
            .sign(signer_key, hashes.SHA256())
        )
        Path(self.path(f"{name}.crt")).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = Path(self.path(f"{name}.key"))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        private.chmod(0o600)

    @staticmethod
    def _openssl(*arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], capture_output=True, text=True, check=False, timeout=20
        )
        assert done.returncode == 0, done.stderr
