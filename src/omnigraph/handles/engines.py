"""Engines that the facade finds by name and loads when they are first asked for: it imports none of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import InvalidArgument, Unsupported

_MODULES = {"spark": "omnigraph.pipeline.engine"}


def find_engine(name: str) -> Any:
    """The module of an engine."""
    if name not in _MODULES:
        raise InvalidArgument(f"engine {name!r} is unknown", hint=f"use 'auto', 'arrow' or {', '.join(_MODULES)}")
    try:
        return importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("omnigraph"):
            raise
        raise Unsupported(f"{error.name} is not installed", hint=f"pip install 'omnigraph[{name}]'") from error


def holds_spark_frames(data: Any) -> bool:
    """Whether some source of a load is a Spark DataFrame."""
    return isinstance(data, Mapping) and any(type(v).__module__.startswith("pyspark.") for v in data.values())
