"""The storage format and its stamp. One format is served; any other is refused before anything else of it is read."""

from __future__ import annotations

from typing import Any

from omnigraph.errors import FormatUnsupported

INTERNAL_SCHEMA_VERSION = 1
STAMP = "omnigraph:internal_schema_version"


def read_stamp(schema: Any) -> int | None:
    """The format that a manifest's Arrow schema names, or None."""
    raw = (schema.metadata or {}).get(STAMP.encode())
    return int(raw) if raw is not None and raw.isdigit() else None


def refuse_if_unsupported(schema: Any, where: str) -> None:
    """Raise unless the stamp is the one this program serves."""
    found = read_stamp(schema)
    if found == INTERNAL_SCHEMA_VERSION:
        return
    if found is not None and found > INTERNAL_SCHEMA_VERSION:
        raise FormatUnsupported(
            f"{where} has internal schema {found}; this omnigraph serves {INTERNAL_SCHEMA_VERSION}",
            hint="upgrade omnigraph to open this graph",
        )
    shown = "no readable stamp" if found is None else f"internal schema {found}"
    raise FormatUnsupported(
        f"{where} has {shown}; this omnigraph serves {INTERNAL_SCHEMA_VERSION}",
        hint="export it with the omnigraph that created it, then `omnigraph init` and `omnigraph load` the export here",
    )
