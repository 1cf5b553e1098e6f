"""A catalog as a Mermaid class diagram: node types with their properties, edges as arrows."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType


def mermaid(catalog: Catalog) -> str:
    """Return the diagram as text. Keys are marked `+`, an edge with properties is a class beside its arrow."""
    return "\n".join(_lines(catalog)) + "\n"


def _lines(catalog: Catalog) -> Iterator[str]:
    yield "classDiagram"
    for interface in catalog.interfaces.values():
        yield from _class(interface, "interface")
    for node in catalog.nodes.values():
        yield from _class(node, None)
        for name in node.implements:
            yield f"    {name} <|.. {node.name}"
    for edge in catalog.edges.values():
        yield f'    {edge.source} --> "{_cardinality(edge)}" {edge.target} : {edge.name}'
        if edge.properties:
            yield from _class(edge, "edge")


def _class(each: NodeType | EdgeType | InterfaceType, stereotype: str | None) -> Iterator[str]:
    yield f"    class {each.name} {{"
    if stereotype:
        yield f"        <<{stereotype}>>"
    for prop in each.properties:
        mark = "+" if prop.name in each.key else " "
        # Brackets, braces and parentheses would be read as methods and generics.
        shown = str(prop.type).translate({ord("["): "list_", ord("]"): None, ord("("): "_", ord(")"): None})
        yield f"        {mark}{prop.name} {shown.replace(', ', '|')}"
    yield "    }"


def _cardinality(edge: EdgeType) -> str:
    return f"{edge.cardinality.min}..{'*' if edge.cardinality.max is None else edge.cardinality.max}"
