"""``edge-infer model ...``: what a model is."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_infer.backends import BACKENDS
from edge_infer.commands.terminal import forgive_encoding
from edge_infer.errors import EdgeInferError
from edge_infer.registry import resolve

if TYPE_CHECKING:
    from edge_infer.model.card import ModelCard
    from edge_infer.model.network_file import NetworkFile
    from edge_infer.tensor import TensorSpec

_KEYS = (
    "name", "version", "task", "decoder", "labels", "background", "anchors",
    "input.size", "input.resize", "input.interpolation", "input.align", "input.crop", "input.graph_crop",
    "input.tiles", "input.pad_value", "input.color", "input.layout", "input.scale", "input.mean", "input.std",
    "score_threshold", "nms_iou", "max_detections", "license",
)  # fmt: skip
"""Keys of model.yaml, in its order."""


@click.group()
def model() -> None:
    """Look into a model: a folder with model.yaml, or an .onnx or .xml file."""


@model.command()
@click.argument("path", metavar="MODEL", type=click.Path(path_type=Path, readable=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--verify", is_flag=True, help="Also load it on every backend, run one grey picture and the golden ones."
)
def inspect(path: Path, *, as_json: bool, verify: bool) -> int:
    """Say for every value of MODEL what it is and where it comes from: card, network, default or guess."""
    from edge_infer.model.load import load_model
    from edge_infer.model.network_file import read_network

    forgive_encoding()
    card = load_model(path)
    network = read_network(card.network)
    checks = [_verify(card, name) for name in sorted(BACKENDS)] if verify else []
    npu = _npu(card)
    if as_json:
        click.echo(json.dumps(_as_json(card, network, npu, checks), allow_nan=False))
    else:
        _print_text(card, network, npu, checks)
    return 0 if all(check["ok"] for check in checks) else 1


@model.command()
@click.argument("path", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...", type=click.Path(path_type=Path))
def golden(path: Path, images: tuple[Path, ...]) -> int:
    """Keep each IMAGE and what the reference finds in it beside MODEL, a folder with model.yaml.

    From then on a station judges only after its device gave the same. The reference is ONNX Runtime on the
    CPU.
    """
    from edge_infer.golden import write

    forgive_encoding()
    reference, written = write(path, images)
    click.echo(f"reference: {reference.version} on {reference.device}, {reference.precision}")
    if reference.backend != "onnxruntime":
        click.echo("the network is no ONNX file: OpenVINO itself is the reference", err=True)
    for one in written:
        click.echo(f"{click.format_filename(one.expect)}: {one.found} found")
        if not one.found:
            image = click.format_filename(one.image)
            click.echo(f"{image}: nothing is found in it, so it tells little; add one with objects", err=True)
    return 0


def _verify(card: ModelCard, backend: str) -> dict[str, Any]:
    """Load the network and run it once on a backend's CPU, then on the golden pictures."""
    import numpy as np

    from edge_infer.golden import verify
    from edge_infer.network import Network

    if backend == "onnxruntime" and card.network.suffix.lower() != ".onnx":
        return {"backend": backend, "device": "CPU", "ok": True, "skipped": "it runs .onnx files only"}
    start = time.perf_counter()
    try:
        network = Network.open(card, resolve(BACKENDS, backend)(type=backend))
        try:
            loaded = time.perf_counter()
            inference = network.infer(np.full((*card.input.size, 3), 114, np.uint8))
            report = verify(network) if card.golden else None
        finally:
            network.close()
    except EdgeInferError as error:
        return {"backend": backend, "device": "CPU", "ok": False, "error": str(error)}
    answer: dict[str, Any] = {
        "backend": backend,
        "runtime": network.runtime,
        "device": network.device.running,
        "precision": network.precision,
        "ok": inference.findings.undefined is None,
        "load_ms": round((loaded - start) * 1000, 1),
        "infer_ms": round(inference.infer_ms, 1),
    }
    if inference.findings.undefined:
        answer["error"] = "no row of its answer is a finite number"
    if report is not None:
        answer["golden"] = {
            "pictures": report.pictures,
            "lowest_iou": report.lowest_iou,
            "largest_score_difference": report.largest_score_difference,
            "tolerance": {"iou": report.tolerance.iou, "score": report.tolerance.score},
            "problems": list(report.problems),
            "said": str(report),
        }
        if report.problems:
            answer |= {"ok": False, "error": str(report)}
    return answer


def _values(card: ModelCard) -> Iterator[tuple[str, Any, str]]:
    """Key, value and origin."""
    from edge_infer.model.card import Tiles

    for key in _KEYS:
        part, _, name = key.rpartition(".")
        value = getattr(card.input if part else card, name)
        value = asdict(value) if isinstance(value, Tiles) else value
        yield key, list(value) if isinstance(value, tuple) else value, card.origins.get(key, "default")
    yield from _task_values(card)


def _task_values(card: ModelCard) -> Iterator[tuple[str, Any, str]]:
    """What only the card's task has."""
    if card.task == "anomaly":
        value = "the network normalises its score itself" if card.anomaly is None else asdict(card.anomaly)
        origin = card.origins.get("anomaly", "default")
        yield "anomaly", value, "network" if card.anomaly is None else origin
    if card.keypoints is not None:
        points, numbers = card.keypoints
        yield "keypoints", f"{points}, {'with' if numbers > 2 else 'without'} visibility", "network"
    if card.task in ("classify", "semantic"):
        said = {True: "logits", False: "probabilities", None: "told by their values"}[card.logits]
        yield "scores", said, "guess" if card.logits is None else "network"


def _tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    return [{"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype} for spec in specs]


def _npu(card: ModelCard) -> dict[str, Any]:
    """Whether the network could run on an NPU; nothing is compiled, and none need be here."""
    from edge_infer.backends.openvino import npu_obstacles

    try:
        why_not = list(npu_obstacles(card))
    except EdgeInferError as error:
        why_not = [str(error)]
    return {"possible": not why_not, "why_not": why_not}


def _as_json(
    card: ModelCard, network: NetworkFile, npu: dict[str, Any], checks: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "network": str(card.network),
        "sha256": card.sha256,
        "written_for": network.written_for,
        "inputs": _tensors(network.inputs),
        "outputs": _tensors(network.outputs),
        "values": {key: {"value": value, "from": origin} for key, value, origin in _values(card)},
        "warnings": list(card.warnings),
        "npu": npu,
    }
    if checks:
        answer["backends"] = list(checks)
    return answer


def _print_text(
    card: ModelCard, network: NetworkFile, npu: dict[str, Any], checks: Sequence[dict[str, Any]]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # wide enough for a line a value where a script reads
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 200)
    console.print(Text(f"{card.network} ({network.written_for}, sha256 {card.sha256[:12]}...)"))
    for title, specs in (("input", network.inputs), ("output", network.outputs)):
        for spec in specs:
            sides = " x ".join("?" if side is None else str(side) for side in spec.shape) or "scalar"
            console.print(Text(f"  {title} {spec.name}: {spec.dtype} {sides}"))
    table = Table(box=None, pad_edge=False)
    for column in ("key", "value", "from"):
        table.add_column(column, overflow="fold")
    for key, value, origin in _values(card):
        table.add_row(key, Text(_shown(value)), origin)
    console.print(table)
    for warning in card.warnings:
        console.print(Text(f"guess: {warning}"))
    could = "it could run on one (fixed sizes, batch of 1, no NMS inside)"
    console.print(Text(f"NPU: {could if npu['possible'] else 'no: ' + '; '.join(npu['why_not'])}"))
    for check in checks:
        console.print(Text(_check_line(check)))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        many = len(value) > 8
        return (
            ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in value[:8])
            + (f", ... ({len(value)})" if many else "")
            or "-"
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_line(check: dict[str, Any]) -> str:
    where = f"{check['backend']} {check['device']}"
    if not check["ok"]:
        return f"{where}: fails: {check['error']}"
    if "skipped" in check:
        return f"{where}: not tried, {check['skipped']}"
    times = f"loads in {check['load_ms']:.0f} ms, one picture takes {check['infer_ms']:.1f} ms"
    golden = f"; {check['golden']['said']}" if "golden" in check else ""
    return f"{where} {check['precision']} ({check['runtime']}): {times}{golden}"
