"""A message on ``{station}/cmd/start_single_job`` asks for the inspection."""

from __future__ import annotations

from typing import Literal

from edge_infer.triggers import PartTriggerSettings


class Mqtt(PartTriggerSettings):
    """``trigger: {type: mqtt}``: one inspection for each message with a part id."""

    type: Literal["mqtt"]
