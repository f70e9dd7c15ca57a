"""Measures the bundled network as the product uses it, on lines that training never saw; prints Markdown.

.venv/bin/python models/bottles/evaluate.py --backend onnxruntime
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

import cv2
import numpy as np
import yaml
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Region
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
from edge_infer.rules.count import CountRule
from edge_infer.rules.decision import Judge
from edge_infer.scene import DEFECTS, HEIGHT, WIDTH, Part, Scene

Pixels = NDArray[np.uint8]

DEFECT_LABELS = ("skewed-cap", "low-fill", "torn-label", "foreign-object")
RULE_OF = {
    "missing-cap": "has-cap",
    "skewed-cap": "cap-straight",
    "low-fill": "filled",
    "torn-label": "label-whole",
    "foreign-object": "nothing-foreign",
}
FIRST_LINE = 200_000
"""Line seeds from here on; training took others."""
_EVERYTHING = 0.01
CHANGED = 20


@dataclass(frozen=True)
class Seen:
    """What the network and the rules made of one part."""

    decision: str
    broken: frozenset[str]
    """Names of broken rules."""
    margin: float
    """How far the score that decided lies on the right side of the threshold; negative: wrong decision."""


class Inspector:
    """The station of the demo."""

    def __init__(self, backend: str) -> None:
        card = load_model(Path(__file__).parent)
        self._threshold = card.score_threshold
        # weak findings are wanted for the margins; the rules get only those that the card lets through
        settings = resolve(BACKENDS, backend)(type=backend)
        self.network = Network.open(replace(card, score_threshold=_EVERYTHING), settings)
        station = _station()
        self._judge = Judge([CountRule.model_validate_json(json.dumps(rule)) for rule in station["rules"]])
        self._region = Region(station["region"]["unit"], station["region"]["box"]).pixels(WIDTH, HEIGHT)

    def inspect(self, pixels: Pixels, truth: str) -> Seen:
        """One frame."""
        everything = self.network.infer(pixels, self._region).findings.detections or Detections.none()
        strong = _at_least(everything, self._threshold)
        verdict = self._judge.judge(Findings(strong), width=WIDTH, height=HEIGHT, time_s=0.0)
        best = dict.fromkeys(("bottle", "cap", *DEFECT_LABELS), 0.0)
        for found in everything:
            best[found.label] = max(best[found.label], found.score)
        suspicion = max(1 - best["bottle"], 1 - best["cap"], *(best[label] for label in DEFECT_LABELS))
        margin = suspicion - self._threshold if truth == "NOK" else self._threshold - suspicion
        broken = frozenset(rule.name for rule in verdict.rules if rule.decision == "NOK")
        return Seen(verdict.decision, broken, margin)


def _station() -> dict[str, Any]:
    """Its region and rules as `edge-infer demo` has them."""
    text = Path(__file__).with_name("demo.yaml").read_text(encoding="utf-8")
    station: dict[str, Any] = yaml.safe_load(Template(text).substitute(port=1883, model="."))["stations"][
        "filler"
    ]
    return station


def _at_least(found: Detections, score: float) -> Detections:
    keep = np.flatnonzero(found.scores >= np.float32(score))
    return Detections(
        found.boxes[keep], found.scores[keep], found.class_ids[keep], tuple(found.labels[i] for i in keep)
    )


def parts(lines: range, parts_a_line: int, defect_rate: float) -> Iterator[tuple[Part, Pixels]]:
    """Every third part of each line, on the frame that it triggers."""
    for seed in lines:
        scene = Scene(seed, 10, defect_rate)
        for number in range(0, 3 * parts_a_line, 3):
            yield scene.part(number), scene.pixels(scene.arrival(number))


def conditions() -> dict[str, Callable[[Pixels], Pixels]]:
    """What is done to the frame; all but the first lie outside what training did (data.py)."""
    draw = np.random.default_rng(5)

    def noisy(pixels: Pixels) -> Pixels:
        return np.clip(pixels + draw.normal(0, 10, pixels.shape), 0, 255).astype(np.uint8)

    return {
        "as drawn": lambda pixels: pixels,
        "light -20 %": lambda pixels: cv2.convertScaleAbs(pixels, alpha=0.8),
        "light +20 %": lambda pixels: cv2.convertScaleAbs(pixels, alpha=1.2),
        "blur, sigma 2 px": lambda pixels: cv2.GaussianBlur(pixels, (0, 0), 2.0),
        "noise, sigma 10": noisy,
    }


def main() -> None:
    """Print the tables of README.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="onnxruntime")
    parser.add_argument("--lines", type=int, default=50)
    parser.add_argument("--parts", type=int, default=20, help="of each line")
    arguments = parser.parse_args()
    inspector = Inspector(arguments.backend)
    print(f"{arguments.backend}\n")
    first = FIRST_LINE
    for title, rate in (("defect rate 0.2", 0.2), ("defects only", 1.0)):
        lines = range(first, first + arguments.lines)
        first += arguments.lines
        if rate == 1.0:
            _ranges(lines, arguments.parts)
        _report(title, list(_judged(inspector, lines, arguments.parts, rate)))


def _ranges(lines: range, parts_a_line: int) -> None:
    """How large the defects are and how much they change the picture against the same part without them."""
    found: dict[str, list[tuple[float, float, float, float]]] = {kind: [] for kind in DEFECTS}
    for seed in lines:
        broken, sound = Scene(seed, 10, 1.0), Scene(seed, 10, 0.0)
        for number in range(0, 3 * parts_a_line, 3):
            defects = broken.part(number).defects
            if len(defects) > 1:
                continue
            index = broken.arrival(number)
            label = "cap" if defects[0] == "missing-cap" else defects[0]
            things = (sound if label == "cap" else broken).objects(index)
            box = next(t.box for t in things if t.part.number == number and t.label == label)
            x1, y1, x2, y2 = (round(v) for v in box)
            cut = (slice(max(y1 - 8, 0), y2 + 8), slice(x1 - 8, x2 + 8))
            a, b = (
                cv2.cvtColor(s.pixels(index), cv2.COLOR_BGR2GRAY)[cut].astype(int) for s in (broken, sound)
            )
            change = np.abs(a - b)
            changed = change > CHANGED
            found[defects[0]].append((x2 - x1, y2 - y1, changed.sum(), change[changed].mean()))
    print("### Size and contrast of the defects: smallest tenth, median, largest tenth\n")
    print(
        "| | parts | width px | height px "
        f"| pixels changed by more than {CHANGED} grey levels | their mean change |"
    )
    print("|---|---|---|---|---|---|")
    for kind, rows in found.items():
        low, middle, high = np.percentile(np.array(rows), (10, 50, 90), axis=0)
        cells = (f"{a:.0f} / {b:.0f} / {c:.0f}" for a, b, c in zip(low, middle, high, strict=True))
        print(f"| {kind} | {len(rows)} | " + " | ".join(cells) + " |")
    print()


def _judged(
    inspector: Inspector, lines: range, parts_a_line: int, rate: float
) -> Iterator[tuple[Part, dict[str, Seen]]]:
    changes = conditions()
    for part, pixels in parts(lines, parts_a_line, rate):
        yield part, {name: inspector.inspect(change(pixels), part.truth) for name, change in changes.items()}


def _report(title: str, judged: list[tuple[Part, dict[str, Seen]]]) -> None:
    names = list(conditions())
    kinds = ("OK", *DEFECTS) if any(part.truth == "OK" for part, _ in judged) else DEFECTS
    print(f"### {title}: right decisions of {len(judged)} parts\n")
    print("| | parts | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    rows: list[tuple[str, list[tuple[Part, dict[str, Seen]]]]] = [("all", judged)]
    rows += [(kind, [item for item in judged if kind in (item[0].defects or ("OK",))]) for kind in kinds]
    for kind, chosen in rows:
        cells = []
        for name in names:
            right = sum(seen[name].decision == part.truth for part, seen in chosen)
            cells.append(f"{right} ({right / len(chosen):.2%})" if chosen else "-")
        print(f"| {kind} | {len(chosen)} | " + " | ".join(cells) + " |")
    named = Counter[str]()
    for part, seen in judged:
        named.update(kind for kind in part.defects if RULE_OF[kind] in seen["as drawn"].broken)
    print("\nDefects named by the rule that is meant for them, as drawn: ", end="")
    print(", ".join(f"{kind} {named[kind]}/{sum(kind in p.defects for p, _ in judged)}" for kind in DEFECTS))
    edges = np.round(np.arange(-0.5, 0.51, 0.1), 1)
    print("\nMargins (parts a bin):\n")
    print("| from | " + " | ".join(f"{edge:+.1f}" for edge in edges[:-1]) + " | least |")
    print("|---|" + "---|" * len(edges))
    for name in names:
        margins = np.array([seen[name].margin for _, seen in judged])
        counts = np.histogram(np.clip(margins, -0.5, 0.5), edges)[0]
        print(f"| {name} | " + " | ".join(map(str, counts)) + f" | {margins.min():+.2f} |")
    print()


if __name__ == "__main__":
    main()
