"""``edge-infer batch MODEL INPUT... --out FILE``: one network over everything, once, in order."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from edge_infer.backends import BACKENDS
from edge_infer.batch import LINES, PARQUET
from edge_infer.commands.infer import choose_backend
from edge_infer.errors import EdgeInferError

if TYPE_CHECKING:
    from edge_infer.batch.part import Part


@click.command()
@click.argument("model", type=click.Path(path_type=Path, readable=False))
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),
    required=True,
    metavar="FILE",
    help="JSON Lines (.jsonl) or Parquet (.parquet). It appears when it is complete; until then: FILE.part/.",
)
@click.option(
    "--backend", type=click.Choice(sorted(BACKENDS)), help="Default: onnxruntime; openvino for .xml."
)
@click.option("--device", default="CPU", show_default=True, help="A device name of the backend.")
@click.option("--restart", is_flag=True, help="Begin anew: forget FILE.part/, write FILE over at the end.")
def batch(
    *, model: Path, inputs: tuple[str, ...], out: Path, backend: str | None, device: str, restart: bool
) -> int:
    """Write what MODEL finds in every picture and every video frame of INPUT... to a file, one line each.

    INPUT is a picture, a video, a folder (with all below it; hidden files are left out), a quoted pattern
    like 'parts/**/*.png', or @LIST: a text file with one of these a line, relative to the working directory
    (@- is standard input; what `find -print0` prints will do).

    Lines come in the order of INPUT; in a folder its own files in natural order (2 before 10), then the
    folders below it. After a kill, a full disk or Ctrl-C the same command goes on where it ended, and the
    file is the same, byte for byte.
    """
    if out.suffix.lower() not in (LINES, PARQUET):
        raise click.UsageError(f"--out {out}: its name must end in {LINES} or {PARQUET}")
    # heavy parts are loaded when there is something to do, not for `edge-infer --help`
    import cv2

    from edge_infer.batch import inputs as files
    from edge_infer.batch.batch import fingerprint, run
    from edge_infer.batch.part import Part, folder_of
    from edge_infer.commands.batch_progress import Progress
    from edge_infer.golden import require
    from edge_infer.model.load import load_model
    from edge_infer.network import Network

    if out.suffix.lower() == PARQUET:
        _need_pyarrow()
    # a resize is faster alone than waiting for a core that the runtime holds
    cv2.setNumThreads(1)
    signals = _Signals()
    card = load_model(model)
    settings = choose_backend(card.network, backend, device).in_profile("throughput")
    found = files.find(inputs, sys.stdin.buffer, (out, folder_of(out)))
    if not len(found):
        raise EdgeInferError(
            "no input is left but the output itself", hint="name pictures, videos or folders"
        )
    with ExitStack() as opened:
        part = Part.open(out, restart=restart)
        opened.callback(part.close)
        network = Network.open(card, settings)
        opened.callback(network.close)
        # lines of a network that answers wrongly here would be worse than none
        require(network)
        part.begin(fingerprint(card, network, found))
        with Progress(found) as progress:
            finished = run(network, found, part, signals.stop, progress)
        if finished:
            progress.tell_end(out, part.mark)
            return 1 if part.mark.errors else 0
    return _tell_stop(part, signals.number)


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise EdgeInferError(
            "Parquet needs pyarrow, which is not installed",
            hint="pip install 'edge-infer[parquet]', or write .jsonl",
        ) from error


def _tell_stop(part: Part, number: int) -> int:
    click.echo(
        f"stopped after {part.mark.lines} lines; the same command (without --restart) goes on from there",
        err=True,
    )
    return 128 + number


class _Signals:
    """The first SIGINT or SIGTERM still keeps what is in hand, a second one ends at once."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.number = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._asked)

    def _asked(self, number: int, _: FrameType | None) -> None:
        if self.stop.is_set():
            os._exit(128 + number)
        self.number = number
        self.stop.set()
