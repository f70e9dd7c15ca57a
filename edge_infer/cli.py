"""The command group: loads a command when it is asked for, turns exceptions into exits."""

from __future__ import annotations

import errno
import logging
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

import click

from edge_infer import __version__, cores
from edge_infer.errors import EdgeInferError
from edge_infer.registry import resolve

COMMANDS = {
    "batch": "edge_infer.commands.batch:batch",
    "bench": "edge_infer.commands.bench:bench",
    "check": "edge_infer.commands.check:check",
    "commission": "edge_infer.commands.commission:commission",
    "ctl": "edge_infer.commands.ctl:ctl",
    "demo": "edge_infer.commands.demo:demo",
    "doctor": "edge_infer.commands.doctor:doctor",
    "grab": "edge_infer.commands.grab:grab",
    "infer": "edge_infer.commands.infer:infer",
    "model": "edge_infer.commands.model:model",
    "outbox": "edge_infer.commands.outbox:outbox",
    "run": "edge_infer.commands.run:run",
    "tune": "edge_infer.commands.tune:tune",
    "watch": "edge_infer.commands.watch:watch",
}


class _Commands(click.Group):
    # click passes its context to both; which commands there are does not depend on it
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's parameter
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = resolve(COMMANDS, cmd_name)
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edge-infer")
def cli() -> None:
    """Judge parts on a line: camera -> network -> rules -> decision on MQTT."""


def main() -> None:
    """Run a command. Exit 0 done, 1 expected failure, 2 usage, 3 a bug, 78 configuration, 130 ^C."""
    cores.leave_to_runtimes()
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except EdgeInferError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # the reader of our output went away (| head)
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF) or error.filename is not None:
            sys.exit(_report_bug(error))
        click.echo(f"cannot write the output: {error.strerror}; write it somewhere else", err=True)
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the one place that turns a bug into a report
        sys.exit(_report_bug(error))
    sys.exit(code if isinstance(code, int) else 0)


def entry() -> NoReturn:
    """`main`, then the process's end at once: threads of runtimes and decoders that still live would abort
    the interpreter's own end.
    """
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # a full disk, a reader that went away, a stream that was closed
            code = code or 1
    logging.shutdown()
    os._exit(code if isinstance(code, int) else 0)


def _report_bug(error: Exception) -> int:
    text = "".join(traceback.format_exception(error))
    report = f"edge-infer {__version__}\npython {sys.version}\n\n{text}"
    try:
        # under systemd a report in /tmp would end with the process
        folder = os.environ.get("LOGS_DIRECTORY", "").partition(":")[0] or None
        with tempfile.NamedTemporaryFile(
            "w", prefix="edge-infer-", suffix=".txt", dir=folder, delete=False
        ) as file:
            file.write(report)
        where = f"the report is in {Path(file.name)}"
    except OSError as failure:
        where = f"no report could be written ({failure.strerror}):\n{text}"
    click.echo(f"a bug in edge-infer: {type(error).__name__}: {error}; {where}", err=True)
    return 3
