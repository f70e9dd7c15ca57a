"""One machine for all tests of the running service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.systemd import Machine, product
from tests.support.systemd.service import Service


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """With the service installed, not configured."""
    package = product.package()
    if package is None:
        with Machine(*product.in_its_place(tmp_path_factory.mktemp("product"))) as machine:
            product.put_unit(machine)
            yield machine
    else:
        with Machine() as machine:
            product.install(machine, package)
            yield machine


@pytest.fixture
def service(machine: Machine, tmp_path: Path) -> Iterator[Service]:
    """Not started."""
    service = Service(machine, tmp_path)
    yield service
    service.close()
