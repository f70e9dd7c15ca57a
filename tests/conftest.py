"""What every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mosquitto import mosquitto

__all__ = ["mosquitto"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real networks, videos and photos that lie beside the checkout; not part of the project."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.fail(f"the test assets are missing: {folder} (real networks, videos, photos)")
    return folder
