"""RF-DETR: dets and labels, told apart by name; with three classes they have the same shape."""

from __future__ import annotations

from edge_infer.decoders.detr import Queries


class RfDetr(Queries):
    """Sigmoid; the last column of ``labels`` is background."""
