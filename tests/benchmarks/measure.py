"""One measurement of the standard set, in a process of its own: its memory and its runtime are its own too.

``python -m tests.benchmarks.measure WHAT BACKEND SECONDS PICTURE`` prints one JSON object: that of
``edge-infer bench --json`` and what only the page shows. WHAT is a model's folder or a site's YAML.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cv2

from edge_infer.bench.frames import read
from edge_infer.bench.model import measure_model
from edge_infer.bench.site import measure_site
from edge_infer.commands.infer import choose_backend
from edge_infer.config.site import load_site
from edge_infer.model.load import load_model


def main(what: str, backend: str, seconds: str, picture: str) -> None:
    """Print it."""
    # as `edge-infer bench` has it
    cv2.setNumThreads(1)
    frames, path = read(Path(picture)), Path(what)
    if path.suffix == ".yaml":
        measured = measure_site(load_site(path), frames, float(seconds), lambda *_: None)
    else:
        card = load_model(path)
        settings = choose_backend(card.network, backend, "CPU")
        measured = measure_model(card, settings, frames, float(seconds), lambda *_: None)
    turns = measured.turns
    sys.stdout.write(
        json.dumps(
            measured.as_json()
            | {
                "requests": measured.requests,
                "bare_way": measured.bare_way,
                "bare_cpu_ms_per_frame": turns.bare_cpu_ms_per_frame,
                "seconds": [one.seconds for one in turns.pipeline],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
