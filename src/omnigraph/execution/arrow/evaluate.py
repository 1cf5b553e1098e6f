"""Expressions over a frame, column at a time, in three-valued logic.

Overflow and division by zero are errors: no wrong number is returned.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.errors import InvalidValue, Unsupported
from omnigraph.execution.arrow.array_cache import ArrayCache
from omnigraph.execution.arrow.data import GraphData
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.text_index import TextIndex
from omnigraph.execution.embedding import EmbeddingProvider, embed_query
from omnigraph.query import ir
from omnigraph.schema.catalog import Property

_BLOCK = 2048
_FEW_VECTORS = 256
_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Request:
    """The inputs of a query: typed parameters, one moment for all expressions, and the embedding provider."""

    params: Mapping[str, Any]
    now: dt.datetime
    embedder: Callable[[], EmbeddingProvider | None] = lambda: None


@dataclass(frozen=True)
class Scope:
    """The types of the variables of a pattern."""

    nodes: Mapping[str, tuple[str, ...]]
    edges: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Held:
    """A column in memory, its cache key, and the places of some rows in it."""

    key: tuple[Hashable, ...]
    column: pa.Array
    places: np.ndarray[Any, np.dtype[np.int64]]


class Evaluator:
    """Evaluates expressions over one frame."""

    def __init__(
        self,
        data: GraphData,
        scope: Scope,
        request: Request,
        frame: Frame,
        known: Mapping[ir.Expr, pa.Array] | None = None,
    ) -> None:
        self._data = data
        self._scope = scope
        self._request = request
        self._frame = frame
        # Expressions that are computed already: aggregates of a group, grouping keys, output columns.
        self._known = known or {}

    def mask(self, expr: ir.Expr) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return where a boolean expression is true."""
        found = pc.fill_null(self.array(expr), False)
        truth: np.ndarray[Any, np.dtype[np.bool_]] = found.to_numpy(zero_copy_only=False).astype(np.bool_)
        return truth

    def over(self, frame: Frame) -> Evaluator:
        """Return an evaluator of other rows, without the values computed for these."""
        return Evaluator(self._data, self._scope, self._request, frame)

    def is_whole(self, expr: ir.Expr) -> bool:
        """Return whether an expression identifies the nodes (or edges) of its variable."""
        if not isinstance(expr, (ir.Prop, ir.EntityId, ir.Entity)):
            return False
        if isinstance(expr, ir.Entity):
            return True
        types = self._scope.edges.get(expr.var) or self._scope.nodes[expr.var]
        if len(types) != 1:
            return False
        if isinstance(expr, ir.EntityId):
            return True
        entity = self._data.entity(types[0], is_edge=expr.var in self._scope.edges)
        return expr.var in self._scope.nodes and entity.key == (expr.name,)

    @property
    def kept(self) -> ArrayCache:
        """Return the cache of values of whole columns."""
        return self._data.kept

    def held(self, expr: ir.Expr) -> Held | None:
        """Return the whole column of a property, if it is loaded or loading it is likely to pay."""
        if not isinstance(expr, ir.Prop) or expr in self._known or len(self._scope.nodes.get(expr.var, ())) != 1:
            return None
        span = self._data.nodes[self._scope.nodes[expr.var][0]]
        node = self._data.catalog.node(span.name)
        loaded, name = self._data.loaded(node), self._data.physical(node, expr.name)
        numbers = self._frame.numbers[expr.var]
        key = (self._data.pin(node), name)
        if not loaded.is_loaded(name) or not len(numbers) or int(numbers.min()) < 0:
            return None
        is_known = self.kept.find(("codes", *key)) is not None
        if not is_known and len(numbers) < span.count and not self.kept.is_wanted(("codes", *key)):
            return None
        return Held(key, loaded.column(name), numbers - span.offset)

    def array(self, expr: ir.Expr) -> pa.Array:
        """Return one value per row."""
        if self._known and expr in self._known:
            return self._known[expr]
        match expr:
            case ir.Const() | ir.Param() | ir.Now():
                return self._repeated(self.scalar(expr))
            case ir.Prop(var, name):
                return self._property(var, name)
            case ir.EntityId(var) | ir.Entity(var):
                return self._property(var, "id")
            case ir.Arithmetic() | ir.Negate():
                return self._number(expr)
            case ir.PathLength() | ir.PathNodes():
                return self._of_path(expr)
            case ir.Nearest(var, name, query, metric):
                return self._distances(var, name, query, metric)
            case ir.Bm25(var, name, query):
                text = self.scalar(query).as_py() or ""
                return pa.array(self._of_text(var, name, lambda index: index.bm25(text)))
            case ir.Rrf() | ir.Aggregate() | ir.Output():
                raise Unsupported(f"{type(expr).__name__} has no value here")
            case _:
                return self._logical(expr)

    def scalar(self, expr: ir.Expr) -> pa.Scalar:
        """Return a value that is the same in every row."""
        match expr:
            case ir.Const(value, kind):
                return constant(value, kind.value)
            case ir.Param(name, kind):
                return constant(self._request.params[name], kind.value)
            case ir.Now():
                return pa.scalar(self._request.now, pa.timestamp("ms", tz="UTC"))
            case _:
                return self.array(expr)[0]

    def _logical(self, expr: ir.Expr) -> pa.Array:
        match expr:
            case ir.Compare(op, left, right):
                return self._comparison(op, left, right)
            case ir.TextTest(op, left, right):
                return self._text_test(op, left, right)
            case ir.Member(item, items):
                return self._member(item, items)
            case ir.IsNull(operand, negated):
                nulls = self._is_null(operand)
                return pc.invert(nulls) if negated else nulls
            case ir.And(operands):
                return _folded(pc.and_kleene, [self.array(o) for o in operands])
            case ir.Or(operands):
                return _folded(pc.or_kleene, [self.array(o) for o in operands])
            case ir.Not(operand):
                return pc.invert(self.array(operand))
            case ir.TextMatch():
                return self._text_match(expr)
            case _:
                assert_never(expr)  # type: ignore[arg-type]

    def _comparison(self, op: str, left: ir.Expr, right: ir.Expr) -> pa.Array:
        if isinstance(left, (ir.Const, ir.Param)) and not isinstance(right, (ir.Const, ir.Param)):
            op, left, right = _FLIPPED[op], right, left
        if isinstance(right, (ir.Const, ir.Param)):
            values, value = self.array(left), self.scalar(right)
            if values.type == value.type:  # one value need not be repeated for every row
                return _COMPARE[op](values, value)
        return _COMPARE[op](*comparable(self.array(left), self.array(right)))

    def _property(self, var: str, name: str) -> pa.Array:
        numbers = self._frame.numbers[var]
        if var in self._scope.edges:
            return self._data.take(self._scope.edges[var], name, numbers, is_edge=True)
        return self._data.take(self._scope.nodes[var], name, numbers)

    def _distances(self, var: str, name: str, query: ir.Expr, metric: str) -> pa.Array:
        """Return exact distances: from one vector, computed per node and not per row; or from one vector per row."""
        if ir.variables(query):
            return pair_distances(self.array(own_vector(var, name)), self.array(query), metric)
        wanted = self.wanted_vector(var, name, query)
        numbers = self._frame.numbers[var]
        if wanted is None:
            return pa.nulls(len(numbers), pa.float64())
        distances = np.full(len(numbers), np.nan)
        for type_name in self._scope.nodes[var]:
            span = self._data.nodes[type_name]
            inside = np.flatnonzero((numbers >= span.offset) & (numbers < span.offset + span.count))
            if len(inside):
                found = self._of_vectors(type_name, name, numbers[inside] - span.offset, wanted, metric)
                distances[inside] = found
        return pa.array(distances, mask=np.isnan(distances))

    def _of_vectors(self, type_name: str, name: str, places: Any, wanted: Any, metric: str) -> Any:
        """Return distances of the vectors at some places of a type; NaN where there is none."""
        node = self._data.catalog.node(type_name)
        loaded = self._data.loaded(node)
        column = node.property(name).column
        if len(places) < _FEW_VECTORS and not loaded.is_loaded(column):
            return column_distances(loaded.take(column, places), wanted, metric)
        matrix, has_one = self._data.vectors(node, name)
        present = has_one[places]
        is_whole = len(places) == len(matrix) and bool(present.all())
        vectors = matrix if is_whole and bool((np.diff(places) == 1).all()) else matrix[places[present]]
        distances = np.full(len(places), np.nan)
        distances[present] = vector_distances(vectors, wanted, metric)
        return distances

    def wanted_vector(self, var: str, name: str, query: ir.Expr) -> Any:
        """Return the query vector: as given, or embedded from text."""
        prop = self._data.catalog.node(self._scope.nodes[var][0]).property(name)
        return query_vector(self.scalar(query).as_py(), prop, self._request)

    def _of_text(self, var: str, name: str, values: Callable[[TextIndex], Any]) -> Any:
        numbers = self._frame.numbers[var]
        return self._data.per_node(
            self._scope.nodes[var], numbers, lambda node: values(self._data.text_index(node, name))
        )

    def _text_match(self, test: ir.TextMatch) -> pa.Array:
        text = self.scalar(test.query).as_py() or ""

        edits = None if test.max_edits is None else int(self.scalar(test.max_edits).as_py())
        matches = self._of_text(test.var, test.property, lambda index: matching(index, test.kind, text, edits))
        return pa.array(matches)

    def _is_null(self, operand: ir.Expr) -> pa.Array:
        if isinstance(operand, ir.Entity):
            return pa.array(self._frame.numbers[operand.var] < 0)
        return pc.is_null(self.array(operand))

    def _repeated(self, value: pa.Scalar) -> pa.Array:
        return pa.repeat(value, self._frame.length)

    def _number(self, expr: ir.Arithmetic | ir.Negate) -> pa.Array:
        if isinstance(expr, ir.Negate):
            return self._checked(pc.negate_checked, _as_number(self.array(expr.operand), _arrow(expr.type)))
        return self._arithmetic(expr.op, self.array(expr.left), self.array(expr.right), _arrow(expr.type))

    def _of_path(self, expr: ir.PathLength | ir.PathNodes) -> pa.Array:
        paths = self._frame.paths[expr.var]
        if isinstance(expr, ir.PathNodes):
            return self._path_nodes(expr.var)
        return pa.array([None if path is None else len(path) - 1 for path in paths], pa.int64())

    def _path_nodes(self, var: str) -> pa.Array:
        types = tuple(self._data.nodes)
        flat = [n for path in self._frame.paths[var] for n in path or ()]
        ids = self._data.take(types, "id", np.array(flat, np.int64)).to_pylist()
        names = iter(ids)
        lists = [None if p is None else [next(names) for _ in p] for p in self._frame.paths[var]]
        return pa.array(lists, pa.list_(pa.string()))

    def _arithmetic(self, op: str, left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
        left, right = _as_number(left, kind), _as_number(right, kind)
        if op in "/%" and pc.any(pc.equal(right, pa.scalar(0, kind))).as_py():
            raise InvalidValue("division by zero", hint="filter out zero divisors first")
        if op == "%":
            quotient = self._checked(pc.divide_checked, left, right)
            whole = quotient if pa.types.is_integer(kind) else pc.trunc(quotient)
            return self._checked(pc.subtract_checked, left, self._checked(pc.multiply_checked, whole, right))
        function = {
            "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "/": pc.divide_checked,
        }[op]  # fmt: skip
        return self._checked(function, left, right)

    @staticmethod
    def _checked(function: Any, *operands: pa.Array) -> pa.Array:
        try:
            result = function(*operands)
        except pa.ArrowInvalid as error:
            raise InvalidValue(f"arithmetic failed: {error}", hint="the result does not fit its type") from None
        if pa.types.is_floating(result.type) and pc.any(pc.invert(pc.is_finite(result))).as_py():
            raise InvalidValue("arithmetic failed: overflow", hint="the result does not fit its type")
        return result

    def _text_test(self, op: str, left: ir.Expr, right: ir.Expr) -> pa.Array:
        text = self.array(left)
        if isinstance(right, (ir.Const, ir.Param)):
            pattern = self.scalar(right).as_py()
            if pattern is None:
                return pa.nulls(len(text), pa.bool_())
            return pc.match_substring(text, pattern) if op == "contains" else pc.starts_with(text, pattern)
        pairs = zip(text.to_pylist(), self.array(right).to_pylist(), strict=True)
        test = (lambda a, b: b in a) if op == "contains" else (lambda a, b: a.startswith(b))
        return pa.array([None if a is None or b is None else test(a, b) for a, b in pairs], pa.bool_())

    def _member(self, item: ir.Expr, items: ir.Expr) -> pa.Array:
        wanted = self.array(item)
        if isinstance(items, (ir.Const, ir.Param)):
            listed = self.scalar(items).as_py()
            if listed is None:
                return pa.nulls(len(wanted), pa.bool_())
            return self._in_fixed_list(wanted, listed, items)
        lists = self.array(items)
        parents = pc.list_parent_indices(lists)
        left, right = comparable(wanted.take(parents), pc.list_flatten(lists))
        equal = pc.fill_null(pc.equal(left, right), False)
        hits = np.zeros(len(lists), np.bool_)
        hits[parents.to_numpy()[equal.to_numpy(zero_copy_only=False)]] = True
        unknown = pc.or_(pc.is_null(wanted), pc.is_null(lists)).to_numpy(zero_copy_only=False)
        return pa.array(hits, mask=unknown)

    def _in_fixed_list(self, wanted: pa.Array, listed: list[Any], items: ir.Expr) -> pa.Array:
        known = [v for v in listed if v is not None]
        value = items.type.value
        kind = PropertyType(value.scalar).to_arrow() if value is not None else wanted.type
        left, options = comparable(wanted, pa.array(known, kind))
        found = pc.if_else(pc.is_null(wanted), None, pc.is_in(one_zero(left), value_set=one_zero(options)))
        # With a null among the options, a value that is not found is unknown.
        return pc.if_else(found, True, None) if len(known) < len(listed) else found


def matching(index: TextIndex, kind: str, text: str, edits: int | None) -> Any:
    """Return the rows for which a full-text test is true."""
    if kind == "search":
        return index.search(text)
    if kind == "match_text":
        return index.phrase(text)
    assert edits is not None
    return index.fuzzy(text, edits)


def query_vector(value: Any, prop: Property, request: Request) -> Any:
    """Return a vector as given, or the embedding of a text in the space of a property; null is no vector."""
    if not isinstance(value, str):
        return None if value is None else np.array(value, np.float64)
    recorded = prop.embed.model if prop.embed is not None else None
    assert prop.type.dimension is not None
    return embed_query(request.embedder(), value, prop.type.dimension, recorded).astype(np.float64)


def column_distances(column: pa.Array, wanted: Any, metric: str) -> Any:
    """Return distances of a column of vectors from one; NaN where there is none."""
    present = pc.is_valid(column)
    vectors = column.filter(present).flatten().to_numpy(zero_copy_only=False).reshape(-1, len(wanted))
    distances = np.full(len(column), np.nan)
    distances[present.to_numpy(zero_copy_only=False)] = vector_distances(vectors, wanted, metric)
    return distances


def own_vector(var: str, name: str) -> ir.Prop:
    """Return the property that a distance is measured from, as an expression."""
    return ir.Prop(var, name, ir.ExprType(None, "value"))


def pair_distances(left: pa.Array, right: pa.Array, metric: str) -> pa.Array:
    """Return distances of two columns of vectors, row by row; null where one has none."""
    present = pc.and_(pc.is_valid(left), pc.is_valid(right))
    distances = np.full(len(left), np.nan)
    rows = np.flatnonzero(present.to_numpy(zero_copy_only=False))
    for at in range(0, len(rows), _BLOCK):
        part = pa.array(rows[at : at + _BLOCK])
        sides = [side.take(part).flatten().to_numpy(zero_copy_only=False) for side in (left, right)]
        near, far = (side.reshape(len(part), -1).astype(np.float64) for side in sides)
        distances[rows[at : at + _BLOCK]] = _block_distances(near, far, metric)
    return pa.array(distances, mask=np.isnan(distances))


def vector_distances(vectors: Any, wanted: Any, metric: str) -> Any:
    """Return distances of rows from one vector, in double precision: smaller is nearer, whatever the metric."""
    distances = np.empty(len(vectors))
    # In blocks that fit the processor's cache: widening all vectors at once would cost more than the arithmetic.
    for at in range(0, len(vectors), _BLOCK):
        block = vectors[at : at + _BLOCK].astype(np.float64)
        distances[at : at + _BLOCK] = _block_distances(block, wanted, metric)
    return distances


def _block_distances(vectors: Any, wanted: Any, metric: str) -> Any:
    # Row by row: a product of matrices rounds equal rows differently, by their places, and ties would not be ties.
    if metric == "dot":
        return 1.0 - np.vecdot(vectors, wanted)
    if metric == "cosine":
        lengths = np.sqrt(np.vecdot(vectors, vectors)) * np.sqrt(np.vecdot(wanted, wanted))
        return 1.0 - np.vecdot(vectors, wanted) / np.where(lengths == 0, 1.0, lengths)
    vectors -= wanted
    return np.vecdot(vectors, vectors)


def constant(value: Any, kind: PropertyType | None) -> pa.Scalar:
    """Return a Python value as an Arrow scalar of its type."""
    if kind is None:
        return pa.scalar(None, pa.null())
    arrow = kind.to_arrow()
    if isinstance(value, tuple):
        value = list(value)
    return pa.scalar(value, arrow)


def comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Convert both sides to a type that holds the values of either exactly, where there is one."""
    if left.type == right.type or pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return left, right
    kinds = {left.type, right.type}
    if all(pa.types.is_integer(k) for k in kinds):
        common = pa.decimal128(20, 0) if pa.uint64() in kinds else pa.int64()
    elif all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds):
        common = pa.float64()
    else:
        return left, right
    return left.cast(common, safe=False), right.cast(common, safe=False)


def one_zero(values: pa.Array) -> pa.Array:
    """Return floats with -0.0 written as 0.0: they are equal, but have different hashes."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _as_number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid:
        raise InvalidValue(
            "a number does not fit the type of its expression", hint="the result would overflow"
        ) from None


def _folded(function: Any, arrays: list[pa.Array]) -> pa.Array:
    result = arrays[0]
    for other in arrays[1:]:
        result = function(result, other)
    return result


def _arrow(kind: ir.ExprType) -> pa.DataType:
    assert kind.value is not None
    scalar = kind.value.scalar
    return PropertyType(scalar if scalar in INTEGERS | FLOATS else Scalar.F64).to_arrow()
