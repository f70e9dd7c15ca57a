"""What may be asked, one file a verb, and how each is worked off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edge_infer.messages.command import VerbName
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach
from edge_infer.remote.verbs.get_result import get_result
from edge_infer.remote.verbs.get_status import get_status
from edge_infer.remote.verbs.ping import ping
from edge_infer.remote.verbs.reload import reload
from edge_infer.remote.verbs.reset_counts import reset_counts
from edge_infer.remote.verbs.select_recipe import select_recipe
from edge_infer.remote.verbs.set_threshold import set_threshold
from edge_infer.remote.verbs.snapshot import snapshot
from edge_infer.remote.verbs.start_single_job import start_single_job

Work = Literal["parts", "changes", "pictures", "questions"]
"""Each kind has its worker: parts do not wait for pictures, questions not for a reload. Changes come one
after the other, as they were asked for. Parts are begun before that, by the thread that received them."""


Begun = Answer | Callable[[], Answer]
"""What came of it, or what waits for that."""


@dataclass(frozen=True, slots=True)
class Verb:
    """How one verb is carried out."""

    work: Work
    # of its own request class
    carry_out: Callable[[Any, Command, Reach], Begun]
    """RefusedError, or any other EdgeInferError where it cannot be done."""


VERBS: Mapping[VerbName, Verb] = {
    "start_single_job": Verb("parts", start_single_job),
    "snapshot": Verb("pictures", snapshot),
    "set_threshold": Verb("changes", set_threshold),
    "select_recipe": Verb("changes", select_recipe),
    "reset_counts": Verb("changes", reset_counts),
    "reload": Verb("changes", reload),
    "get_status": Verb("questions", get_status),
    "get_result": Verb("questions", get_result),
    "ping": Verb("questions", ping),
}
