"""``edge-infer doctor [CONFIG]``: what works on this device and how to mend what does not."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_infer.commands.lines import plain
from edge_infer.commands.run import state_dir
from edge_infer.commands.terminal import forgive_encoding
from edge_infer.errors import ConfigError

if TYPE_CHECKING:
    from edge_infer.doctor.finding import Finding

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.argument("config", type=click.Path(path_type=Path, readable=False), required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a finding.")
def doctor(config: Path | None, as_json: bool) -> int:
    """Say what works on this device, and with which command to mend what does not.

    With CONFIG also its cameras, broker and devices. Changes nothing. Exit 1 where something fails, 78 where
    CONFIG is wrong. With sudo it sees more.
    """
    from edge_infer.doctor.examine import examine
    from edge_infer.doctor.machine import Machine
    from edge_infer.doctor.subject import Subject

    forgive_encoding()
    subject = Subject(Machine(), config, os.environ, state_dir())
    found = []
    for one in examine(subject):
        found.append(one)
        if as_json:
            click.echo(json.dumps(asdict(one)))
    if not as_json:
        _table(found)
    if subject.is_misconfigured:
        return ConfigError.exit_code
    return 1 if any(one.status == "fail" for one in found) else 0


def _table(found: Sequence[Finding]) -> None:
    width = max((len(one.check) for one in found), default=0)
    for one in found:
        # styles are dropped where standard output is no terminal
        status = click.style(f"{one.status:4}", fg=COLOURS[one.status])
        click.echo(f"{status}  {one.check:{width}}  {plain(one.found)}")
        if one.mend:
            click.echo(f"{'':{width + 6}}  mend: {plain(one.mend)}")
    counts = {status: sum(one.status == status for one in found) for status in COLOURS}
    click.echo(f"{counts['fail']} failed, {counts['warn']} warnings, {counts['ok']} ok")
    if os.geteuid() != 0:
        click.echo("seen by an ordinary user: with sudo also files and answers of the service", err=True)
