"""What was tried, measured and decided, for a program and for a person."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edge_infer import __version__, cores, cpu
from edge_infer.tune.choice import QUIET, Judged, Tried, choose, goes_by_cpu_time
from edge_infer.tune.speed import Speed
from edge_infer.tune.tuning import Outcome
from edge_infer.wholefile import replacing

JSON = "tune-report.json"
TEXT = "tune-report.md"
_PACKAGES = ("openvino", "onnxruntime", "nncf", "onnx", "numpy", "opencv-python-headless")


def write(outcome: Outcome, folder: Path, made_at: datetime, energy: str | None) -> None:
    """Both reports; ``energy``: why there are no figures, None where there are."""
    from edge_infer.tune.markdown import text

    told = as_json(outcome, made_at, energy)
    for name, data in ((JSON, json.dumps(told, indent=1, ensure_ascii=False) + "\n"), (TEXT, text(told))):
        with replacing(folder / name) as file:
            file.write(data.encode())


def as_json(outcome: Outcome, made_at: datetime, energy: str | None) -> dict[str, Any]:
    """The report as an object."""
    card, frames, wishes = outcome.card, outcome.frames, outcome.wishes
    chosen = outcome.chosen
    return {
        "format": 1,
        "made_at": made_at.isoformat(timespec="seconds"),
        "model": {
            "name": card.name,
            "version": card.version,
            "network": str(card.network),
            "sha256": card.sha256,
            "task": card.task,
            "score_threshold": card.score_threshold,
            "guesses": list(card.warnings),
        },
        "data": {
            "path": str(outcome.data),
            "sha256": frames.sha256,
            "frames": frames.found,
            "repeated": frames.repeated,
            "calibration": outcome.calibrated_with,
            "held_out": len(frames.held_out),
            "unreadable": list(frames.unreadable),
        },
        "limits": {
            "lost": wishes.limits.lost,
            "score_drift": wishes.limits.score,
            "iou": wishes.limits.iou,
        },
        "reference": outcome.reference,
        "measured": {"seconds": wishes.seconds, "rounds": wishes.rounds},
        "quantise_s": outcome.quantise_s,
        "variants": [_judged(one) for one in outcome.judged],
        "candidates": [candidate(one) for one in outcome.tried],
        "skipped": outcome.skipped,
        "aim": wishes.aim,
        "chosen": None if chosen is None else candidate(chosen),
        "fastest": {
            aim: None if (best := choose(outcome.tried, aim)) is None else candidate(best)
            for aim in ("throughput", "latency")
        },
        "golden": {"kept": outcome.golden.kept, "said": outcome.golden.said},
        "energy": energy or "RAPL: joules of the whole processor, a frame",
        "busy": busy(outcome.tried),
        "machine": machine(),
        "versions": versions(),
    }


def candidate(one: Tried) -> dict[str, Any]:
    """One line of the report."""
    variant = one.judged.variant
    agreement = one.judged.agreement
    return {
        "backend": variant.backend,
        "device": variant.device,
        "precision": variant.precision,
        "method": variant.method,
        "profile": one.candidate.profile,
        "requests": one.requests or one.candidate.requests,
        "threads": one.candidate.threads,
        "speed": None if one.speed is None else _speed(one.speed),
        "fps_between": _between(one.windows),
        "agreement": None if agreement is None else agreement.as_json(),
        "rejected": one.rejected,
        "yaml": one.candidate.yaml(one.requests) if one.requests else None,
    }


def busy(tried: Sequence[Tried]) -> str | None:
    """A sentence where others used the machine while it was measured, else None."""
    others = [window.others for one in tried for window in one.windows]
    if not others or (usual := statistics.median(others)) <= QUIET:
        return None
    how = "the choice went by it" if goes_by_cpu_time(tried) else "the choice may be wrong"
    return (
        f"Other processes used {usual:.1f} cores while it was measured: only the CPU time a frame is right, "
        f"and {how}; run it again on a quiet machine."
    )


def machine() -> dict[str, Any]:
    """What it ran on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": cores.usable(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 2),
    }


def versions() -> Mapping[str, str]:
    """Of what computes."""
    told = {"edge-infer": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            told[package] = version(package)
        except PackageNotFoundError:
            continue
    return told


def _judged(one: Judged) -> dict[str, Any]:
    variant = one.variant
    return {
        "backend": variant.backend,
        "device": variant.device,
        "precision": variant.precision,
        "method": variant.method,
        "network_sha256": variant.card.sha256,
        "agreement": None if one.agreement is None else one.agreement.as_json(),
        "rejected": one.rejected,
    }


def _speed(speed: Speed) -> dict[str, float | None]:
    return {
        "fps": round(speed.fps, 2),
        "p50_ms": round(speed.p50_ms, 2),
        "p95_ms": round(speed.p95_ms, 2),
        "cpu_ms": round(speed.cpu_ms, 2),
        "joules": None if speed.joules is None else round(speed.joules, 4),
        "others_cores": round(speed.others, 2),
    }


def _between(windows: list[Speed]) -> list[float] | None:
    rates = [one.fps for one in windows]
    return [round(min(rates), 2), round(max(rates), 2)] if rates else None


def _cpu() -> str:
    processor = cpu.look()
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp")
    fast = [flag for flag in known if flag in (processor.flags or ())]
    name = processor.machine if processor.model == "unknown" else processor.model
    return f"{name} ({' '.join(fast) or 'no known extensions'})"
