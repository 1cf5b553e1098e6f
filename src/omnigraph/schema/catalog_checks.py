"""Check that a catalog read from a store is usable: its names are valid, its references resolve.

The rules of schema texts are not checked again: they may change, and an accepted schema stays readable. These checks
protect against catalogs that OmniGraph did not write. A type name, for one, becomes the name of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.model import EdgeType, EntityType, InterfaceType, Property
from omnigraph.schema.names import ENDPOINTS, METRICS

_TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*")
_PROPERTY = re.compile(r"[a-z_][A-Za-z0-9_]*")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ID = re.compile(r"[0-9A-Za-z]{1,64}")


def require_sound(catalog: Catalog) -> None:
    """Raise a ValueError or TypeError for the first thing that no compiled schema contains."""
    for interface in catalog.interfaces.values():
        _require(interface.name, _TYPE, "the name of an interface")
        _require_owner(interface, ())
    for entity in catalog.entity_types:
        _require(entity.name, _TYPE, "the name of a type")
        _require(entity.type_id, _ID, "a type id")
        _require_owner(entity, ENDPOINTS if isinstance(entity, EdgeType) else ())
        _require_rules(entity)
    for node in catalog.nodes.values():
        _require_known(node.implements, catalog.interfaces, node.name)
    for edge in catalog.edges.values():
        _require_known((edge.source, edge.target), catalog.nodes, edge.name)
        _require_bounds(edge)
    _require_distinct((each.type_id for each in catalog.entity_types), "type ids")


def _require_owner(owner: InterfaceType | EntityType, ends: tuple[str, ...]) -> None:
    for each in owner.properties:
        _require_property(each, has_id=not isinstance(owner, InterfaceType))
    _require_distinct((each.name for each in owner.properties), f"properties of {owner.name}")
    _require_distinct((each.column for each in owner.properties), f"columns of {owner.name}")
    known = {*ends, *(each.name for each in owner.properties)}
    _require_known(owner.key, known, owner.name)
    for group in owner.uniques:
        _require_known(group, known, owner.name)
    for index in owner.indexes:
        _require_known(index.properties, known, owner.name)
        if index.metric is not None and index.metric not in METRICS:
            raise ValueError(f"{owner.name} has an index with the metric {index.metric!r}")


def _require_property(each: Property, *, has_id: bool) -> None:
    _require(each.name, _PROPERTY, "the name of a property")
    _require(each.column, _COLUMN, "the name of a column")
    if has_id:
        _require(each.property_id, _ID, "a property id")
    kind = each.type
    if not isinstance(kind.nullable, bool) or not isinstance(kind.is_list, bool):
        raise TypeError(f"the type of {each.name} is not a type")
    for value in kind.values or ():
        _require(value, None, "a value of an enum")
    if each.default is not None:
        pa.scalar(each.default, kind.to_arrow())
    _require_optional(each.description, "a description")
    if each.embed is not None:
        _require(each.embed.source, None, "the source of an embedding")
        _require_optional(each.embed.model, "a model")


def _require_rules(entity: EntityType) -> None:
    known = {each.name for each in entity.properties}
    _require_known((each.property for each in entity.ranges), known, entity.name)
    _require_known((each.property for each in entity.checks), known, entity.name)
    for bound in (value for each in entity.ranges for value in (each.min, each.max)):
        if bound is not None and (not isinstance(bound, int | float) or isinstance(bound, bool)):
            raise ValueError(f"{bound!r} is not a bound of a range")
    for check in entity.checks:
        _require(check.pattern, None, "a pattern")
        pc.match_substring_regex(pa.array([""]), check.pattern)
    _require_optional(entity.description, "a description")
    _require_optional(entity.instruction, "an instruction")


def _require_bounds(edge: EdgeType) -> None:
    for bound in (edge.cardinality.min, edge.cardinality.max):
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or bound < 0):
            raise ValueError(f"{bound!r} is not a bound of a cardinality")


def _require(value: Any, pattern: re.Pattern[str] | None, what: str) -> None:
    if not isinstance(value, str) or (pattern is not None and pattern.fullmatch(value) is None):
        raise ValueError(f"{str(value)[:80]!r} is not {what}")


def _require_optional(value: Any, what: str) -> None:
    if value is not None:
        _require(value, None, what)


def _require_known(names: Iterable[Any], known: Iterable[str], owner: str) -> None:
    unknown = [name for name in names if name not in set(known)]
    if unknown:
        raise ValueError(f"{owner} refers to {str(unknown[0])[:80]!r}, which is not declared")


def _require_distinct(names: Iterable[str], what: str) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise ValueError(f"{what} are not distinct")
