"""What came of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_infer.errors import EdgeInferError
from edge_infer.messages.command import Status


@dataclass(frozen=True, slots=True)
class Answer:
    """Becomes a `Reply` where one is wanted."""

    status: Status
    code: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)


class RefusedError(EdgeInferError):
    """A request that is not carried out."""

    def __init__(self, code: str, message: str, *, status: Status = "rejected") -> None:
        super().__init__(message)
        self.answer = Answer(status, code, message)
