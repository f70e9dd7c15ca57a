"""``commands:`` in the site's YAML."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from edge_infer.messages.command import VerbName
from edge_infer.settings import Settings


class CommandSettings(Settings):
    """``commands: {allow: [ping, get_status, snapshot], per_minute: 60}``."""

    allow: tuple[VerbName, ...] = ()
    """What may be asked over MQTT, each verb by name; nothing else is even listened to. A station with
    ``trigger: {type: mqtt}`` allows start_single_job by that trigger."""
    per_minute: Annotated[int, Field(ge=1, le=6000)] = 60
    """Requests of one verb that one requester may send; parts (start_single_job) are not counted."""

    @field_validator("allow")
    @classmethod
    def _once(cls, allow: tuple[VerbName, ...]) -> tuple[VerbName, ...]:
        twice = [verb for verb in dict.fromkeys(allow) if allow.count(verb) > 1]
        if twice:
            raise ValueError(f"{', '.join(twice)} stands there twice")
        return allow
