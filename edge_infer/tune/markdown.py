"""The report for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def text(told: Mapping[str, Any]) -> str:
    """Markdown of what ``report.as_json`` gives."""
    return "\n".join(_lines(told)) + "\n"


def table(told: Mapping[str, Any]) -> Iterator[str]:
    """Every candidate, the fastest first."""
    ordered = sorted(
        told["candidates"], key=lambda one: one["speed"]["fps"] if one["speed"] else 0.0, reverse=True
    )
    chosen = told["chosen"]
    exact = [one["speed"] for one in ordered if one["precision"] == "FP32" and one["speed"]]
    fps, cpu_ms = (
        max((one["fps"] for one in exact), default=0.0),
        min((one["cpu_ms"] for one in exact), default=0.0),
    )
    rows = []
    for one in ordered:
        speed = one["speed"]
        mark = "**chosen**" if one == chosen else "rejected" if one["rejected"] else ""
        figures = ["-"] * 7
        if speed is not None:
            ratios = [f"{speed['fps'] / fps:.2f}", f"{cpu_ms / speed['cpu_ms']:.2f}"] if exact else ["-", "-"]
            joules = "-" if speed["joules"] is None else f"{speed['joules']:.3f}"
            figures = [f"{speed['fps']:.1f}", ratios[0], f"{speed['p50_ms']:.1f}", f"{speed['p95_ms']:.1f}"]
            figures += [f"{speed['cpu_ms']:.1f}", ratios[1], joules]
        rows.append(
            [_name(one), one["profile"], _shown(one["requests"]), _shown(one["threads"]), *figures, mark]
        )
    yield from _table(
        ["candidate", "profile", "requests", "threads", "frames/s", "x best FP32", "p50 ms",
         "p95 ms", "CPU ms", "x best FP32", "J/frame", ""],
        rows,
    )  # fmt: skip


def agreement(told: Mapping[str, Any]) -> Iterator[str]:
    """Every variant beside FP32."""
    rows = []
    for one in told["variants"]:
        found = one["agreement"]
        if found is None:
            rows.append([_name(one), *["-"] * 7, one["rejected"]])
            continue
        places = found["iou"]
        rows.append(
            [
                _name(one), str(found["sure"]), str(found["missing"]), str(found["extra"]),
                f"{found['lost']:.2%}",
                f"{found['near_changed']} of {found['near']}",
                f"{found['score_drift']['mean']:.4f} ({found['score_drift']['max']:.3f})",
                "-" if places is None else f"{places['mean']:.3f} ({places['min']:.3f})",
                one["rejected"] or "may be chosen",
            ]
        )  # fmt: skip
    yield from _table(
        ["network", "sure", "missing", "too many", "lost", "near, changed", "score drift mean (max)",
         "IoU mean (min)", "verdict"],
        rows,
    )  # fmt: skip


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    model, data, limits, machine = told["model"], told["data"], told["limits"], told["machine"]
    yield f"# {model['name']}, tuned"
    yield ""
    yield f"{told['made_at']}, edge-infer {told['versions']['edge-infer']}."
    yield ""
    chosen = told["chosen"]
    if chosen is not None:
        yield f"Chosen for {told['aim']}: **{_way(chosen)}**, {chosen['speed']['fps']:.1f} frames/s, "
        yield f"p50 {chosen['speed']['p50_ms']:.1f} ms."
        for aim, best in told["fastest"].items():
            if aim != told["aim"] and best is not None:
                yield f"For {aim} it would be {_way(best)}, {best['speed']['fps']:.1f} frames/s, "
                yield f"p50 {best['speed']['p50_ms']:.1f} ms."
    yield ""
    yield "## Speed"
    yield ""
    yield (
        f"Preprocessing, network and decoder; {told['measured']['rounds']} interleaved windows of "
        f"{told['measured']['seconds']:g} s each, the median. CPU ms: of the process, a frame. "
        f"Energy: {told['energy']}."
    )
    if told["busy"]:
        yield ""
        yield f"**{told['busy']}**"
    yield ""
    yield from table(told)
    yield ""
    yield "## Agreement with FP32"
    yield ""
    yield (
        f"{data['held_out']} held-out frames that were not calibrated with; FP32 is {told['reference']}. "
        f"At most {limits['lost']:.2%} of the sure findings may be lost, scores may drift by "
        f"{limits['score_drift']:g} on average, objects must overlap by {limits['iou']:g} on average. "
        f"Findings within 0.1 of the threshold ({model['score_threshold']:g}) are counted apart."
    )
    yield ""
    yield from agreement(told)
    yield ""
    for line in told["skipped"]:
        yield f"- {line}"
    if told["skipped"]:
        yield ""
    yield "## What it was made from"
    yield ""
    yield f"- model: {model['name']} {model['version'] or ''}, sha256 `{model['sha256']}`"
    yield f"- golden pictures: {told['golden']['said']}"
    yield (
        f"- data: {data['path']}, {data['frames']} frames ({data['repeated']} repeated), "
        f"{data['calibration']} to calibrate with, {data['held_out']} held out, sha256 `{data['sha256']}`"
    )
    for line in data["unreadable"]:
        yield f"- left out: {line}"
    for line in model["guesses"]:
        yield f"- a guess taken over: {line}"
    yield (
        f"- machine: {machine['cpu']}, {machine['usable_cores']} of {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, kernel {machine['kernel']}, load before the end {machine['load']}"
    )
    yield f"- versions: {', '.join(f'{name} {number}' for name, number in told['versions'].items())}"
    for method, seconds in told["quantise_s"].items():
        yield f"- {method} took {seconds:g} s"


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['backend']} {one['device']} {one['precision']}" + (
        f" ({one['method']})" if one["method"] else ""
    )


def _way(one: Mapping[str, Any]) -> str:
    told = f"{_name(one)}, {one['profile']}, requests {one['requests']}"
    return told if one["threads"] is None else f"{told}, threads {one['threads']}"


def _shown(value: object) -> str:
    return "-" if value is None else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] * len(head))}|"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |"
