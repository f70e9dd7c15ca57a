"""One network as a station uses it: a frame goes in, findings in the frame's pixels come out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edge_infer.backends import Backend, BackendSettings
from edge_infer.backends.blobs import Blobs
from edge_infer.decoders import DECODERS, TASK_DECODERS, Decoder, decoder_name
from edge_infer.decoders.seams import merge
from edge_infer.errors import BackendError, ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import PixelBox, tiles
from edge_infer.model.card import ModelCard, Tiles
from edge_infer.model.extra_inputs import is_known, value_of
from edge_infer.preprocess import Preprocess
from edge_infer.registry import resolve
from edge_infer.result import Device, ModelIdentity
from edge_infer.tensor import PictureSpec, TensorSpec
from edge_infer.view import View

MOST_TILES = 256
"""More would be a mistake in the card: one picture would take minutes."""


@dataclass(frozen=True, slots=True)
class Inference:
    """What one frame gave, and how long each step took."""

    findings: Findings
    preprocess_ms: float
    infer_ms: float
    postprocess_ms: float
    seen: PixelBox | None = None
    """The part of the frame that the network looked at; None: all of it."""


class Network:
    """Preprocessing, one backend and one decoder. ``requests`` threads may be inside ``infer`` at once."""

    def __init__(self, card: ModelCard, backend_name: str, backend: Backend) -> None:
        """Made by ``open``; ModelError where the network is not what the card says."""
        picture = _picture(card, backend)
        self.card = card
        self.backend_name = backend_name
        self.device = Device(requested=backend.requested, running=backend.running)
        self.identity = ModelIdentity(name=card.name, version=card.version, sha256=card.sha256)
        self.requests = backend.requests
        self.profile = backend.profile
        self.precision = backend.precision
        self.runtime = backend.version
        self._backend = backend
        self._others = {
            spec.name: value_of(spec, picture.height, picture.width)
            for spec in backend.inputs
            if spec is not picture
        }
        self._preprocess = Preprocess(card.input, picture)
        decoder: Callable[[ModelCard, tuple[TensorSpec, ...]], Decoder] = resolve(
            TASK_DECODERS | DECODERS, decoder_name(card)
        )
        self._decoder = decoder(card, backend.outputs)

    @classmethod
    def open(cls, card: ModelCard, backend: BackendSettings, blobs: Blobs | None = None) -> Network:
        """Load and compile. ModelError: the file cannot be used; BackendError: the device is not there."""
        opened = backend.open(card, blobs)
        try:
            return cls(card, backend.type, opened)
        except BaseException:
            opened.close()
            raise

    def infer(self, pixels: NDArray[np.uint8], region: tuple[int, int, int, int] | None = None) -> Inference:
        """``pixels`` BGR (H, W, 3), never written to; only ``region`` (x1, y1, x2, y2) is looked at.

        BackendError where the runtime fails.
        """
        tiled = self.card.input.tiles
        if tiled is not None:
            return self._infer_tiles(pixels, region or (0, 0, pixels.shape[1], pixels.shape[0]), tiled)
        return self._infer(pixels, region)

    def look(self, pixels: NDArray[np.uint8], view: View) -> Inference:
        """``infer`` on a view of a frame; the findings are in the frame's pixels."""
        height, width = pixels.shape[:2]
        if view.plain:
            return self.infer(pixels, None if view.region == (0, 0, width, height) else view.region)
        start = time.perf_counter()
        picture = view.picture(pixels)
        made = time.perf_counter()
        inference = self.infer(picture)
        end = time.perf_counter()
        findings, seen = view.to_frame(inference.findings), view.seen(inference.seen)
        told = time.perf_counter()
        return replace(
            inference,
            findings=findings,
            seen=seen,
            preprocess_ms=inference.preprocess_ms + (made - start) * 1000,
            postprocess_ms=inference.postprocess_ms + (told - end) * 1000,
        )

    def _infer_tiles(self, pixels: NDArray[np.uint8], whole: PixelBox, tiled: Tiles) -> Inference:
        parts = tiles(whole, tiled.size, tiled.overlap)
        if len(parts) > MOST_TILES:
            raise ModelError(
                f"{self.card.network}: {len(parts)} tiles of {tiled.size[0]}x{tiled.size[1]} pixels for one "
                f"picture, at most {MOST_TILES} are looked at",
                hint="make input.tiles larger or the station's region smaller",
            )
        each = [self._infer(pixels, part) for part in parts]
        start = time.perf_counter()
        found = merge(
            [one.findings for one in each], parts, whole, self.card.nms_iou, self.card.max_detections
        )
        merged_ms = (time.perf_counter() - start) * 1000
        return Inference(
            found,
            sum(one.preprocess_ms for one in each),
            sum(one.infer_ms for one in each),
            sum(one.postprocess_ms for one in each) + merged_ms,
            whole,
        )

    def _infer(self, pixels: NDArray[np.uint8], region: PixelBox | None) -> Inference:
        with self._backend.request() as request:
            start = time.perf_counter()
            transform = self._preprocess(pixels, region, request.picture)
            prepared = time.perf_counter()
            outputs = request.infer(self._others)
            answered = time.perf_counter()
            # before the request is free again: the next frame overwrites the outputs
            findings = self._decoder.decode(outputs, transform)
            end = time.perf_counter()
        return Inference(
            findings,
            (prepared - start) * 1000,
            (answered - prepared) * 1000,
            (end - answered) * 1000,
            transform.seen,
        )

    def close(self) -> None:
        """Safe to call twice."""
        self._backend.close()


def _picture(card: ModelCard, backend: Backend) -> PictureSpec:
    """The input that takes the picture; every other one is a question nobody answered."""
    pictures = [spec for spec in backend.inputs if isinstance(spec, PictureSpec)]
    others = [spec.name for spec in backend.inputs if not (isinstance(spec, PictureSpec) or is_known(spec))]
    if others:
        raise ModelError(
            f"{card.network}: nobody knows what to feed to the network's inputs {', '.join(others)}",
            hint="export it with the picture as its only input",
        )
    if not pictures:
        raise BackendError(f"{card.network}: the backend offers no input for the picture")
    return pictures[0]
