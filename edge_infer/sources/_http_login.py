"""User and password for a web server: basic and digest authentication."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable
from urllib.request import parse_http_list, parse_keqv_list

_HASHES = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}


class Login:
    """Answers a server's challenges; never prints the password."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self._basic = False
        self._challenge: dict[str, str] | None = None
        self._count = 0

    def take(self, challenges: Iterable[str]) -> bool:
        """What a 401 asks for. False where asking again would be answered alike."""
        again = False
        digests = []
        for challenge in challenges:
            for scheme, text in re.findall(
                r"(?i)(?:^|,\s*)(basic|digest)\s+(.*?)(?=,\s*(?:basic|digest)\s|$)", challenge
            ):
                if scheme.lower() == "basic":
                    again |= not self._basic and self._challenge is None
                    self._basic = True
                else:
                    digests.append(parse_keqv_list(parse_http_list(text)))
        known = [one for one in digests if self._hash_name(one) in _HASHES and {"realm", "nonce"} <= set(one)]
        if known:
            # the strongest hash first; a digest before a password that anybody on the network can read
            best = max(known, key=lambda one: "SHA-256" in self._hash_name(one))
            again = self._challenge is None or best.get("stale", "").lower() == "true"
            self._challenge, self._count = best, 0
        return again

    def header(self, method: str, target: str) -> str | None:
        """The Authorization header of a request; None before the server has asked for one."""
        if self._challenge is not None:
            return self._digest(self._challenge, method, target)
        if self._basic:
            return "Basic " + base64.b64encode(f"{self._user}:{self._password}".encode()).decode("ascii")
        return None

    @staticmethod
    def _hash_name(challenge: dict[str, str]) -> str:
        return challenge.get("algorithm", "MD5").upper().removesuffix("-SESS")

    def _digest(self, challenge: dict[str, str], method: str, target: str) -> str:
        realm, nonce = challenge["realm"], challenge["nonce"]
        make = _HASHES[self._hash_name(challenge)]

        def digest(text: str) -> str:
            return make(text.encode()).hexdigest()

        own = secrets.token_hex(8)
        first = digest(f"{self._user}:{realm}:{self._password}")
        if challenge.get("algorithm", "").upper().endswith("-SESS"):
            first = digest(f"{first}:{nonce}:{own}")
        second = digest(f"{method}:{target}")
        fields = {"username": self._user, "realm": realm, "nonce": nonce, "uri": target}
        for kept in ("opaque",):
            if kept in challenge:
                fields[kept] = challenge[kept]
        quoted = ", ".join(
            '{}="{}"'.format(key, value.replace("\\", "\\\\").replace('"', '\\"'))
            for key, value in fields.items()
        )
        if "algorithm" in challenge:
            quoted += f", algorithm={challenge['algorithm']}"
        if "auth" in re.split(r"\s*,\s*", challenge.get("qop", "").strip()):
            self._count += 1
            count = f"{self._count:08x}"
            answer = digest(f"{first}:{nonce}:{count}:{own}:auth:{second}")
            return f'Digest {quoted}, qop=auth, nc={count}, cnonce="{own}", response="{answer}"'
        return f'Digest {quoted}, response="{digest(f"{first}:{nonce}:{second}")}"'
