"""The tuned model's folder: its network, its card, its golden pictures, its licence."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from edge_infer.backends import BackendSettings
from edge_infer.errors import EdgeInferError, ModelError
from edge_infer.golden import verify, write
from edge_infer.model.card import ModelCard
from edge_infer.model.load import CARD, load_model
from edge_infer.model.network_file import read_network
from edge_infer.network import Network
from edge_infer.yamlfile.append import append

_LICENCES = ("LICEN", "COPYING", "NOTICE")
_BESIDE = ("metadata.yaml", "metadata.json")
"""Ultralytics' and anomalib's words, which a network is read with."""
_NOT_COMPARED = frozenset(("network", "sha256", "card_sha256", "version", "golden", "origins", "warnings"))
_INPUT = ("size", "resize", "interpolation", "align", "crop", "graph_crop", "tiles", "pad_value", "color",
          "layout", "scale", "mean", "std")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Golden:
    """What became of the model's golden pictures."""

    kept: int
    said: str
    """A sentence."""


def write_model(folder: Path, card: ModelCard, network: Path, *, quantised: bool) -> None:
    """Network, model.yaml and licences into an empty folder; ModelError where it would be read otherwise.

    ``network``: the chosen file, of ``card`` itself or quantised from it.
    """
    name = f"model{network.suffix.lower()}" if quantised else network.name
    _copy_network(network, folder / name)
    for licence in sorted(card.network.parent.iterdir()):
        if licence.is_file() and licence.name.upper().startswith(_LICENCES):
            shutil.copyfile(licence, folder / licence.name)
    for name_beside in _BESIDE:
        if (exporter := card.network.with_name(name_beside)).is_file():
            shutil.copyfile(exporter, folder / name_beside)
    told = values(card) | {"network": name}
    if quantised:
        told["version"] = f"{card.version}-int8" if card.version else "int8"
    (folder / CARD).write_text(
        "# Written by `edge-infer tune`, see tune-report.md.\n"
        + yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None),
        encoding="utf-8",
    )
    made = load_model(folder)
    other = [
        field.name
        for field in fields(ModelCard)
        if field.name not in _NOT_COMPARED and getattr(made, field.name) != getattr(card, field.name)
    ]
    if other:
        raise ModelError(
            f"{card.network}: the tuned card would be read otherwise in {', '.join(other)}",
            hint="say these in the original's model.yaml",
        )


def values(card: ModelCard) -> dict[str, Any]:
    """What model.yaml says, with nothing left open, in its order."""
    told: dict[str, Any] = {"format": 1, "name": card.name, "version": card.version, "network": ""}
    told |= {"task": card.task}
    if card.task != "anomaly":
        told |= {"decoder": card.decoder, "labels": list(card.labels), "background": card.background}
    told["anchors"] = [list(stride) for stride in card.anchors] or None
    picture = {key: getattr(card.input, key) for key in _INPUT}
    if card.input.tiles is not None:
        picture["tiles"] = asdict(card.input.tiles)
    told["input"] = {key: _plain(value) for key, value in picture.items() if value is not None}
    if card.task != "anomaly":
        told |= {
            "score_threshold": card.score_threshold,
            "nms_iou": card.nms_iou,
            "max_detections": card.max_detections,
        }
    if card.anomaly is not None and card.origins.get("anomaly") != "network":
        told["anomaly"] = {key: getattr(card.anomaly, key) for key in ("threshold", "min", "max")}
    told["license"] = card.license
    return {key: value for key, value in told.items() if value is not None}


def keep_golden(folder: Path, card: ModelCard, settings: BackendSettings, *, quantised: bool) -> Golden:
    """The model's golden pictures into its tuned folder, made anew where the network is another one.

    They are left out, with the reason, where they do not pass with ``settings``.
    """
    if not card.golden:
        return Golden(0, "the original has none")
    before = (folder / CARD).read_bytes()
    try:
        if quantised:
            write(folder, [golden.image for golden in card.golden])
        else:
            _copy_golden(folder, card)
        network = Network.open(load_model(folder), settings)
        try:
            report = verify(network)
        finally:
            network.close()
        why = "; ".join(report.problems[:2])
    except EdgeInferError as error:
        why = str(error)
    count = len(card.golden)
    if why:
        shutil.rmtree(folder / "golden", ignore_errors=True)
        (folder / CARD).write_bytes(before)
        return Golden(0, f"{count} of the original left out: with the tuned setting they do not pass: {why}")
    how = "made anew with the tuned network" if quantised else "taken over as they are"
    return Golden(count, f"{count} {how}; they pass with the tuned setting")


def _copy_golden(folder: Path, card: ModelCard) -> None:
    entries: list[dict[str, str]] = []
    place = folder / "golden"
    place.mkdir()
    for number, golden in enumerate(card.golden, 1):
        image = place / f"{number}-{golden.image.name}"
        expect = image.with_suffix(".json")
        shutil.copyfile(golden.image, image)
        shutil.copyfile(golden.expect, expect)
        entries.append({"image": f"golden/{image.name}", "expect": f"golden/{expect.name}"})
    path = folder / CARD
    path.write_text(append(path.read_text(encoding="utf-8"), "golden", entries), encoding="utf-8")


def _copy_network(network: Path, target: Path) -> None:
    """With the files that hold its weights, under the names that it gives them."""
    shutil.copyfile(network, target)
    for weights in read_network(network.absolute()).weights:
        if network.suffix.lower() == ".xml":
            shutil.copyfile(weights, target.with_suffix(".bin"))
            continue
        beside = target.parent / weights.relative_to(network.parent.resolve())
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(weights, beside)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
