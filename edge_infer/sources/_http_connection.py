"""A connection to a camera's web server on which no wait is without a limit."""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from edge_infer.errors import SourceError
from edge_infer.sources._address import for_people
from edge_infer.sources._http_login import Login

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MOST_ANSWERS = 6
"""Challenges and redirects before the answer that counts."""
_REDIRECTS = (301, 302, 303, 307, 308)
_BLOCK = 262_144
_CABLE = "is it switched on, is the cable in, is the address right?"


class HttpConnection:
    """Asks one address, as often as wanted; logs in, follows redirects on the same host."""

    def __init__(
        self, camera: str, url: str, *, ca: Path | None, user: str | None, password: str | None
    ) -> None:
        self._label = f"camera {camera}: {for_people(url)}"
        self._url = url
        self._user = user
        self._login = Login(user, password or "") if user is not None else None
        self._tls: ssl.SSLContext | None = None
        if urlsplit(url).scheme == "https":
            self._tls = self._trusting(ca)
        self._wire: _Wire | None = None
        self._response: http.client.HTTPResponse | None = None

    def get(self, within_s: float) -> http.client.HTTPResponse:
        """The answer 200 with its body still to be read; SourceError for every other."""
        until_s = time.monotonic() + within_s
        for _ in range(_MOST_ANSWERS):
            response = self._ask(until_s, within_s)
            if response.status == http.HTTPStatus.OK:
                return response
            if response.status == http.HTTPStatus.UNAUTHORIZED:
                self._log_in(response)
            elif response.status in _REDIRECTS:
                self._follow(response.headers.get("Location", ""))
            else:
                raise self._refused(response)
            self.close()
        raise SourceError(f"{self._label} sends from one address to the next without an end", hint=_CABLE)

    def readable(self, wait_s: float) -> bool:
        """Whether a part of the answer, or its end, is there."""
        wire = self._wire
        return wire is None or wire.readable(wait_s)

    def read(self, until_s: float) -> bytes:
        """What is there of the answer, else what comes next; SourceError at its end."""
        if self._wire is None or self._response is None:
            raise AssertionError("nothing was asked")
        self._wire.until_s = until_s
        try:
            data = self._response.read1(_BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise self.lost("it was silent for too long" if _timed_out(error) else _told(error)) from error
        if not data:
            raise self.lost("the camera ended the stream")
        return data

    def body(self, until_s: float, most_bytes: int) -> bytes:
        """The whole answer; SourceError where it is longer."""
        if self._wire is None or self._response is None:
            raise AssertionError("nothing was asked")
        self._wire.until_s = until_s
        body = bytearray()
        try:
            while data := self._response.read1(_BLOCK):
                body += data
                if len(body) > most_bytes:
                    raise self.lost(f"its picture does not end after {most_bytes // 1_000_000} MB")
            missing = self._response.length or 0
        except (OSError, http.client.HTTPException) as error:
            raise self.lost("a picture took too long" if _timed_out(error) else _told(error)) from error
        if self._response.will_close or missing:
            self.close()
        return bytes(body)

    def lost(self, why: str) -> SourceError:
        """An error of this camera."""
        return SourceError(f"{self._label}: lost: {why}", hint="is it switched on, is the cable in?")

    def close(self) -> None:
        """The next `get` connects anew."""
        self._response = None
        if self._wire is not None:
            self._wire.end()
            self._wire = None

    # -- one request

    def _ask(self, until_s: float, within_s: float) -> http.client.HTTPResponse:
        kept = self._wire is not None
        try:
            try:
                return self._send(until_s)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if not kept:
                    raise
                # the camera had ended the idle connection
                self.close()
                return self._send(until_s)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._not_answered(error, within_s) from error

    def _send(self, until_s: float) -> http.client.HTTPResponse:
        parts = urlsplit(self._url)
        if self._wire is None:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            self._wire = _Wire(parts.hostname or "", port, self._tls, until_s)
        self._wire.until_s = until_s
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        connection.sock = self._wire  # all that it calls of a socket is there
        query = f"?{parts.query}" if parts.query else ""
        target = quote(f"{parts.path or '/'}{query}", safe="/?:@!$&'()*+,;=-._~%[]")
        headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "User-Agent": "edge-infer",
            "Accept": "multipart/x-mixed-replace, image/*",
            "Cache-Control": "no-cache",
        }
        if self._login is not None and (login := self._login.header("GET", target)) is not None:
            headers["Authorization"] = login
        connection.request("GET", target, headers=headers)
        self._response = connection.getresponse()
        return self._response

    def _log_in(self, response: http.client.HTTPResponse) -> None:
        challenges = response.headers.get_all("WWW-Authenticate", [])
        if self._login is None:
            raise SourceError(
                f"{self._label} wants a user and a password", hint="write user: and password: beside url:"
            )
        if not self._login.take(challenges):
            raise SourceError(
                f"{self._label} does not accept the user {self._user} with this password",
                hint="try them in the camera's web page; some cameras lock out for minutes after wrong ones",
            )

    def _follow(self, location: str) -> None:
        old = urlsplit(self._url)
        try:
            new = urlsplit(urljoin(self._url, location))
        except ValueError:
            raise SourceError(f"{self._label} sends us to an address that is none", hint=_CABLE) from None
        plainer = old.scheme == "https" and new.scheme != "https"
        if new.hostname != old.hostname or new.scheme not in ("http", "https") or plainer:
            # whoever answers there must not get the password
            raise SourceError(
                f"{self._label} sends us to {new.scheme}://{new.hostname}, which is not followed",
                hint="write that address as url: if it is the camera's",
            )
        if new.scheme == "https" and self._tls is None:
            self._tls = self._trusting(None)
        self._url = new.geturl()

    def _trusting(self, ca: Path | None) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=None if ca is None else str(ca))
        except OSError as error:
            raise SourceError(
                f"{self._label}: cannot use the certificate authority {ca}: {error.strerror or error}",
                hint="ca: is a PEM file that the service's user may read",
            ) from error

    # -- what an error means

    def _refused(self, response: http.client.HTTPResponse) -> SourceError:
        status = response.status
        self.close()
        if status == http.HTTPStatus.NOT_FOUND:
            return SourceError(
                f"{self._label} is no picture of this camera (404)",
                hint="look up the address of the MJPEG stream or the snapshot in the camera's manual",
            )
        if status == http.HTTPStatus.FORBIDDEN:
            return SourceError(
                f"{self._label} is not for this user (403)",
                hint="give the user rights in the camera's web page",
            )
        hint = "does it serve too many viewers?" if status >= 500 else "look up the address in its manual"
        return SourceError(f"{self._label} answers with the error {status}", hint=hint)

    def _not_answered(self, error: Exception, within_s: float) -> SourceError:
        why, hint = f"cannot be reached: {_told(error)}", _CABLE
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f"shows a certificate that is not trusted: {error.verify_message}"
            hint = "write ca: with the PEM file of who signed it, or of the certificate if it signed itself"
        elif isinstance(error, ssl.SSLError):
            why, hint = "does not speak TLS", "is it http:// instead of https://, is the port right?"
        elif isinstance(error, ConnectionRefusedError):
            why, hint = "refuses the connection", "is the port right, is its web server switched on?"
        elif isinstance(error, socket.gaierror):
            why, hint = "cannot be found: nobody knows its name", "write its IP address"
        elif _timed_out(error):
            why = f"did not answer within {within_s:g} s"
        elif isinstance(error, http.client.BadStatusLine | http.client.LineTooLong) and not isinstance(
            error, http.client.RemoteDisconnected
        ):
            why, hint = "does not speak HTTP", "is the port right, is it this device?"
        return SourceError(f"{self._label} {why}", hint=hint)


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError)


def _told(error: Exception) -> str:
    """In one line; no error of these libraries holds a header that we sent."""
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke in the middle of a picture"
    text = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return " ".join(text.split())


class _Wire:
    """A socket as http.client wants it, whose reads all end at one time: a limit for each single read would
    let a camera that sends a byte now and then hold us for ever.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, until_s: float) -> None:
        self.until_s = until_s
        """Monotonic time."""
        self._raw: _Borrowed | None = None
        self._file: io.BufferedReader | None = None
        self._socket = socket.create_connection((host, port), self._left())
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            plain = self._socket
            try:
                plain.settimeout(self._left())
                self._socket = tls.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise

    def readable(self, wait_s: float) -> bool:
        """Whether a read would give something at once."""
        if self._file is not None and self._raw is not None:
            # chunks that came in one packet lie in its buffer, where no poll sees them
            self._raw.dry = True
            try:
                if not self._file.closed and self._file.peek(1):
                    return True
            finally:
                self._raw.dry = False
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))

    def read_into(self, buffer: WriteableBuffer) -> int:
        """How many bytes; TimeoutError at ``until_s``."""
        self._socket.settimeout(self._left())
        return self._socket.recv_into(buffer)

    def sendall(self, data: bytes) -> None:
        """As a socket's."""
        self._socket.settimeout(self._left())
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """As a socket's."""
        self._raw = _Borrowed(self)
        self._file = io.BufferedReader(self._raw, 65_536)
        return self._file

    def close(self) -> None:
        """http.client lets go of a connection while its answer is still read; see `end`."""

    def end(self) -> None:
        """Close it."""
        self._socket.close()

    def _left(self) -> float:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


class _Borrowed(io.RawIOBase):
    """What the reader of an answer holds."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self.dry = False
        """Give nothing, for who wants to know what was read ahead."""

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """See io.RawIOBase."""
        return None if self.dry else self._wire.read_into(buffer)
