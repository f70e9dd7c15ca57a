"""Calibration frames as the network gets them in use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_infer.backends.common import network_picture
from edge_infer.errors import ModelError
from edge_infer.geometry import tiles
from edge_infer.model.card import ModelCard
from edge_infer.model.extra_inputs import is_known, value_of
from edge_infer.model.network_file import read_network
from edge_infer.preprocess import Preprocess
from edge_infer.tensor import Canvas, Tensor
from edge_infer.tune.frames import Place, pictures

MOST_BYTES = 1_000_000_000
"""Of tensors on the disk; a large network is calibrated with fewer frames."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a quantiser is given."""

    picture: str
    """The network's input that the tensors are for."""
    tensors: Path
    """An .npy file, (frames, batch, ...)."""
    frames: int
    others: Mapping[str, Tensor]
    """What every other input gets."""


def write_tensors(card: ModelCard, places: Sequence[Place], path: Path) -> Calibration:
    """Make the network's own input of each frame, as a station's preprocessing does. OSError where full."""
    inputs = read_network(card.network).inputs
    asked = next((spec for spec in inputs if spec.name == card.input.name), None)
    others = [spec for spec in inputs if spec is not asked]
    if asked is None or not all(is_known(spec) for spec in others):
        raise ModelError(f"{card.network}: nobody knows what to feed to its inputs")
    spec = network_picture(card, asked)
    preprocess = Preprocess(card.input, spec)
    each = preprocess.new().tensor
    most = max(1, MOST_BYTES // each.nbytes)
    chosen = places if len(places) <= most else [places[i * len(places) // most] for i in range(most)]
    tensors = np.lib.format.open_memmap(path, "w+", each.dtype, (len(chosen), *each.shape))
    with path.open("r+b") as file:
        # a page of a mapped file for which there is no room ends the process (SIGBUS)
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    for number, pixels in enumerate(pictures(chosen)):
        region = None
        if card.input.tiles is not None:
            # one part of each picture, each time another one
            whole = (0, 0, pixels.shape[1], pixels.shape[0])
            parts = tiles(whole, card.input.tiles.size, card.input.tiles.overlap)
            region = parts[number % len(parts)]
        preprocess(pixels, region, Canvas(tensors[number]))
    tensors.flush()
    return Calibration(
        spec.name, path, len(chosen), {one.name: value_of(one, spec.height, spec.width) for one in others}
    )
