"""Plug-ins by name: literal tables, resolved when asked."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def resolve(table: Mapping[str, str], name: str) -> Any:
    """The object behind ``name`` in a table of ``"package.module:Name"``.

    KeyError where the table has no such name; an ImportError from inside the plug-in passes through.
    """
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)
