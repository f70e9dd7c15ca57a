"""One machine for all tests of the running service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.systemd import Machine


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """With the service installed, not configured."""
    with Machine() as machine:
        machine.run("systemd-sysusers --inline 'g render -' 'g video -'")
        machine.run("mkdir -p /etc/edge-infer")
        yield machine
