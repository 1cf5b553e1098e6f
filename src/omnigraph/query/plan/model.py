"""The operators of a plan. Frozen values; `rows` is how many rows an operator is expected to leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.query import ir

REVERSED: Mapping[ir.Direction, ir.Direction] = {"out": "in", "in": "out", "both": "both"}
"""The direction of a traversal, by that of its reverse."""


@dataclass(frozen=True)
class Sizes:
    """The number of rows of every type, and the key property of node types whose key is one property."""

    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    keys: Mapping[str, str] = field(default_factory=dict)

    def of(self, types: tuple[str, ...]) -> int:
        """Return the number of nodes of several types."""
        return sum(self.nodes.get(name, 0) for name in types)

    def edges_of(self, types: tuple[str, ...]) -> int:
        """Return the number of edges of several types."""
        return sum(self.edges.get(name, 0) for name in types)


@dataclass(frozen=True, slots=True)
class Seek:
    """A lookup of nodes by id: `values` are texts, or values of the key property (`is_key`)."""

    values: ir.Expr
    is_key: bool
    condition: ir.Expr


@dataclass(frozen=True, slots=True)
class Scan:
    """Bind a variable to the nodes of its types that pass its own filters, for every input row.

    `pushed` are those of the `filters` that storage can decide from cold columns.
    """

    var: str
    types: tuple[str, ...]
    filters: tuple[ir.Expr, ...]
    seek: Seek | None
    pushed: tuple[ir.Expr, ...]
    rows: float


@dataclass(frozen=True, slots=True)
class Expand:
    """Follow an edge pattern from its bound end. `closes`: both ends are bound, so rows are only kept or dropped.

    `own` are filters on the reached variable alone.
    """

    edge: ir.EdgePattern
    near: str
    far: str
    forward: bool
    closes: bool
    own: tuple[ir.Expr, ...]
    rows: float

    @property
    def direction(self) -> ir.Direction:
        """Return the direction of the edges, seen from the bound end."""
        return self.edge.direction if self.forward else REVERSED[self.edge.direction]


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows where a condition is true."""

    condition: ir.Expr
    rows: float


@dataclass(frozen=True, slots=True)
class Optional:
    """Extend each row by the matches of an inner block, or by nulls when it has none."""

    block: ir.Block
    steps: tuple[Step, ...]
    rows: float


@dataclass(frozen=True, slots=True)
class Without:
    """Drop the rows for which an inner block has a match."""

    block: ir.Block
    steps: tuple[Step, ...]
    rows: float


@dataclass(frozen=True, slots=True)
class CountPaths:
    """Count the matches of a tree-shaped pattern without making them, per node of one of the `roots`."""

    roots: frozenset[str]
    rows: float


Step = Scan | Expand | Filter | Optional | Without | CountPaths


@dataclass(frozen=True, slots=True)
class Finish:
    """An operator on the matched rows: rank, group, project, having, distinct, sort or cut."""

    name: str
    detail: str
    rows: float


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """All operators of a query, in order.

    `count` replaces `match` when counting suffices and no filter leaves few nodes to start from. `stops_early`: rows
    may be made in slices until there are enough of them. `cuts_first`: rows are ordered and cut before projection.
    `carried`: the variables that are read after each step of `match`, where the others can be dropped. `streams`: rows
    may be projected a few at a time.
    """

    query: ir.QueryIR
    match: tuple[Step, ...]
    count: CountPaths | None
    stops_early: bool
    cuts_first: bool
    finish: tuple[Finish, ...]
    carried: tuple[frozenset[str], ...] | None = None
    streams: bool = False


def steps(plan: tuple[Step, ...]) -> Iterator[Step]:
    """Yield all steps, inner ones after the step that holds them."""
    for step in plan:
        yield step
        if isinstance(step, (Optional, Without)):
            yield from steps(step.steps)
