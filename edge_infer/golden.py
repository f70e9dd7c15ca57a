"""Golden pictures: made with the reference, and run on the backend and device that will judge."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_infer.backends import BACKENDS, BackendSettings
from edge_infer.errors import ConfigError, EdgeInferError, Mistake, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.model.card_file import CardFile
from edge_infer.model.golden import EXACT, ROUGH, Comparison, Expectation, Found, Reference, Tolerance
from edge_infer.model.load import CARD, load_model
from edge_infer.network import Network
from edge_infer.picture import Picture, read
from edge_infer.registry import resolve
from edge_infer.wholefile import replacing
from edge_infer.yamlfile import Document
from edge_infer.yamlfile.append import append
from edge_infer.yamlfile.reader import parse

FOLDER = "golden"
"""Under the model's folder."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Report:
    """How a network did on its card's golden pictures."""

    pictures: int
    tolerance: Tolerance
    lowest_iou: float | None
    """None where nothing has a place."""
    largest_score_difference: float
    problems: tuple[str, ...]
    """Sentences; none: passed."""

    def __str__(self) -> str:
        text = (
            f"{self.pictures} golden picture{'s' if self.pictures != 1 else ''}: largest score difference "
            f"{self.largest_score_difference:.2g} (at most {self.tolerance.score:g})"
        )
        if self.lowest_iou is not None:
            text += f", lowest IoU {self.lowest_iou:.4f} (at least {self.tolerance.iou:g})"
        if not self.problems:
            return text
        more = f"; and {len(self.problems) - _SHOWN} more" if len(self.problems) > _SHOWN else ""
        return f"{'; '.join(self.problems[:_SHOWN])}{more} ({text})"


def verify(network: Network) -> Report:
    """Run every golden picture of the network's card; whatever goes wrong with one is a problem."""
    card = network.card
    names = [golden.image.name for golden in card.golden]
    problems: list[str] = []
    read_in: list[tuple[str, Expectation, Picture]] = []
    for golden, name in zip(card.golden, names, strict=True):
        try:
            expected, picture = Expectation.read(golden.expect), read(golden.image)
        except EdgeInferError as error:
            problems.append(f"{name}: {error}")
            continue
        if _sha256(golden.image) != expected.image_sha256:
            problems.append(f"{name}: is not the picture that {golden.expect.name} was made from")
        elif expected.score_threshold != card.score_threshold:
            # what lies between the two would not be compared
            problems.append(
                f"{name}: was made with score_threshold {expected.score_threshold:g}, "
                f"the card says {card.score_threshold:g}; write it again with `edge-infer model golden`"
            )
        else:
            read_in.append((name, expected, picture))
    exact = network.precision == "f32" and all(
        expected.reference.precision == "f32" for _, expected, _ in read_in
    )
    comparison = Comparison(EXACT if exact else ROUGH)
    for name, expected, picture in read_in:
        try:
            comparison.add(name, expected, network.infer(picture.pixels).findings)
        except EdgeInferError as error:
            problems.append(f"{name}: {error}")
    return Report(
        len(card.golden),
        comparison.tolerance,
        comparison.lowest_iou,
        comparison.largest_score_difference,
        (*problems, *comparison.problems),
    )


def require(network: Network) -> None:
    """ModelError where it finds something else in its card's golden pictures than it should."""
    card = network.card
    if card.golden and (report := verify(network)).problems:
        raise ModelError(
            f"{card.network}: its golden pictures do not pass: {report.problems[0]}",
            hint="mend model.yaml, or make them anew with `edge-infer model golden` if it is right",
        )


@dataclass(frozen=True, slots=True)
class Written:
    """One golden picture of a card."""

    image: Path
    expect: Path
    found: int
    """Objects, classes or hot areas: 0 shows only that nothing is found."""


def write(model: Path, images: Sequence[Path]) -> tuple[Reference, list[Written]]:
    """Copy ``images`` into the model's folder, write what the reference finds, and name them in model.yaml.

    All or nothing, the card last: EdgeInferError where one picture cannot be used.
    """
    path = _card_file(model)
    card = load_model(path)
    folder = path.parent / FOLDER
    network = Network.open(card, reference_backend(card))
    try:
        reference = Reference(
            backend=network.backend_name,
            device=network.device.running,
            precision=network.precision,
            version=network.runtime,
            network_sha256=card.sha256,
        )
        made = [_expectation(network, reference, image) for image in images]
    finally:
        network.close()
    taken: dict[Path, str] = {}
    named = {golden.image.resolve(): golden.expect for golden in card.golden}
    written = []
    for image, expected in zip(images, made, strict=True):
        copy = _place(folder, image, expected.image_sha256, taken)
        taken[copy] = expected.image_sha256
        expect = named.get(copy.resolve(), copy.with_suffix(".json"))
        written.append(Written(copy, expect, _count(expected)))
    text = _with_entries(path, card, written)
    try:
        folder.mkdir(exist_ok=True)
        for image, expected, one in zip(images, made, written, strict=True):
            if not one.image.exists():
                _write(one.image, image.read_bytes())
            _write(one.expect, expected.text().encode())
        if text is not None:
            _write(path, text.encode())
    except OSError as error:
        raise ModelError(
            f"cannot write into {path.parent}: {error.strerror}",
            hint="may this user write there, is it full?",
        ) from error
    return reference, written


def reference_backend(card: ModelCard) -> BackendSettings:
    """ONNX Runtime on the CPU; OpenVINO in float32 for the files that only it runs."""
    name = "onnxruntime" if card.network.suffix.lower() == ".onnx" else "openvino"
    settings: BackendSettings = resolve(BACKENDS, name)(type=name)
    return settings


def _card_file(model: Path) -> Path:
    path = model / CARD if model.is_dir() else model
    if path.suffix.lower() in (".onnx", ".xml"):
        advice = (
            "golden pictures stand in a model card; write a model.yaml beside the network and name its folder"
        )
        raise ConfigError([Mistake(str(path), 0, 0, "golden", advice)])
    return path


def _expectation(network: Network, reference: Reference, image: Path) -> Expectation:
    picture = read(image)
    height, width = picture.pixels.shape[:2]
    findings = network.infer(picture.pixels).findings
    if findings.undefined is not None or findings.nan_rows:
        raise ModelError(
            f"{image}: the network's answer holds numbers that are not finite, which nothing can be held to",
            hint="take another picture, or export the network again",
        )
    found = Found.of(findings, width, height)
    return Expectation(
        image_sha256=_sha256(image),
        width=width,
        height=height,
        score_threshold=network.card.score_threshold,
        reference=reference,
        **{key: getattr(found, key) for key in Found.model_fields},
    )


def _count(expected: Expectation) -> int:
    hot = expected.anomaly is not None
    return len(expected.detections or ()) + len(expected.classes or ()) + hot


def _place(folder: Path, image: Path, digest: str, taken: dict[Path, str]) -> Path:
    """Where its copy goes: never over another picture; one that is there already stays where it is."""
    there = {path: "" for path in folder.glob("*") if path.suffix.lower() != ".json"} | taken
    number, copy = 1, folder / image.name
    while any(
        # one expectation a stem: a.png and a.jpg would share a.json
        path.stem == copy.stem and (path != copy or (known or _sha256(path)) != digest)
        for path, known in there.items()
    ):
        number += 1
        copy = folder / f"{image.stem}-{number}{image.suffix}"
    return copy


def _with_entries(path: Path, card: ModelCard, written: Sequence[Written]) -> str | None:
    """The card's new text; None where it names them all. ConfigError where it cannot be continued."""
    known = {golden.image.resolve() for golden in card.golden}
    fresh = {one.image: one for one in written if one.image.resolve() not in known}
    if not fresh:
        return None
    entries = [
        {"image": _relative(one.image, path), "expect": _relative(one.expect, path)} for one in fresh.values()
    ]
    before = path.read_bytes()
    try:
        text = append(before.decode(), "golden", entries)
        old, new = _card(path, before), _card(path, text.encode())
        if new != old.model_copy(update={"golden": new.golden}) or len(new.golden) != len(old.golden) + len(
            entries
        ):
            raise ValueError("it is written in an unusual way")
    except (ValueError, ConfigError) as error:
        lines = ", ".join(f"{{image: {entry['image']}, expect: {entry['expect']}}}" for entry in entries)
        message = f"cannot be continued ({error}); write `golden: [{lines}]` by hand"
        raise ConfigError([Mistake(str(path), 0, 0, "golden", message)]) from error
    return text


def _card(path: Path, data: bytes) -> CardFile:
    root, mistakes = parse(path, data)
    return Document(path, "", root, tuple(mistakes)).validate(CardFile)


def _relative(file: Path, card: Path) -> str:
    return Path(os.path.relpath(file, card.parent)).as_posix()


def _write(path: Path, data: bytes) -> None:
    """Nobody ever sees half of it; readable by whoever could read it before."""
    path = path.resolve()
    with replacing(path) as file:
        file.write(data)
        if path.exists():
            shutil.copymode(path, file.name)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
