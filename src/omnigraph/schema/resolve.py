"""Shared interpretations of the ast, so that `checks` and `catalog` read a schema alike.

They resolve the properties of a node including those of its interfaces, and the groups of properties in a type's
`@key`, `@unique` and `@index`, written on a property or in the body.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, INTEGERS, PropertyType, Scalar, parse_datetime
from omnigraph.errors import Span
from omnigraph.schema import ast

Interfaces = Mapping[str, ast.InterfaceDecl]


@dataclass(frozen=True, slots=True)
class Group:
    """The properties one `@key`, `@unique` or `@index` names."""

    kind: str
    names: tuple[ast.Name, ...]
    annotation: ast.Annotation
    on_property: bool

    @property
    def span(self) -> Span:
        """Return the place of the annotation."""
        return self.annotation.span


def all_properties(declaration: ast.Declaration, interfaces: Interfaces) -> tuple[ast.PropertyDecl, ...]:
    """Return the declared properties, then those that the interfaces add, in order of `implements`."""
    found = {each.name.text: each for each in declaration.properties}
    if isinstance(declaration, ast.NodeDecl):
        for name in declaration.implements:
            interface = interfaces.get(name.text)
            for each in interface.properties if interface else ():
                found.setdefault(each.name.text, each)
    return tuple(found.values())


def groups(declaration: ast.Declaration, properties: tuple[ast.PropertyDecl, ...]) -> Iterator[Group]:
    """Return every key, unique and index of a type: those on properties first, then those of the body."""
    for each in properties:
        for annotation in each.annotations:
            if annotation.name in ("key", "unique", "index"):
                yield Group(annotation.name, (each.name,), annotation, on_property=True)
    for annotation in declaration.constraints:
        if annotation.name in ("key", "unique", "index"):
            names = tuple(a for a in annotation.positional if isinstance(a, ast.Name))
            yield Group(annotation.name, names, annotation, on_property=False)


def text_value(annotation: ast.Annotation) -> str | None:
    """Return the first positional value as text: `@embed(title)` and `@embed("title")` are the same."""
    if not annotation.positional:
        return None
    match annotation.positional[0]:
        case ast.Name(text=text):
            return text
        case ast.Literal(value=bool() as value):
            return "true" if value else "false"
        case ast.Literal(value=value):
            return str(value)
        case ast.Bounds(low=low, high=high):
            return f"{'' if low is None else low}..{'' if high is None else high}"


def default_value(type_: PropertyType, argument: ast.Argument) -> Any:
    """Return the Python value of a `@default` argument. Raises ValueError with the reason when it does not fit."""
    if type_.is_list or type_.is_vector or type_.scalar is Scalar.BLOB:
        raise ValueError(f"a property of type `{type_}` takes no default")
    if type_.values is not None:
        return _enum_member(type_.values, argument)
    if isinstance(argument, ast.Name) and argument.text == "null":
        raise ValueError("`null` is no default; a nullable property without a default is null already")
    if isinstance(argument, ast.Literal):
        return _literal(type_.scalar, argument.value)
    raise ValueError(f"a default for `{type_}` must be a literal")


def _enum_member(values: tuple[str, ...], argument: ast.Argument) -> str:
    value = argument.text if isinstance(argument, ast.Name) else getattr(argument, "value", None)
    # An enum may have values that parse as other literals: `enum(1, 2)`, `enum(true, false)`.
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if text not in values:
        raise ValueError(f"`{text}` is not one of {', '.join(values)}")
    return text


def _literal(scalar: Scalar, value: str | int | float | bool) -> Any:
    if scalar is Scalar.BOOL and isinstance(value, bool):
        return value
    if scalar is Scalar.STRING and isinstance(value, str):
        return value
    if scalar in INTEGERS and isinstance(value, int) and not isinstance(value, bool):
        low, high = INTEGER_RANGE[scalar]
        if not low <= value <= high:
            raise ValueError(f"{value} is outside {scalar}, which holds {low} to {high}")
        return value
    if scalar in FLOATS and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(scalar, value)
    if scalar is Scalar.DATE and isinstance(value, str):
        return dt.date.fromisoformat(value)
    if scalar is Scalar.DATETIME and isinstance(value, str):
        return utc(value)
    raise ValueError(f"the default does not fit `{scalar}`")


def _float(scalar: Scalar, value: int | float) -> float:
    limit = 3.4028234663852886e38 if scalar is Scalar.F32 else 1.7976931348623157e308
    if abs(value) > limit:
        raise ValueError(f"the number is too large for {scalar}")
    return float(value)


def utc(text: str) -> dt.datetime:
    """Parse an ISO date-time as UTC; one without an offset is UTC already. Raises `TooPrecise`."""
    value = parse_datetime(text)
    try:
        aware = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError(f"{text} lies outside the calendar") from None
    return aware
