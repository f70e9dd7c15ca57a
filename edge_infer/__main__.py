"""``python -m edge_infer``: the same as ``edge-infer``."""

from edge_infer.cli import entry

entry()
