"""Scopes of variables, and the shared state of the checker: the catalog, the parameters, the errors.

A scope is a block of the pattern. Inner blocks see the variables around them; what an optional block binds is exported
to the block around it, where it may be null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from omnigraph.datatypes import PropertyType
from omnigraph.errors import Span, TypeCheckError
from omnigraph.query import ast
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.names import nearest

ANONYMOUS = "_"


@dataclass(frozen=True, slots=True)
class Variable:
    """A bound variable: a node or an edge of one of `types`, or a path."""

    name: str
    kind: Literal["node", "edge", "path"]
    types: tuple[str, ...]
    declared: bool
    optional: bool = False


class Scope:
    """The variables of one block while it is checked."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.variables: dict[str, Variable] = {}
        self.exported: dict[str, Variable] = {}
        self.uses_outer = False

    def find(self, name: str) -> Variable | None:
        """Return the variable of that name, here or in an outer block; an outer one is recorded as used here."""
        found = self.variables.get(name) or self.exported.get(name)
        if found is None and self.parent is not None:
            found = self.parent.find(name)
            self.uses_outer = self.uses_outer or found is not None
        return found

    def bind(self, variable: Variable) -> None:
        """Bind or narrow a variable of this block."""
        self.variables[variable.name] = variable

    def export(self, inner: Scope) -> None:
        """Make the variables of an optional block visible here, as nullable ones."""
        for each in (*inner.variables.values(), *inner.exported.values()):
            self.exported[each.name] = replace(each, optional=True)

    def names(self) -> Iterator[str]:
        """Return every name that a query may use here."""
        yield from (name for name in (*self.variables, *self.exported) if not re.fullmatch(r"_\d*", name))
        if self.parent is not None:
            yield from self.parent.names()


def name_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest one, else all names in scope."""
    names = sorted(set(known))
    close = nearest(name, names)
    if close is not None:
        return f"did you mean `{close}`?"
    return f"there are {', '.join(f'`{each}`' for each in names)}" if names else "there are none"


class Checks:
    """The state that all parts of the checker share for one query."""

    def __init__(self, query: ast.Query, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.params: Mapping[str, PropertyType] = self._params()
        self._written = set(re.findall(r"\$(\w+)", query.source))
        self._fresh = 0

    def fresh(self) -> str:
        """Return a name for an anonymous variable: `_1`, `_2`, ..., none that the text uses."""
        while True:
            self._fresh += 1
            if f"_{self._fresh}" not in self._written:
                return f"_{self._fresh}"

    def fail(self, rule: str | None, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Raise a TypeCheckError at a place."""
        text = f"{rule}: {message}" if rule else message
        raise TypeCheckError(text, span=span, source=self.query.source, path=self.query.path, hint=hint, rule=rule)

    def variable_hint(self, name: str, scope: Scope | None) -> str:
        """Return a hint for an unknown `$name`."""
        known = {*self.params, *(scope.names() if scope else ())}
        close = nearest(name, known)
        if close is not None:
            return f"did you mean `${close}`?"
        return f"declare it as a parameter: `query {self.query.name.text}(${name}: String)`"

    def _params(self) -> dict[str, PropertyType]:
        found: dict[str, PropertyType] = {}
        for each in self.query.params:
            name = each.name.text
            if name == ANONYMOUS:
                self.fail(None, "`$_` cannot be a parameter", each.name.span, "give it a name")
            if name.startswith("__"):
                self.fail(
                    None, f"the parameter name `${name}` is reserved", each.name.span, "write `now()` for the moment"
                )
            if name in found:
                self.fail(None, f"the parameter `${name}` is declared twice", each.name.span, "keep one of them")
            found[name] = each.type
        return found
