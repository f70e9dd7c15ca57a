"""Opens cameras for one frame each: a program, ``python -m edge_infer.doctor.camera_look``.

Its order is JSON on its standard input; it prints a JSON object a camera, as soon as it is known.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from edge_infer.config.site import load_site
from edge_infer.doctor.subject import UnitSecrets
from edge_infer.errors import EdgeInferError, SourceStalledError
from edge_infer.settings import Secrets
from edge_infer.sources import OnDemand, SourceSettings


def look(name: str, camera: SourceSettings, secrets: Secrets, by_s: float) -> dict[str, Any]:
    """One frame, or why there is none. The camera is given back."""
    began_s = time.monotonic()
    try:
        source = camera.open(name, secrets)
        opened_s = time.monotonic() - began_s
        try:
            if isinstance(source, OnDemand):
                source.fire(time.monotonic())
            while time.monotonic() < by_s:
                try:
                    frame = source.read(0.5)
                except SourceStalledError:
                    continue
                if frame is None:
                    return _answer(name, "trouble", "it ended without a picture", "is its path right?")
                took_s = time.monotonic() - began_s
                if frame.damaged is not None:
                    return _answer(name, "doubt", f"its picture is damaged: {frame.damaged}", None)
                return _answer(name, "ok", f"{frame.width}x{frame.height} after {took_s:.1f} s")
        finally:
            source.close()
    except EdgeInferError as error:
        return _answer(name, "trouble", error.message, error.hint)
    if camera.waits:
        return _answer(
            name,
            "doubt",
            f"opened in {opened_s:.1f} s; it waits for its trigger, none came",
            "let a part pass meanwhile",
        )
    return _answer(
        name,
        "trouble",
        f"opened in {opened_s:.1f} s, and no picture came",
        "is it started, is its format right?",
    )


def _answer(name: str, outcome: str, text: str, hint: str | None = None) -> dict[str, Any]:
    return {"camera": name, "outcome": outcome, "text": text, "hint": hint}


def main() -> None:
    """All at once, until the order's limit."""
    order = json.loads(sys.stdin.read())
    by_s = time.monotonic() + order["limit_s"]
    site = load_site(Path(order["config"]))
    secrets = UnitSecrets(os.environ, order["credentials"])
    answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
    for name in order["cameras"]:

        def work(name: str = name) -> None:
            answers.put(look(name, site.cameras[name], secrets, by_s))

        threading.Thread(target=work, name=f"camera {name}", daemon=True).start()
    left = set(order["cameras"])
    while left:
        try:
            one = answers.get(timeout=max(0.0, by_s + 0.5 - time.monotonic()))
        except Empty:
            break
        left.discard(one["camera"])
        print(json.dumps(one), flush=True)  # noqa: T201 - a program
    for name in sorted(left):
        print(json.dumps(_answer(name, "trouble", "hangs: it was not opened in time", None)), flush=True)  # noqa: T201
    # threads of drivers that hang would hold the interpreter's end up
    os._exit(0)


if __name__ == "__main__":
    main()
