"""Options of the data source `omnigraph`: text from the user, read and checked in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.errors import InvalidArgument, TypeNotFound, Unsupported
from omnigraph.schema.catalog import Catalog, EntityType

ALWAYS = frozenset({"path", "type", "edge"})
_OF_A_TABLE = frozenset({"provider", "owner"})
"""The options that Spark adds when it requests the columns of a table of its catalog."""

NO_PATH = 'give its path, .load("graph.omni") or .save("graph.omni"); a table of a Spark catalog has none, a view has'
Options = Mapping[str, str]


def known_options(given: Mapping[str, str], purpose: str, mine: Iterable[str]) -> dict[str, str]:
    """Return the options in lower case, as Spark treats them. Refuses an unknown one."""
    options = {str(k).lower(): str(v) for k, v in given.items()}
    if options.keys() >= _OF_A_TABLE:
        raise Unsupported(
            "Spark's catalog keeps no options for a table of a Python source: it could not be read",
            hint="CREATE TEMPORARY VIEW v USING omnigraph OPTIONS (path '...', type '...')",
        )
    known = {name.lower(): name for name in (*ALWAYS, *mine)}
    unknown = sorted(set(options) - set(known))
    if unknown:
        hint = f"known: {', '.join(sorted(known.values()))}"
        raise InvalidArgument(f"option {unknown[0]!r} is unknown for {purpose}", hint=hint)
    return options


def path_of(options: Options) -> str:
    """Return the location of the graph."""
    if "path" not in options:
        raise InvalidArgument("the graph is missing", hint=NO_PATH)
    return options["path"]


def type_name_of(options: Options) -> str:
    """Return the type that `type` or `edge` names."""
    if ("type" in options) == ("edge" in options):
        raise InvalidArgument("name a node type with 'type' or an edge type with 'edge'")
    return options.get("type") or options["edge"]


def entity_of(catalog: Catalog, options: Options) -> EntityType:
    """Return the type that the options name; `type` may name an edge type as well."""
    name = type_name_of(options)
    if "edge" in options:
        return catalog.edge(name)
    try:
        return catalog.node(name)
    except TypeNotFound:
        if name in catalog.edges:
            return catalog.edge(name)
        raise


def columns_of(options: Options) -> list[str] | None:
    """Return the names in `columns`, or None for all."""
    if "columns" not in options:
        return None
    return [c.strip() for c in options["columns"].split(",") if c.strip()]


def number_of(options: Options, name: str) -> int | None:
    """Return a positive number, or None where the option is not given."""
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise InvalidArgument(f"{name} {value!r} is no positive number")
    return int(value)
