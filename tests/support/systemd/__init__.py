"""The service in a machine with a real systemd."""

from tests.support.systemd.machine import Machine

__all__ = ["Machine"]
