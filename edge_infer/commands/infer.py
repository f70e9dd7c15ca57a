"""``edge-infer infer MODEL IMAGE...``: one network over a few pictures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_infer.backends import BACKENDS, BackendSettings
from edge_infer.commands.terminal import forgive_encoding
from edge_infer.errors import EdgeInferError
from edge_infer.registry import resolve

if TYPE_CHECKING:
    from edge_infer.findings import Detections
    from edge_infer.network import Inference, Network
    from edge_infer.picture import Picture


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@click.option(
    "--backend", type=click.Choice(sorted(BACKENDS)), help="Default: onnxruntime; openvino for .xml."
)
@click.option("--device", default="CPU", show_default=True, help="A device name of the backend.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an image, in the order given.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Draw what was found into copies of the pictures.",
)
def infer(
    *,
    model: Path,
    images: tuple[str, ...],
    backend: str | None,
    device: str,
    as_json: bool,
    save: Path | None,
) -> int:
    """Say what MODEL finds in each IMAGE. MODEL is a folder with model.yaml, or an .onnx or .xml file."""
    # heavy parts are loaded when there is something to do, not for `edge-infer --help`
    from edge_infer.model.load import load_model
    from edge_infer.network import Network

    forgive_encoding()
    card = load_model(model)
    network = Network.open(card, choose_backend(card.network, backend, device))
    names = _names(images, save) if save else None
    failed = False
    try:
        for index, image in enumerate(_with_progress(images)):
            answer, picture, found = _one(network, image)
            failed |= "error" in answer
            if names and picture is not None and found is not None:
                _draw(names[index], picture, found)
            if as_json:
                _print_json(answer)
            else:
                _print_text(answer)
    finally:
        network.close()
    return 1 if failed else 0


def choose_backend(network: Path, name: str | None, device: str) -> BackendSettings:
    """The settings of the backend by name; without one, of one that can run the file."""
    name = name or ("openvino" if network.suffix.lower() == ".xml" else "onnxruntime")
    settings: BackendSettings = resolve(BACKENDS, name)(type=name, device=device)
    return settings


def _one(network: Network, image: str) -> tuple[dict[str, Any], Picture | None, Detections | None]:
    """The JSON object of one image; a picture that cannot be judged is an answer too."""
    from edge_infer.picture import read

    try:
        picture = read(Path(image))
        inference = network.infer(picture.pixels)
    except EdgeInferError as error:
        return {"image": image, "error": str(error)}, None, None
    findings = inference.findings
    found = findings.detections if findings.undefined is None else None
    return _answer(network, image, picture, inference), picture, found


def _answer(network: Network, image: str, picture: Picture, inference: Inference) -> dict[str, Any]:
    from edge_infer.answer import as_json

    findings = inference.findings
    height, width = picture.pixels.shape[:2]
    answer: dict[str, Any] = {"image": image, "width": width, "height": height, **as_json(findings)}
    answer["warnings"] = [*picture.warnings, *network.card.warnings, *findings.warnings]
    answer["timing_ms"] = {
        "preprocess": round(inference.preprocess_ms, 3),
        "infer": round(inference.infer_ms, 3),
        "postprocess": round(inference.postprocess_ms, 3),
    }
    identity = network.identity
    answer["model"] = {"name": identity.name, "version": identity.version or "", "sha256": identity.sha256}
    answer["backend"] = network.backend_name
    answer["device"] = {"requested": network.device.requested, "running": network.device.running}
    return answer


def _print_json(answer: dict[str, Any]) -> None:
    try:
        line = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        # a file name that is not UTF-8
        line = json.dumps(answer, allow_nan=False).encode()
    # JSON is UTF-8 whatever the terminal's encoding is
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _print_text(answer: dict[str, Any]) -> None:
    image = click.format_filename(answer["image"])
    if "error" in answer:
        click.echo(f"{image}: {answer['error']}", err=True)
        return
    for warning in answer["warnings"]:
        click.echo(f"{image}: {warning}", err=True)
    size = f"{answer['width']}x{answer['height']}"
    if "undefined" in answer:
        click.echo(f"{image}: {size}, UNDEFINED: {', '.join(answer['undefined'])}")
        return
    detections = answer["detections"]
    click.echo(f"{image}: {size}, {len(detections)} found")
    for found in detections:
        box = " ".join(f"{side:.0f}" for side in found["box"])
        click.echo(f"  {found['label']} {found['score']:.3f} at {box}")


def _names(images: Sequence[str], folder: Path) -> list[Path]:
    """Where each drawn picture goes: never over a picture that was given, never two to one place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EdgeInferError(f"cannot make the folder {folder}: {error.strerror}") from error
    taken = {Path(image).resolve() for image in images}
    names = []
    for image in images:
        stem, number = Path(image).stem, 1
        name = folder / f"{stem}.found.png"
        while name.resolve() in taken:
            number += 1
            name = folder / f"{stem}-{number}.found.png"
        taken.add(name.resolve())
        names.append(name)
    return names


def _draw(path: Path, picture: Picture, found: Detections) -> None:
    from edge_infer.drawing import draw
    from edge_infer.picture import write_atomically

    write_atomically(path, draw(picture.pixels, found))


def _with_progress(images: Sequence[str]) -> Iterator[str]:
    """A bar on standard error, only where a person looks at it and nothing else is printed there."""
    if len(images) == 1 or not sys.stderr.isatty() or sys.stdout.isatty():
        yield from images
        return
    from rich.console import Console
    from rich.progress import Progress

    # rich would send what we print on standard output to its own console
    with Progress(console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False) as progress:
        yield from progress.track(images, description="pictures")
