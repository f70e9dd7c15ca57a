"""Where a site's state lies, as far as its file tells, right or wrong. Loads nothing heavy."""

from __future__ import annotations

from pathlib import Path

from edge_infer.errors import ConfigError
from edge_infer.yamlfile import load, tree


def state_dir_of(path: Path) -> Path | None:
    """None where the file does not say, or cannot be read."""
    try:
        node = tree.find(load(path).root, ("state_dir",))
    except ConfigError:
        return None
    return path.parent / node.written if isinstance(node, tree.Scalar) and node.written else None
