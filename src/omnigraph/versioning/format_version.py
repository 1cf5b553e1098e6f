"""The storage format and its stamp. One format is served; any other is refused before anything else of it is read.

Numbers below 100 are taken: 1 by the first layout of this program, 2 to 99 by the omnigraph that uses the same key for
another layout. So the number identifies the program that can read a graph.
"""

from __future__ import annotations

from typing import Any

from omnigraph.errors import FormatUnsupported
from omnigraph.errors.store import REBUILD

INTERNAL_SCHEMA_VERSION = 100
STAMP = "omnigraph:internal_schema_version"
_FIRST = 1


def read_format_version(schema: Any) -> int | None:
    """The format that a manifest's Arrow schema names, or None."""
    raw = (schema.metadata or {}).get(STAMP.encode())
    return int(raw) if raw is not None and raw.isdigit() else None


def require_supported_format(schema: Any, where: str) -> None:
    """Raise unless the stamp is the one this program serves."""
    found = read_format_version(schema)
    if found == INTERNAL_SCHEMA_VERSION:
        return
    if found is not None and found > INTERNAL_SCHEMA_VERSION:
        raise FormatUnsupported(
            f"{where} has internal schema {found}; this omnigraph serves {INTERNAL_SCHEMA_VERSION}",
            hint="upgrade omnigraph to open this graph",
        )
    raise FormatUnsupported(
        f"{where} has {_shown(found)}; this omnigraph serves {INTERNAL_SCHEMA_VERSION}", hint=REBUILD
    )


def _shown(found: int | None) -> str:
    if found is None:
        return "no readable stamp"
    whose = "an older one of this omnigraph" if found <= _FIRST else "a layout of another omnigraph"
    return f"internal schema {found} ({whose})"
