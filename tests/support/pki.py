"""An authority and what it signed, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class Pki:
    """``ca``, and signed by it ``server``, ``expired`` (a server's) and ``ipc7``; ``rogue`` signed itself."""

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

    @staticmethod
    def _openssl(*arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], capture_output=True, text=True, check=False, timeout=20
        )
        assert done.returncode == 0, done.stderr
