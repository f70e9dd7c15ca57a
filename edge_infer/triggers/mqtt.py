"""A message on ``{station}/cmd/start_single_job`` asks for the inspection."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from edge_infer.triggers import TriggerSettings


class Mqtt(TriggerSettings):
    """``trigger: {type: mqtt}``: one inspection for each message with a part id."""

    type: Literal["mqtt"]
    delay_ms: Annotated[float, Field(ge=0)] = 0.0
    """From the message to when the part is in place."""

    triggered: ClassVar[bool] = True
