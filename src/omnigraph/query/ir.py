"""The typed meaning of a query, which executors run.         (text -> parser -> ast -> typecheck -> lower -> IR)

Everything is resolved: types are expanded, directions chosen, anonymous variables named, literals folded to the type of
the property that they are compared with. Values only; the same query text and catalog always give an equal IR.

How a `Block` is evaluated. Its nodes and edges bind variables; every edge end is a node of this block or of one around
it. Then its optionals run in order: the ones without a match bind their new variables to null. Filters hold once all
their variables are bound, so one that names an optional's variable runs after it. Negations come last. Variables of an
optional are visible after it; those of a negation never are.

Three-valued logic: a comparison, arithmetic, `TextTest` or `Member` with a null operand is null; a filter keeps a row
only when it is true. `TextMatch` and `IsNull` are never null. Integer `/` truncates toward zero, `%` takes the sign of
the dividend; overflow and division by zero, floats included, are errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from omnigraph.datatypes import PropertyType

ExprKind = Literal["value", "node", "edge", "path", "null"]
Direction = Literal["out", "in", "both"]
TypeKind = Literal["node", "edge"]
AggregateName = Literal["count", "sum", "avg", "min", "max", "collect"]


@dataclass(frozen=True, slots=True)
class ExprType:
    """The type of an expression. `value` is set for kind "value", `types` (type names) for "node" and "edge".

    `optional` marks a node, edge or path of an optional block: the whole thing may be null.
    """

    value: PropertyType | None
    kind: ExprKind = "value"
    types: tuple[str, ...] = ()
    optional: bool = False

    @property
    def nullable(self) -> bool:
        """Return whether the expression may be null."""
        return self.optional or self.kind == "null" or (self.value is not None and self.value.nullable)

    def __str__(self) -> str:
        if self.value is not None:
            return str(self.value)
        text = "|".join(self.types) if self.types else self.kind
        return f"{text}?" if self.optional else text


@dataclass(frozen=True, slots=True)
class Const:
    """A literal: str, int, float, bool, `date`, UTC `datetime`, None, or a tuple of those for a list or a vector."""

    value: Any
    type: ExprType


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter, by its name without `$`."""

    name: str
    type: ExprType


@dataclass(frozen=True, slots=True)
class Prop:
    """A property (public name) of a node or edge variable; in a mutation `var` is "" and means the target row."""

    var: str
    name: str
    type: ExprType


@dataclass(frozen=True, slots=True)
class EntityId:
    """The id of a node or edge variable."""

    var: str
    type: ExprType


@dataclass(frozen=True, slots=True)
class Entity:
    """A whole node: its id and non-null properties without blobs and vectors when returned, its id when counted."""

    var: str
    type: ExprType


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of the request, the same in every expression."""

    type: ExprType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` over numbers; `type` is the type to compute in."""

    op: Literal["+", "-", "*", "/", "%"]
    left: Expr
    right: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class Negate:
    """`-operand`."""

    operand: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right` over scalars of one kind; numbers of different types are compared in a common one."""

    op: Literal["=", "!=", "<", "<=", ">", ">="]
    left: Expr
    right: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class TextTest:
    """`left contains right` or `left starts_with right` over Strings: exact, case-sensitive, no wildcards."""

    op: Literal["contains", "starts_with"]
    left: Expr
    right: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class Member:
    """Whether the scalar `item` is an element of the list `items`."""

    item: Expr
    items: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand is null`, or `is not null` when `negated`. The operand may be a whole node."""

    operand: Expr
    negated: bool
    type: ExprType


@dataclass(frozen=True, slots=True)
class And:
    """True when all operands are."""

    operands: tuple[Expr, ...]
    type: ExprType


@dataclass(frozen=True, slots=True)
class Or:
    """True when one operand is."""

    operands: tuple[Expr, ...]
    type: ExprType


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; null stays null."""

    operand: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Full-text test of a String property of a node: any token, the phrase, or tokens within `max_edits`.

    Null text does not match. `max_edits` is set for "fuzzy" only.
    """

    kind: Literal["search", "match_text", "fuzzy"]
    var: str
    property: str
    query: Expr
    max_edits: Expr | None
    type: ExprType


@dataclass(frozen=True, slots=True)
class Bm25:
    """The BM25 score of a String property of a node, 0 without a match. As order key: unmatched rows are dropped."""

    var: str
    property: str
    query: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class Nearest:
    """The distance of a vector property from `query`: a vector, or a String to embed first."""

    var: str
    property: str
    query: Expr
    metric: Literal["l2", "cosine", "dot"]
    type: ExprType


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of one variable: the sum of 1 / (k + rank + 1), ranks from 0."""

    left: Bm25 | Nearest
    right: Bm25 | Nearest
    k: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A value per group; `operand` None is `count(*)`. Nulls are skipped. sum and avg compute in F64."""

    function: AggregateName
    operand: Expr | None
    distinct: bool
    type: ExprType


@dataclass(frozen=True, slots=True)
class PathLength:
    """The number of edges of a shortest path."""

    var: str
    type: ExprType


@dataclass(frozen=True, slots=True)
class PathNodes:
    """The ids of the nodes of a shortest path, both ends included."""

    var: str
    type: ExprType


@dataclass(frozen=True, slots=True)
class Output:
    """A column of `QueryIR.outputs`, by name; appears in `order` and `having` only."""

    name: str
    type: ExprType


Expr = (
    Const
    | Param
    | Prop
    | EntityId
    | Entity
    | Now
    | Arithmetic
    | Negate
    | Compare
    | TextTest
    | Member
    | IsNull
    | And
    | Or
    | Not
    | TextMatch
    | Bm25
    | Nearest
    | Rrf
    | Aggregate
    | PathLength
    | PathNodes
    | Output
)


@dataclass(frozen=True, slots=True)
class NodePattern:
    """A node variable and the node types it may have. `declared` is False when only a traversal implies it."""

    var: str
    types: tuple[str, ...]
    declared: bool


@dataclass(frozen=True, slots=True)
class EdgePattern:
    """A traversal from `source` to `target` in `direction`: "out" follows edges from their `from` end.

    Without `edge_var` each (source row, target) pair counts once, with it each edge. `max_hops` None means unbounded.
    `path_var` asks for one shortest path per pair.
    """

    edge_types: tuple[str, ...]
    source: str
    target: str
    direction: Direction
    edge_var: str | None = None
    min_hops: Expr | int = 1
    max_hops: Expr | int | None = 1
    path_var: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """One scope of a pattern. `nodes` are the variables first bound here; all filters must hold."""

    nodes: tuple[NodePattern, ...]
    edges: tuple[EdgePattern, ...]
    filters: tuple[Expr, ...]
    optionals: tuple[Block, ...] = ()
    negations: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class ParamDecl:
    """A declared parameter."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result."""

    name: str
    expr: Expr
    type: ExprType


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One sort key. Nulls come first ascending, last descending; ties are broken by the ids of bound entities."""

    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class QueryIR:
    """A read. In an aggregate query the grouping keys are the outputs that hold no aggregate."""

    name: str
    params: tuple[ParamDecl, ...]
    pattern: Block
    outputs: tuple[OutputColumn, ...]
    distinct: bool = False
    having: Expr | None = None
    order: tuple[OrderKey, ...] = ()
    offset: Expr | int | None = None
    limit: Expr | int | None = None
    description: str | None = None
    instruction: str | None = None

    @property
    def is_aggregate(self) -> bool:
        """Return whether rows are grouped: an aggregate occurs in the outputs, in `having` or in `order`."""
        exprs = [column.expr for column in self.outputs] + [key.expr for key in self.order]
        if self.having is not None:
            exprs.append(self.having)
        return any(has_aggregate(expr) for expr in exprs)


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert`: assigned properties in written order; edge ends are spelled `src` and `dst`."""

    type_kind: TypeKind
    type_name: str
    assignments: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Update:
    """`update`: sets properties of every row where `where` is true."""

    type_kind: TypeKind
    type_name: str
    assignments: tuple[tuple[str, Expr], ...]
    where: Expr


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete`: removes every row where `where` is true; a node takes its edges along."""

    type_kind: TypeKind
    type_name: str
    where: Expr


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationIR:
    """A write: statements in order, each sees the effects of the ones before it."""

    name: str
    params: tuple[ParamDecl, ...]
    statements: tuple[Statement, ...]
    description: str | None = None
    instruction: str | None = None


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def children(expr: Expr) -> Iterator[Expr]:
    """Return the direct operands of an expression, in written order."""
    names = _FIELD_NAMES.get(type(expr))
    if names is None:
        names = _FIELD_NAMES[type(expr)] = tuple(each.name for each in fields(expr))
    for name in names:
        held = getattr(expr, name)
        if isinstance(held, Expr):
            yield held
        elif isinstance(held, tuple):
            yield from (item for item in held if isinstance(item, Expr))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all expressions inside it, outside in."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def blocks(block: Block) -> Iterator[Block]:
    """Yield the block and all blocks inside it, outside in."""
    yield block
    for inner in (*block.optionals, *block.negations):
        yield from blocks(inner)


def expressions(query: QueryIR) -> Iterator[Expr]:
    """Yield every expression of a query."""
    for block in blocks(query.pattern):
        yield from block.filters
    yield from (column.expr for column in query.outputs)
    yield from (key.expr for key in query.order)
    if query.having is not None:
        yield query.having


def has_aggregate(expr: Expr) -> bool:
    """Return whether an aggregate occurs anywhere in the expression."""
    return any(isinstance(each, Aggregate) for each in walk(expr))


def variables(expr: Expr) -> frozenset[str]:
    """Return the pattern variables that an expression reads."""
    return frozenset(each.var for each in walk(expr) if hasattr(each, "var"))
