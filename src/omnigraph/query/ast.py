"""The parsed form of a `.gq` text, clause by clause, with places.              (text -> parser -> AST -> typecheck)

Nodes are frozen and hold the text as written, not its meaning. Places are ignored by equality: two texts that differ in
layout only have equal trees.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from omnigraph.datatypes import PropertyType
from omnigraph.errors import Span

Value = str | int | float | bool | dt.date | dt.datetime | None


@dataclass(frozen=True, slots=True)
class Name:
    """A name without its `$`, and where it stands."""

    text: str
    span: Span = field(compare=False)


# --- expressions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number, truth value, date, moment or null."""

    value: Value
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b]`."""

    items: tuple[Literal | ListLiteral, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Var:
    """`$name`: a variable of the pattern or a parameter."""

    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """`$var.name`."""

    var: Name
    name: Name
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class IdRef:
    """`$var.@id`."""

    var: Name
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Word:
    """A bare name: a column in `return`, `having` and `order`, a property of the row in a mutation."""

    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`; `star` is `count(*)`."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(compare=False)
    distinct: bool = False
    star: bool = False


@dataclass(frozen=True, slots=True)
class Unary:
    """`-operand` or `not operand`."""

    op: str
    operand: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, a comparison, `contains`, `starts_with` or `in`."""

    op: str
    left: Expression
    right: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`operand is null` or `operand is not null`."""

    operand: Expression
    negated: bool
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Logic:
    """`a and b and c`, or the same with `or`."""

    op: str
    operands: tuple[Expression, ...]
    span: Span = field(compare=False)


Expression = (
    Literal | ListLiteral | Var | PropertyRef | IdRef | Word | Call | Unary | Binary | NullTest | Logic
)  # fmt: skip


# --- pattern ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InlineMatch:
    """`property: value` inside the braces of a binding."""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Binding:
    """`$var: Type { property: value, ... }`."""

    var: Name
    type: Name
    matches: tuple[InlineMatch, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Hops:
    """`{low,high}`: numbers or parameters; `high` None is open."""

    low: int | Name
    high: int | Name | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$source edge $target` with its variants: alternatives, `<edge>`, an edge variable, hops, a shortest path."""

    source: Name
    edges: tuple[Name, ...]
    target: Name
    undirected: bool
    edge_var: Name | None
    hops: Hops | None
    path_var: Name | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """An expression that must be true."""

    expression: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class NotBlock:
    """`not { ... }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class OptionalBlock:
    """`optional { ... }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(compare=False)


Clause = Binding | Traversal | Filter | NotBlock | OptionalBlock


# --- queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParamDecl:
    """`$name: Type`."""

    name: Name
    type: PropertyType
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Projection:
    """`expression as alias`."""

    expression: Expression
    alias: Name | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class OrderItem:
    """`expression asc|desc`; `descending` is None when neither was written."""

    expression: Expression
    descending: bool | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """`match { ... } return { ... }` and what follows it."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()
    offset: int | Name | None = None
    limit: int | Name | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`property: value`."""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert Type { ... }`."""

    type: Name
    assignments: tuple[Assignment, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    """`update Type set { ... } where ...`."""

    type: Name
    assignments: tuple[Assignment, ...]
    where: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete Type where ...`."""

    type: Name
    where: Expression
    span: Span = field(compare=False)


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    """The statements of a query that writes."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One `query name($param: Type) { ... }`. `source` and `path` are kept so that later errors can quote the text."""

    name: Name
    params: tuple[ParamDecl, ...]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None
    source: str = field(default="", compare=False, repr=False)
    path: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of one text, in order."""

    queries: tuple[Query, ...]
    source: str = field(compare=False, repr=False)
    path: str | None = field(default=None, compare=False)
