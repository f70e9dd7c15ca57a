"""A broker made by deploy/broker/make-broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.site_broker import SiteBroker, site_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteBroker]:
    with site_broker(tmp_path_factory.mktemp("broker") / "b") as running:
        yield running
