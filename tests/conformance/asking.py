"""Rows of the shared graph, and questions in one line."""

from __future__ import annotations

from typing import Any

from omnigraph import Graph
from tests.support.rows import company, knows, person, works_at

FRIENDS: list[dict[str, Any]] = [
    person("Alice", 30),
    person("Bob", 25),
    person("Charlie", 35),
    person("Diana", 28),
    company("Acme"),
    company("Globex"),
    knows("Alice", "Bob", "2020-05-01"),
    knows("Alice", "Charlie"),
    knows("Bob", "Diana", "2024-02-29"),
    works_at("Alice", "Acme"),
    works_at("Bob", "Globex"),
]


def chain(*pairs: str, people: str = "") -> list[dict[str, Any]]:
    """`"ab"` is a friendship from a to b; the people follow from the pairs, `people` names some more."""
    names = sorted({*"".join(pairs), *people})
    edges = [
        {"edge": "Knows", "from": pair[0], "to": pair[1], "data": {"id": f"e{number}"}}
        for number, pair in enumerate(pairs)
    ]
    return [*(person(name) for name in names), *edges]


def text(clauses: str, returned: str, tail: str = "", declared: str = "") -> str:
    """A query; `returned` may begin with `distinct`."""
    head, word, rest = returned.partition("distinct ")
    outputs = f"distinct {{ {rest} }}" if word and not head else f"{{ {returned} }}"
    return f"query q({declared}) {{ match {{ {clauses} }} return {outputs} {tail} }}"


def rows(
    graph: Graph,
    clauses: str,
    returned: str,
    tail: str = "",
    declared: str = "",
    *,
    branch: str | None = None,
    snapshot: str | int | None = None,
    **params: Any,
) -> list[Any]:
    """The rows in their order: plain values of a single column, tuples of several."""
    written = text(clauses, returned, tail, declared)
    found = graph.query(written, params=params, branch=branch, snapshot=snapshot)
    tuples = [tuple(row[name] for name in found.columns) for row in found.to_pylist()]
    return [each[0] for each in tuples] if len(found.columns) == 1 else tuples


def bag(graph: Graph, clauses: str, returned: str, tail: str = "", declared: str = "", **rest: Any) -> list[Any]:
    """The rows as a multiset: sorted, nulls first."""
    return sorted(rows(graph, clauses, returned, tail, declared, **rest), key=_sortable)


def _sortable(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return [(each is not None, str(type(each)), each if each is not None else 0) for each in values]
