"""One station's way: which frames it inspects, what it decides, what it hands on."""

from edge_infer.station.settings import StationSettings

__all__ = ["StationSettings"]
