"""MODEL -> the completed card: what model.yaml says, else the network file, else a stated default."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from edge_infer.errors import ConfigError, EdgeInferError, Mistake
from edge_infer.model.anomalib import read_anomalib
from edge_infer.model.card import ModelCard
from edge_infer.model.card_file import CardFile
from edge_infer.model.complete import Completion
from edge_infer.model.labels import read_labels
from edge_infer.model.model_api import read_model_info
from edge_infer.model.network_file import NetworkFile, read_network
from edge_infer.model.told import Told
from edge_infer.model.ultralytics import read_ultralytics
from edge_infer.yamlfile import Document, load

CARD = "model.yaml"
_NETWORKS = (".onnx", ".xml")
_CARDS = (".yaml", ".yml")


def load_model(path: Path) -> ModelCard:
    """A folder with model.yaml, that file itself, or a bare .onnx or .xml.

    ConfigError: model.yaml is missing or wrong (all its mistakes). ModelError: the network file cannot be
    used, or without a card nobody can know how.
    """
    if path.suffix.lower() in _CARDS:
        return _from_card(path)
    if path.is_dir() or not (path.is_file() or path.suffix.lower() in _NETWORKS):
        card = path / CARD
        if not card.is_file():
            what = "there is no such file" if path.is_dir() else "there is no such folder"
            advice = "write one (docs/models.md), or name an .onnx or .xml file"
            raise ConfigError([Mistake(str(card if path.is_dir() else path), 0, 0, "", f"{what}; {advice}")])
        return _from_card(card)
    network = read_network(path.absolute())
    written = CardFile(format=1, name=path.stem[:200], network=network.path)
    completed = Completion(written, None, network, _told(network), labels=None).card()
    if (path.parent / CARD).is_file():
        ignored = f"{path.parent / CARD} is not read when the network itself is named; name the folder"
        return replace(completed, warnings=(*completed.warnings, ignored))
    return completed


def _from_card(path: Path) -> ModelCard:
    document = load(path)
    written = document.validate(CardFile)
    labels = _files(document, written)
    network = read_network(written.network.absolute())
    completed = Completion(written, document, network, _told(network), labels).card()
    return replace(completed, card_sha256=document.sha256)


def _files(document: Document, written: CardFile) -> tuple[str, ...] | None:
    """The labels of ``labels_file``; ConfigError names every file that is not there."""
    mistakes = []
    labels = None
    # a folder and anything else that is there is named for what it is by who reads it
    if not written.network.exists():
        mistakes.append(document.mistake(("network",), f"there is no file {written.network}"))
    if written.labels_file is not None:
        try:
            labels = read_labels(written.labels_file)
        except EdgeInferError as error:
            mistakes.append(document.mistake(("labels_file",), str(error)))
    for i, golden in enumerate(written.golden):
        for key, file in (("image", golden.image), ("expect", golden.expect)):
            if not file.is_file():
                mistakes.append(document.mistake(("golden", i, key), f"there is no file {file}"))
    if mistakes:
        raise ConfigError(mistakes)
    return labels


def _told(network: NetworkFile) -> Told:
    """What the network file says; an exporter's own words before those it writes for Model API."""
    told = read_model_info(network.path, network.model_info) or Told()
    for own in (
        read_anomalib(network.path, network.outputs),
        read_ultralytics(network.path, network.exporter),
    ):
        if own is not None:
            told = _first_of(own, told)
    return told


def _first_of(own: Told, other: Told) -> Told:
    """What ``own`` says before what ``other`` says."""
    return Told(
        **{
            field.name: value
            if (value := getattr(own, field.name)) not in (None, "")
            else getattr(other, field.name)
            for field in fields(Told)
        }
    )
