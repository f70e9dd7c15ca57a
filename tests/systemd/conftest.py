"""One machine for all tests of the running service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.systemd import Machine, product
from tests.support.systemd.service import Service


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """With the service installed, not configured."""
    with Machine() as machine:
        product.install(machine, product.package())
        product.of_this_checkout(machine)
        yield machine


@pytest.fixture
def service(machine: Machine, tmp_path: Path) -> Iterator[Service]:
    """Not started."""
    service = Service(machine, tmp_path)
    yield service
    service.close()
