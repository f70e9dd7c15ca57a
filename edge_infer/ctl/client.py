"""The asker's side of the socket."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

from edge_infer.ctl.protocol import FORMAT, LONGEST_ANSWER, Request
from edge_infer.ctl.server import reachable
from edge_infer.errors import EdgeInferError

CONNECT_S = 10
"""Whole seconds."""


def ask(path: Path, request: Request, timeout_s: float) -> dict[str, Any]:
    """The service's answer; EdgeInferError where it does not run, may not be asked, or does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        # a non-blocking connect to a full queue would fail at once instead of waiting its turn
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", CONNECT_S, 0))
        try:
            with reachable(path) as address:
                sock.connect(address)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            raise EdgeInferError(
                f"the service does not run: nobody listens at {path}", hint="systemctl status edge-infer"
            ) from error
        except PermissionError as error:
            raise EdgeInferError(
                f"{path} may not be used by this user", hint="ask as root or as the service's user"
            ) from error
        except BlockingIOError as error:
            raise _silent(path, CONNECT_S) from error
        sock.settimeout(timeout_s)
        try:
            sock.sendall(request.model_dump_json(by_alias=True).encode() + b"\n")
            data = _all(sock)
        except TimeoutError as error:
            raise _silent(path, timeout_s) from error
        except OSError as error:
            raise _ended() from error
    return _read(data)


def _all(sock: socket.socket) -> bytes:
    data = b""
    while block := sock.recv(65536):
        data += block
        if len(data) > LONGEST_ANSWER:
            raise EdgeInferError(f"the service answers with more than {LONGEST_ANSWER} bytes")
    return data


def _read(data: bytes) -> dict[str, Any]:
    if not data.endswith(b"\n"):
        raise _ended()
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise EdgeInferError("what listens there is not edge-infer") from error
    if not isinstance(answer, dict) or answer.get("format") != FORMAT:
        raise EdgeInferError("the service is of another version", hint="use the edge-infer that it runs from")
    return answer


def _silent(path: Path, timeout_s: float) -> EdgeInferError:
    return EdgeInferError(
        f"the service at {path} did not answer within {timeout_s:g} s",
        hint="what was asked may still be done: see its log",
    )


def _ended() -> EdgeInferError:
    return EdgeInferError("the service ended before it answered", hint="journalctl -u edge-infer")
