"""``edge-infer infer MODEL IMAGE...``: one network over a few pictures."""

from __future__ import annotations

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
    from edge_infer.findings import Findings
    from edge_infer.network import Network
    from edge_infer.picture import Picture


@click.command()
@click.argument("model", type=click.Path(path_type=Path, readable=False))
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
    help="Draw what was found into copies of the pictures; write masks and maps beside them.",
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
    saver = _Saver(save, images) if save else None
    failed = False
    try:
        for image in _with_progress(images):
            answer, picture, findings = _one(network, image)
            failed |= "error" in answer
            if saver and picture is not None and findings is not None:
                saver.save(image, picture, findings, answer)
            if as_json:
                _print_json(answer)
            else:
                _print_text(answer)
    finally:
        network.close()
    return 1 if failed else 0


def choose_backend(network: Path, name: str | None, device: str) -> BackendSettings:
    """The settings of the backend by name; without one, of one that can run the file."""
    if not device:
        raise click.UsageError("--device is empty; name a device of the backend, like CPU")
    name = name or ("openvino" if network.suffix.lower() == ".xml" else "onnxruntime")
    settings: BackendSettings = resolve(BACKENDS, name)(type=name, device=device)
    return settings


def _one(network: Network, image: str) -> tuple[dict[str, Any], Picture | None, Findings | None]:
    """The JSON object of one image; a picture that cannot be judged is an answer too."""
    from edge_infer.picture import read
    from edge_infer.picture_answer import picture_answer

    try:
        picture = read(Path(image))
        inference = network.infer(picture.pixels)
    except EdgeInferError as error:
        return {"image": image, "error": str(error)}, None, None
    findings = inference.findings
    found = findings if findings.undefined is None else None
    height, width = picture.pixels.shape[:2]
    timing_ms = {
        "preprocess": inference.preprocess_ms,
        "infer": inference.infer_ms,
        "postprocess": inference.postprocess_ms,
    }
    answer = picture_answer(
        network, image, (width, height), findings, warnings=picture.warnings, timing_ms=timing_ms
    )
    return answer, picture, found


def _print_json(answer: dict[str, Any]) -> None:
    from edge_infer.picture_answer import json_line

    # JSON is UTF-8 whatever the terminal's encoding is
    sys.stdout.buffer.write(json_line(answer))
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
    if "anomaly" in answer:
        anomaly = answer["anomaly"]
        what = "not normal" if anomaly["is_anomalous"] else "normal"
        where = f" at {_box(anomaly['hot_box'])}" if anomaly.get("hot_box") else ""
        click.echo(f"{image}: {size}, {what}: {anomaly['score']:.3f} of {anomaly['threshold']:g}{where}")
        return
    classes, detections = answer.get("classes", []), answer.get("detections", [])
    click.echo(f"{image}: {size}, " + (classes[0]["label"] if classes else f"{len(detections)} found"))
    for found in (*classes, *detections):
        where = f" at {_box(found['box'])}" if "box" in found else ""
        click.echo(f"  {found['label']} {found['score']:.3f}{where}")


def _box(sides: Sequence[float]) -> str:
    return " ".join(f"{side:.0f}" for side in sides)


class _Saver:
    """Writes what was found into a folder: never over a picture that was given, never two to one place."""

    def __init__(self, folder: Path, images: Sequence[str]) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EdgeInferError(f"cannot make the folder {folder}: {error.strerror}") from error
        self._folder = folder
        self._taken = {Path(image).resolve() for image in images}

    def save(self, image: str, picture: Picture, findings: Findings, answer: dict[str, Any]) -> None:
        """Draw a copy; masks and map go beside it and their paths into the answer."""
        from edge_infer.drawing import draw, map_of, mask_of
        from edge_infer.findings import Detections
        from edge_infer.picture import write_atomically

        stem = Path(image).stem
        found = findings.detections or Detections.none()
        drawn = draw(picture.pixels, found, classes=findings.classes or (), anomaly=findings.anomaly)
        write_atomically(self._free(stem, "found"), drawn)
        height, width = picture.pixels.shape[:2]
        for number, detection in enumerate(found):
            if detection.mask is not None:
                path = self._free(stem, f"mask{number}")
                write_atomically(path, mask_of(detection.mask, width, height))
                answer["detections"][number]["mask"] = str(path)
        if findings.anomaly is not None and findings.anomaly.heat_map is not None:
            path = self._free(stem, "map")
            write_atomically(path, map_of(findings.anomaly.heat_map, width, height))
            answer["anomaly"]["map"] = str(path)

    def _free(self, stem: str, what: str) -> Path:
        path, number = self._folder / f"{stem}.{what}.png", 1
        while path.resolve() in self._taken:
            number += 1
            path = self._folder / f"{stem}-{number}.{what}.png"
        self._taken.add(path.resolve())
        return path


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
