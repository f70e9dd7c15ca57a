"""Whether the files that a site names are there: model cards, recordings, certificates. Opens no device."""

from __future__ import annotations

from pathlib import Path

from edge_infer.config.pieces import Pieces
from edge_infer.errors import ConfigError, EdgeInferError, ModelError, SourceError
from edge_infer.lens import load_lens
from edge_infer.model.card import ModelCard
from edge_infer.model.load import load_model
from edge_infer.sources._recording import find
from edge_infer.sources.files import Files
from edge_infer.yamlfile import tree


def read_cards(pieces: Pieces) -> dict[str, ModelCard]:
    """The models that can be read. A wrong card is a mistake, at its own place; a network that cannot be
    used is the model's trouble only."""
    cards: dict[str, ModelCard] = {}
    for name, use in pieces.models.items():
        at: tree.Path = ("models", name, "path")
        try:
            cards[name] = load_model(use.path)
        except ConfigError as error:
            for mistake in error.mistakes:
                if mistake.line:
                    pieces.mistakes.append(mistake)
                else:
                    pieces.wrong(at, f"{mistake.file}: {mistake.message}")
        except ModelError as error:
            pieces.broken_models.append(pieces.document.mistake(at, str(error)))
    return cards


def check_files(pieces: Pieces) -> None:
    """Recordings, calibrations and certificates that are not there."""
    for name, camera in pieces.cameras.items():
        if isinstance(camera, Files):
            _check_pictures(pieces, name, camera)
        ca: Path | None = getattr(camera, "ca", None)
        if ca is not None and not _is_there(ca):
            # only this camera's stations suffer, so the others may start
            pieces.warn(("cameras", name, "ca"), f"there is no file {ca}, or this user may not look for it")
    _check_watched_once(pieces)
    for place, station in pieces.judged():
        at_lens = place.of(("undistort",))
        if station.undistort is not None and at_lens is not None:
            try:
                load_lens(station.undistort)
            except EdgeInferError as error:
                pieces.wrong(at_lens, str(error))
    _check_textfile(pieces)
    if pieces.mqtt is None or pieces.mqtt.tls is None:
        return
    for key in ("ca", "cert", "key"):
        path: Path | None = getattr(pieces.mqtt.tls, key)
        if path is None:
            continue
        at = ("mqtt", "tls", key)
        try:
            if not path.is_file():
                pieces.wrong(at, f"there is no file {path}")
        except PermissionError:
            # the service may be another user than the one who checks
            pieces.warn(at, f"this user may not look for {path}")


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:
        return False


def _check_textfile(pieces: Pieces) -> None:
    file = pieces.metrics.textfile if pieces.metrics is not None else None
    if file is None:
        return
    try:
        if file.parent.is_dir():
            return
    except PermissionError:
        pass
    # it may be the service's own, made when it starts
    text = f"there is no folder {file.parent}, or this user may not look for it"
    pieces.warn(("metrics", "textfile"), text)


def _check_watched_once(pieces: Pieces) -> None:
    watched: dict[Path, str] = {}
    for name, camera in pieces.cameras.items():
        if not isinstance(camera, Files) or not camera.watch:
            continue
        other = watched.setdefault(camera.path.resolve(), name)
        if other != name:
            pieces.wrong(
                ("cameras", name, "path"),
                f"the camera {other} watches this folder already, and each picture would be taken by only "
                "one of them; let all stations that see it name one camera",
            )


def _check_pictures(pieces: Pieces, name: str, camera: Files) -> None:
    at: tree.Path = ("cameras", name, "path")
    if camera.watch:
        if not camera.path.is_dir():
            # it may be mounted later
            pieces.warn(at, f"there is no folder {camera.path} to watch")
        return
    try:
        find(camera.path)
    except SourceError as error:
        pieces.wrong(at, str(error))
