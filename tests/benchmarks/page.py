"""The page that `make bench` writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.benchmarks.growth import Fresh, Stages

_TOLD = {"openvino": "OpenVINO", "onnxruntime": "ONNX Runtime"}


def page(measured: dict[str, Any], machine: Sequence[str], shortfalls: Sequence[str], seconds: float) -> str:
    """Markdown."""
    where = "".join(f"- {line}\n" for line in machine)
    missed = "".join(f"- {line}\n" for line in shortfalls)
    told = (
        f"Not reached on this run:\n\n{missed}" if missed else "All that is wanted is reached on this run.\n"
    )
    return f"""# Benchmarks

Written by `make bench` in {seconds / 60:.0f} minutes; do not edit. How fast results are delivered: \
[benchmarks/delivery.md](benchmarks/delivery.md).

{where}
{told}
## The pipeline beside the bare runtime

From a decoded picture of 1920x1080 to its list of findings, through the service's engine; beside it the \
same network alone on its runtime, same device and precision, in the fastest of the runtime's own ways, fed \
with one tensor again and again. Windows of both lie in turns in one process; the ratio is the median of \
what each pipeline window is of the bare ones before and after it. `CPU` is the processor time of a frame in \
that of a bare one. Latency is from the capture to the result with one request, beside the bare runtime's \
synchronous p50, in the same run.

{_ratios(measured["ratios"])}
YOLO11n, MobileNetV2 and ResNet-18 are the public architectures with drawn weights (a fixed seed) and with \
statistics of real pictures, so that numbers neither grow nor vanish; of YOLO11n some 150 rows of a frame \
pass the score threshold and some 50 boxes are left. INT8 is by NNCF.

## Stations

YOLO11n 320 INT8. Each station has a camera that gives 1.5 times its share of the frames that the device \
could judge, its own rules and its own results; one compiled network serves all. Memory includes the \
picture, once.

{_sites(measured["sites"])}
## One frame, stage by stage

In brackets the same step again and again without the network in between. The difference is the processor's \
cache: after an inference it holds the network, and the frame and our code come from memory. A small, fast \
network cannot hide that.

{_stages(measured)}
{_fresh(measured["fresh"])}
## What costs grow with

One request, latency profile, OpenVINO, FP32; milliseconds, medians.

{_growth("rows of the answer (YOLO11n)", measured["anchors"])}
{_growth("frame (YOLO11n 320)", measured["resolutions"])}
{_growth("score threshold (YOLO11n 320)", measured["detections"])}
Stations: see above.
"""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _ratios(ratios: Sequence[tuple[Any, dict[str, Any]]]) -> str:
    rows = []
    for wanted, of in ratios:
        latency = of["latency_ms"]
        rows.append(
            (
                wanted.what,
                _TOLD[wanted.backend],
                f"{of['bare_fps']:.1f} ({of['bare_way']})",
                f"{of['pipeline_fps']:.1f}",
                f"**{of['ratio']:.3f}**",
                "-" if wanted.ratio is None else f"{wanted.ratio:g}",
                f"{of['cpu_ms_per_frame'] / of['bare_cpu_ms_per_frame']:.3f}",
                f"{latency['p50']:.1f} / {latency['p95']:.1f} / {latency['p99']:.1f}",
                f"{latency['p50'] / of['bare_latency_ms']:.3f}",
                f"{of['peak_rss_mb']:.0f}",
            )
        )
    head = (
        "network", "runtime", "bare, frames/s", "pipeline", "ratio", "wanted", "CPU",
        "latency, ms: p50 / p95 / p99", "of the bare p50", "memory, MB",
    )  # fmt: skip
    return _table(head, rows)


def _sites(sites: dict[int, dict[str, Any]]) -> str:
    rows = [
        (
            str(count),
            f"{of['pipeline_fps']:.1f}",
            f"**{of['ratio']:.3f}**",
            ", ".join(f"{one['share']:.1%}" for one in of["stations"]),
            f"{of['fairness']:.3f}",
            str(sum(one["dropped"] for one in of["stations"])),
            f"{of['peak_rss_mb']:.0f}",
        )
        for count, of in sites.items()
    ]
    fewest, most = min(sites), max(sites)
    each = (sites[most]["peak_rss_mb"] - sites[fewest]["peak_rss_mb"]) / (most - fewest)
    head = ("stations", "frames/s", "ratio", "shares", "slowest ÷ fastest", "dropped", "memory, MB")
    return f"{_table(head, rows)}\nA station more takes {each:.1f} MB (at most 40 are wanted).\n"


def _stages(measured: dict[str, Any]) -> str:
    bare_ms = {
        one.model: of["bare_latency_ms"] for one, of in measured["ratios"] if one.backend == "openvino"
    }
    rows = []
    for name, profile in measured["profiles"].items():
        stages = profile.stages
        ours_ms = stages.preprocess_ms + stages.postprocess_ms + profile.station_ms
        rows.append(
            (
                name,
                f"{stages.preprocess_ms:.2f} ({profile.warm_preprocess_ms:.2f})",
                f"{stages.infer_ms:.2f}",
                f"{stages.postprocess_ms:.2f} ({profile.warm_postprocess_ms:.2f})",
                f"{profile.station_ms:.2f}",
                f"{ours_ms / stages.infer_ms:.1%}",
                f"{bare_ms[name]:.2f}",
                str(stages.found),
            )
        )
    head = (
        "OpenVINO, latency", "resize into the input, ms", "runtime, ms", "decode and NMS, ms",
        "engine, rules, result, ms", "ours in the runtime's", "bare p50, ms", "found",
    )  # fmt: skip
    return _table(head, rows)


def _fresh(fresh: dict[str, Fresh]) -> str:
    rows = [
        (
            name,
            f"{of.frame_bytes / 1000:,.0f}",
            f"{of.written_bytes / 1000:,.0f}",
            f"{of.peak_bytes / 1000:,.0f}",
            f"{of.kept_bytes / 1000:,.0f}",
        )
        for name, of in fresh.items()
    ]
    head = ("kB", "the frame", "written: the network's input", "taken anew, at most", "kept: the findings")
    return f"{_table(head, rows)}\nMemory taken anew is what Python and numpy allocate for one frame.\n"


def _growth(what: str, rows: Iterable[tuple[Any, Stages]]) -> str:
    return _table(
        (what, "resize", "runtime", "decode and NMS", "found"),
        (
            (
                f"{name:,}" if isinstance(name, int) else str(name),
                f"{of.preprocess_ms:.2f}",
                f"{of.infer_ms:.2f}",
                f"{of.postprocess_ms:.2f}",
                str(of.found),
            )
            for name, of in rows
        ),
    )
