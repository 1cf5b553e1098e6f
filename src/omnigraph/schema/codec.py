"""Catalog types as plain JSON values and back, and the id-free shape that schema hashes are computed from.

`to_json` keeps everything, ids and columns included, and `from_json` gives an equal value. A shape keeps only the
meaning: two texts that differ in order, comments, formatting or rename hints have one shape.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.schema.model import (
    Annotation,
    Cardinality,
    Check,
    EdgeType,
    EmbedSpec,
    Index,
    InterfaceType,
    NodeType,
    Property,
    Range,
)
from omnigraph.schema.resolve import utc

Json = dict[str, Any]


def canonical_json(value: Any) -> str:
    """Return one text per value: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256(value: Any) -> str:
    """Return the hash of a JSON value's canonical text, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


# --- to JSON ------------------------------------------------------------------------------------------------------


def interface_to_json(interface: InterfaceType) -> Json:
    """An interface and its properties."""
    return {
        "name": interface.name,
        "properties": [property_to_json(each) for each in interface.properties],
        **_groups_to_json(interface),
    }


def node_to_json(node: NodeType) -> Json:
    """A node type with its ids."""
    return {
        **_common_to_json(node),
        "implements": list(node.implements),
    }


def edge_to_json(edge: EdgeType) -> Json:
    """An edge type with its ids."""
    return {
        **_common_to_json(edge),
        "source": edge.source,
        "target": edge.target,
        "cardinality": {"min": edge.cardinality.min, "max": edge.cardinality.max},
    }


def property_to_json(each: Property) -> Json:
    """A property with its id and column."""
    return {
        "property_id": each.property_id,
        "name": each.name,
        "column": each.column,
        "type": type_to_json(each.type),
        "default": each.default.isoformat() if isinstance(each.default, dt.date) else each.default,
        "annotations": [_annotation_to_json(a) for a in each.annotations],
        "description": each.description,
        "embed": {"source": each.embed.source, "model": each.embed.model} if each.embed else None,
    }


def type_to_json(type_: PropertyType) -> Json:
    """A property type by its parts."""
    return {
        "scalar": str(type_.scalar),
        "nullable": type_.nullable,
        "list": type_.is_list,
        "dimension": type_.dimension,
        "values": None if type_.values is None else list(type_.values),
    }


def _common_to_json(entity: NodeType | EdgeType) -> Json:
    return {
        "type_id": entity.type_id,
        "name": entity.name,
        "properties": [property_to_json(each) for each in entity.properties],
        **_groups_to_json(entity),
        "ranges": [{"property": r.property, "min": r.min, "max": r.max} for r in entity.ranges],
        "checks": [{"property": c.property, "pattern": c.pattern} for c in entity.checks],
        "description": entity.description,
        "instruction": entity.instruction,
        "annotations": [_annotation_to_json(a) for a in entity.annotations],
        "hidden": [property_to_json(each) for each in entity.hidden],
    }


def _groups_to_json(owner: InterfaceType | NodeType | EdgeType) -> Json:
    return {
        "key": list(owner.key),
        "uniques": [list(group) for group in owner.uniques],
        "indexes": [{"properties": list(index.properties), "metric": index.metric} for index in owner.indexes],
    }


def _annotation_to_json(annotation: Annotation) -> Json:
    return {"name": annotation.name, "value": annotation.value, "arguments": [list(a) for a in annotation.arguments]}


# --- from JSON ----------------------------------------------------------------------------------------------------


def interface_from_json(body: Mapping[str, Any]) -> InterfaceType:
    """The inverse of `interface_to_json`."""
    properties = tuple(property_from_json(each) for each in body["properties"])
    return InterfaceType(body["name"], properties, **_groups_from_json(body))


def node_from_json(body: Mapping[str, Any]) -> NodeType:
    """The inverse of `node_to_json`."""
    return NodeType(**_common_from_json(body), implements=tuple(body["implements"]))


def edge_from_json(body: Mapping[str, Any]) -> EdgeType:
    """The inverse of `edge_to_json`."""
    return EdgeType(
        **_common_from_json(body),
        source=body["source"],
        target=body["target"],
        cardinality=Cardinality(**body["cardinality"]),
    )


def property_from_json(body: Mapping[str, Any]) -> Property:
    """The inverse of `property_to_json`."""
    type_ = type_from_json(body["type"])
    return Property(
        property_id=body["property_id"],
        name=body["name"],
        column=body["column"],
        type=type_,
        default=_default_from_json(type_, body["default"]),
        annotations=tuple(_annotation_from_json(a) for a in body["annotations"]),
        description=body["description"],
        embed=EmbedSpec(**body["embed"]) if body["embed"] else None,
    )


def type_from_json(body: Mapping[str, Any]) -> PropertyType:
    """The inverse of `type_to_json`."""
    return PropertyType(
        Scalar(body["scalar"]),
        body["nullable"],
        body["list"],
        body["dimension"],
        None if body["values"] is None else tuple(body["values"]),
    )


def _default_from_json(type_: PropertyType, value: Any) -> Any:
    if value is None:
        return None
    if type_.scalar is Scalar.DATE:
        return dt.date.fromisoformat(value)
    if type_.scalar is Scalar.DATETIME:
        return utc(value)
    # JSON has one kind of number: a writer in another language may have written 2.0 as 2.
    return float(value) if type_.scalar in (Scalar.F32, Scalar.F64) else value


def _common_from_json(body: Mapping[str, Any]) -> Json:
    return {
        "type_id": body["type_id"],
        "name": body["name"],
        "properties": tuple(property_from_json(each) for each in body["properties"]),
        **_groups_from_json(body),
        "ranges": tuple(Range(**each) for each in body["ranges"]),
        "checks": tuple(Check(**each) for each in body["checks"]),
        "description": body["description"],
        "instruction": body["instruction"],
        "annotations": tuple(_annotation_from_json(a) for a in body["annotations"]),
        "hidden": tuple(property_from_json(each) for each in body["hidden"]),
    }


def _groups_from_json(body: Mapping[str, Any]) -> Json:
    return {
        "key": tuple(body["key"]),
        "uniques": tuple(tuple(group) for group in body["uniques"]),
        "indexes": tuple(Index(tuple(each["properties"]), each["metric"]) for each in body["indexes"]),
    }


def _annotation_from_json(body: Mapping[str, Any]) -> Annotation:
    return Annotation(body["name"], body["value"], tuple((name, value) for name, value in body["arguments"]))


# --- shape --------------------------------------------------------------------------------------------------------


_NO_MEANING = ("type_id", "property_id", "column", "hidden")


def shape(body: Mapping[str, Any]) -> Json:
    """Reduce a type's JSON to its meaning: ids, columns and dropped properties removed, unordered parts sorted."""
    kept = {name: value for name, value in body.items() if name not in _NO_MEANING}
    for name, value in kept.items():
        if name == "properties":
            kept[name] = sorted((shape(each) for each in value), key=lambda each: str(each["name"]))
        elif name in ("key", "implements"):
            # A key is stored in property-id order, which a rename keeps and a new compile may not.
            kept[name] = sorted(value)
        elif name == "uniques":
            kept[name] = sorted(sorted(group) for group in value)
        elif name == "indexes":
            # The key implies its index, whatever the order of its members.
            own = [each for each in value if sorted(each["properties"]) != sorted(body["key"])]
            kept[name] = sorted(own, key=canonical_json)
        elif name in ("ranges", "checks", "annotations"):
            kept[name] = sorted(value, key=canonical_json)
    return kept
