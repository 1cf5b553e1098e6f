"""Engines that the facade finds by name and loads when they are first asked for: it imports none of them."""

from __future__ import annotations

import importlib
from typing import Any

from omnigraph.errors import InvalidArgument

_MODULES = {"spark": "omnigraph.pipeline.engine"}


def engine(name: str) -> Any:
    """The module of an engine."""
    if name not in _MODULES:
        raise InvalidArgument(f"engine {name!r} is unknown", hint=f"use 'auto', 'arrow' or {', '.join(_MODULES)}")
    return importlib.import_module(_MODULES[name])
