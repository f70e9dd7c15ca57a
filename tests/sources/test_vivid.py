"""USB cameras as the kernel has them: its own test driver in a guest of its own, see tests/support/vivid."""

from __future__ import annotations

import pytest

from tests.sources import vivid_checks
from tests.support.vivid import Guest, names, run_in_guest

GUEST_S = 150.0


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """One guest for all: it takes twenty seconds until the first camera is there."""
    return run_in_guest(vivid_checks, tmp_path_factory.mktemp("vivid"), GUEST_S)


@pytest.mark.slow
@pytest.mark.parametrize("check", names(vivid_checks))
def test_on_the_kernels_own_driver(guest: Guest, check: str) -> None:
    assert check in guest.checks, f"the guest did not come so far:\n{guest.console[-3000:]}"
    error = guest.checks[check]["error"]
    assert error is None, f"{error}\n{guest.console[-3000:]}"
