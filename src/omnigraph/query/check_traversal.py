"""Check traversals: the edge types followed, the direction, the types of both ends.              (ast -> CHECK)

The type of one end determines the direction: the `from` type of the edge means out, the `to` type in. Where both ends
of an edge have one type, the written order decides. With no typed end at all the edge is followed out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.check_functions import is_integer
from omnigraph.query.grammar import INFIX_WORDS, edge_word
from omnigraph.query.scope import ANONYMOUS, Checks, Scope, Variable
from omnigraph.schema.catalog import EdgeType
from omnigraph.schema.names import nearest


@dataclass(frozen=True, slots=True)
class CheckedTraversal:
    """A resolved traversal, whose ends later traversals may still narrow."""

    edges: tuple[EdgeType, ...]
    source: str
    target: str
    direction: ir.Direction
    edge_var: str | None
    min_hops: ir.Expr | int
    max_hops: ir.Expr | int | None
    path_var: str | None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A traversal whose direction is not known yet."""

    node: ast.Traversal
    edges: tuple[EdgeType, ...]
    source: str
    target: str


class TraversalChecker:
    """Checks the traversals of one block."""

    def __init__(self, checks: Checks, scope: Scope) -> None:
        self.checks = checks
        self.scope = scope

    def check(self, nodes: list[ast.Traversal]) -> tuple[CheckedTraversal, ...]:
        """Check all traversals, in written order. Each is resolved as soon as one of its ends has a type."""
        names = [self._names(node) for node in nodes]
        pending = [
            _Pending(node, self._edges(node), source, target)
            for node, (source, target) in zip(nodes, names, strict=True)
        ]
        directions: dict[int, ir.Direction] = {}
        waiting = list(range(len(pending)))
        while waiting:
            ready = (index for index in waiting if self._is_typed(pending[index]))
            index = next(ready, waiting[0])
            waiting.remove(index)
            directions[index] = self._resolve(pending[index])
        for index, each in enumerate(pending):
            self._verify(each, directions[index])
        return tuple(self._finish(each, directions[index]) for index, each in enumerate(pending))

    def _names(self, node: ast.Traversal) -> tuple[str, str]:
        source, target = (
            self.checks.fresh() if end.text == ANONYMOUS else end.text for end in (node.source, node.target)
        )
        self._bind_edge(node)
        self._bind_path(node)
        return source, target

    def _bind_edge(self, node: ast.Traversal) -> None:
        if node.edge_var is None or node.edge_var.text == ANONYMOUS:
            return
        name, span = node.edge_var.text, node.edge_var.span
        if node.hops is not None or node.path_var is not None:
            hint = "leave out the name of the edge, or the hops"
            self.checks.fail("T23", f"the edge `${name}` cannot be named over several hops", span, hint)
        if name in (node.source.text, node.target.text):
            self.checks.fail("T23", f"`${name}` names both the edge and its end", span, "give the edge its own name")
        if self.scope.find(name) is not None:
            self.checks.fail("T23", f"`${name}` is already bound", span, "give the edge its own name")
        types = tuple(each.name for each in self._edges(node))
        self.scope.bind(Variable(name, "edge", types, declared=True))

    def _bind_path(self, node: ast.Traversal) -> None:
        if node.path_var is None or node.path_var.text == ANONYMOUS:
            return
        name = node.path_var.text
        if self.scope.find(name) is not None or name in (node.source.text, node.target.text):
            self.checks.fail(None, f"`${name}` is already bound", node.path_var.span, "give the path its own name")
        self.scope.bind(Variable(name, "path", (), declared=True))

    def _edges(self, node: ast.Traversal) -> tuple[EdgeType, ...]:
        by_name = {each.name.lower(): each for each in self.checks.catalog.edges.values()}
        found: list[EdgeType] = []
        for name in node.edges:
            edge = by_name.get(name.text.lower())
            if edge is None:
                self.checks.fail(
                    "T4", f"there is no edge type `{name.text}`", name.span, self._edge_hint(node, name.text)
                )
            if node.undirected and edge.source != edge.target:
                hint = f"write `{name.text}` without `< >`"
                message = (
                    f"`<{name.text}>` needs both ends of one type, {edge.name} goes {edge.source} -> {edge.target}"
                )
                self.checks.fail("T22", message, name.span, hint)
            if edge in found:
                self.checks.fail(None, f"the edge `{name.text}` is named twice", name.span, "name it once")
            found.append(edge)
        return tuple(found)

    def _edge_hint(self, node: ast.Traversal, name: str) -> str | None:
        known = {edge_word(each) for each in self.checks.catalog.edges}
        if name in INFIX_WORDS:
            left = node.source.text
            return f"two bare variables make it an edge: write `${left}.name {name} ...`, or put it in parentheses"
        close = nearest(name, known)
        if close is not None:
            return f"did you mean `{close}`?"
        return (
            f"the edges are {', '.join(f'`{each}`' for each in sorted(known))}" if known else "the schema has no edges"
        )

    # --- direction ----------------------------------------------------------------------------------------------------

    def _is_typed(self, each: _Pending) -> bool:
        return any(self.scope.find(name) is not None for name in (each.source, each.target))

    def _resolve(self, each: _Pending) -> ir.Direction:
        for end in (each.node.source, each.node.target):
            found = self.scope.find(end.text)
            if found is not None and found.kind != "node":
                rule = "T23" if found.kind == "edge" else None
                message = f"the {found.kind} `${end.text}` cannot be the end of a traversal"
                self.checks.fail(rule, message, end.span, "an end is a node: give it another name")
        choices = _directions(each)
        source, target = self.scope.find(each.source), self.scope.find(each.target)
        for direction in choices:
            if self._fits(each, source, target, direction):
                self._narrow(each.source, _ends(each.edges, direction, 0))
                self._narrow(each.target, _ends(each.edges, direction, 1))
                return direction
        return self._refuse(each, source, target, choices)

    def _verify(self, each: _Pending, direction: ir.Direction) -> None:
        """Check a traversal again after later ones narrowed its ends, so that the order of clauses does not matter."""
        source, target = self.scope.find(each.source), self.scope.find(each.target)
        if not self._fits(each, source, target, direction):
            self._refuse(each, source, target, (direction,))

    def _fits(self, each: _Pending, source: Variable | None, target: Variable | None, way: ir.Direction) -> bool:
        """Return whether every alternative can connect the two ends."""
        for edge in each.edges:
            start, end = _ends((edge,), way, 0), _ends((edge,), way, 1)
            if source is not None and not set(source.types) & set(start):
                return False
            if target is not None and not set(target.types) & set(end):
                return False
        return True

    def _narrow(self, name: str, types: tuple[str, ...]) -> None:
        found = self.scope.find(name)
        if found is None:
            self.scope.bind(Variable(name, "node", types, declared=False))
        elif name in self.scope.variables:
            self.scope.bind(replace(found, types=tuple(each for each in found.types if each in types)))

    def _refuse(
        self, each: _Pending, source: Variable | None, target: Variable | None, choices: tuple[ir.Direction, ...]
    ) -> ir.Direction:
        node = each.node
        edges = ", ".join(f"{edge.name} goes {edge.source} -> {edge.target}" for edge in each.edges)
        # Report the end that fits in no direction; if each fits alone, report the target.
        wrong = node.target
        if source is not None and not any(self._fits(each, source, None, way) for way in choices):
            wrong = node.source
        found = self.scope.find(each.source if wrong is node.source else each.target)
        shown = "|".join(found.types) if found else "?"
        written = "|".join(name.text for name in node.edges)
        return self.checks.fail(
            "T5", f"`${wrong.text}` is {shown}, which `{written}` does not join here", wrong.span, edges
        )

    # --- hops ---------------------------------------------------------------------------------------------------------

    def _finish(self, each: _Pending, direction: ir.Direction) -> CheckedTraversal:
        node = each.node
        low, high = self._hops(node)
        edge_var = node.edge_var.text if node.edge_var and node.edge_var.text != ANONYMOUS else None
        path_var = node.path_var.text if node.path_var and node.path_var.text != ANONYMOUS else None
        return CheckedTraversal(each.edges, each.source, each.target, direction, edge_var, low, high, path_var)

    def _hops(self, node: ast.Traversal) -> tuple[ir.Expr | int, ir.Expr | int | None]:
        if node.hops is None:
            # A shortest path without bounds goes as far as it must.
            return (1, None) if node.path_var else (1, 1)
        low, high = self._bound(node.hops.low), None if node.hops.high is None else self._bound(node.hops.high)
        if isinstance(low, int) and low < 1:
            self.checks.fail(
                "T15", "hops start at 1", node.hops.span, "write `{1,2}`; a node is no neighbour of itself"
            )
        if isinstance(high, int) and isinstance(low, int) and high < low:
            self.checks.fail(
                "T15", f"no number lies between {low} and {high}", node.hops.span, f"write `{{{high},{low}}}`"
            )
        if isinstance(high, int) and high < 1:
            self.checks.fail("T15", "hops start at 1", node.hops.span, "write `{1,2}`")
        return low, high

    def _bound(self, bound: int | ast.Name) -> ir.Expr | int:
        if isinstance(bound, int):
            return bound
        return whole_number_param(self.checks, bound, "T15", "a hop bound")


def whole_number_param(checks: Checks, name: ast.Name, rule: str | None, what: str) -> ir.Param:
    """Return a parameter in the place of a number: declared, an integer, never null."""
    found = checks.params.get(name.text)
    if found is None:
        hint = f"declare it: `query {checks.query.name.text}(${name.text}: I64)`"
        checks.fail(rule, f"`${name.text}` is not a declared parameter", name.span, hint)
    if not is_integer(found) or found.nullable:
        checks.fail(rule, f"{what} must be a whole number, `${name.text}` is {found}", name.span, "declare it as I64")
    return ir.Param(name.text, vt.value(found))


def _directions(each: _Pending) -> tuple[ir.Direction, ...]:
    """Return the possible directions of a traversal; the first that fits is used."""
    if each.node.undirected:
        return ("both",)
    # An edge within one type goes as written, and its alternatives go along.
    return ("out",) if any(edge.source == edge.target for edge in each.edges) else ("out", "in")


def _ends(edges: tuple[EdgeType, ...], direction: ir.Direction, end: int) -> tuple[str, ...]:
    """Return the node types at the source (0) or target (1) of a traversal, sorted."""
    forward = (direction != "in") == (end == 0)
    return tuple(sorted({edge.source if forward else edge.target for edge in edges}))
