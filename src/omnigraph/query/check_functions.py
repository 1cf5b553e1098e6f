"""Calls with their types: aggregates, full-text tests, rankings, paths.             (ast -> CHECK -> lower -> ir)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn, cast

from omnigraph.datatypes import INTEGERS, PropertyType, Scalar
from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.grammar import AGGREGATES, FUNCTIONS, PATH_FUNCTIONS, RANKS, TEXT_FUNCTIONS
from omnigraph.query.scope import Variable
from omnigraph.query.syntax_hints import unknown_function

if TYPE_CHECKING:
    from omnigraph.query.check_expressions import Expressions

DEFAULT_EDITS = 2
DEFAULT_RRF_K = 60

_SHAPES = {
    "search": "search($d.title, $text)",
    "match_text": "match_text($d.title, $text)",
    "fuzzy": "fuzzy($d.title, $text, 2)",
    "bm25": "bm25($d.title, $text)",
    "nearest": "nearest($d.embedding, $vector)",
    "rrf": "rrf(nearest($d.embedding, $vector), bm25($d.title, $text))",
}
_RULES = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20", "nearest": "T15", "rrf": "T21"}


class Functions:
    """Checks the calls of one place."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.checks = expressions.checks
        self._inside_aggregate = False

    def call(self, node: ast.Call) -> ir.Expr:
        """Return the typed form of a call."""
        if node.function not in FUNCTIONS:
            message, hint = unknown_function(node.function)
            self.checks.fail(None, message, node.span, hint)
        if (node.distinct or node.star) and node.function not in AGGREGATES:
            mark = "distinct" if node.distinct else "*"
            self.checks.fail(None, f"`{node.function}` takes no `{mark}`", node.span, "only aggregates do")
        if node.function == "now":
            if node.arguments:
                self.checks.fail(None, "`now()` takes nothing", node.span, "write `now()`")
            return ir.Now(vt.DATETIME)
        if self.expressions.place.target is not None:
            hint = "a mutation tests and sets single rows; find them with a read first"
            self.checks.fail(None, f"`{node.function}` works in reads only", node.span, hint)
        if node.function in AGGREGATES:
            return self._aggregate(node)
        if node.function in TEXT_FUNCTIONS:
            return self._text_match(node)
        if node.function in PATH_FUNCTIONS:
            return self._path(node)
        assert node.function in RANKS
        return self._rrf(node) if node.function == "rrf" else self._rank(node)

    # --- aggregates -------------------------------------------------------------------------------------------------

    def _aggregate(self, node: ast.Call) -> ir.Expr:
        name = cast(ir.AggregateName, node.function)
        place = self.expressions.place
        if not place.aggregates:
            hint = "aggregates stand in `return`, `having` and `order`"
            self.checks.fail(None, f"`{name}` cannot be used in `match`", node.span, hint)
        if self._inside_aggregate:
            self.checks.fail("T8", f"`{name}` stands inside another aggregate", node.span, "aggregate once")
        if node.star:
            if name != "count":
                self.checks.fail("T8", f"`{name}` needs a value", node.span, f"write `{name}($p.age)`")
            return ir.Aggregate("count", None, False, vt.I64)
        if len(node.arguments) != 1:
            self.checks.fail("T8", f"`{name}` takes one value", node.span, f"write `{name}($p.age)`")
        self._inside_aggregate = True
        operand = self.expressions.check(node.arguments[0])
        self._inside_aggregate = False
        yields = self._aggregate_type(node, operand)
        return ir.Aggregate(name, operand, node.distinct, yields)

    def _aggregate_type(self, node: ast.Call, operand: ir.Expr) -> ir.ExprType:
        name, found = node.function, operand.type.value
        span = node.arguments[0].span
        if found is not None and found.scalar is Scalar.BLOB:
            self.checks.fail("T24", "a blob cannot be aggregated", span, "blobs are fetched by the id of their node")
        if name == "count":
            return vt.I64
        if found is None or not found.is_plain_scalar:
            hint = "aggregate one of its properties" if operand.type.kind == "node" else "aggregate single values"
            self.checks.fail("T8", f"`{name}` does not work on {_shown(operand.type)}", span, hint)
        if name == "collect":
            return vt.value(PropertyType(found.scalar, is_list=True))
        may_be_null = operand.type.nullable or not self.expressions.place.grouped
        if name in ("sum", "avg"):
            if not found.is_numeric:
                self.checks.fail("T8", f"`{name}` needs numbers, found {found}", span, "count or collect it instead")
            return vt.nullable(vt.F64, may_be_null)
        if not found.is_numeric and found.scalar is not Scalar.STRING:
            self.checks.fail("T8", f"`{name}` needs numbers or Strings, found {found}", span, "order by it and limit")
        return vt.nullable(operand.type, may_be_null)

    # --- text and rankings --------------------------------------------------------------------------------------------

    def _text_match(self, node: ast.Call) -> ir.Expr:
        most = 3 if node.function == "fuzzy" else 2
        if not 2 <= len(node.arguments) <= most:
            self._refuse(node, f"`{node.function}` takes a property and a text")
        variable, name = self._text_property(node)
        query = self._text_query(node)
        edits: ir.Expr | None = None
        if node.function == "fuzzy":
            edits = self._integer(node, 2, DEFAULT_EDITS, "edits")
            if isinstance(edits, ir.Const) and edits.value < 0:
                self.checks.fail("T19", "edits cannot be negative", node.arguments[2].span, "write 1 or 2")
        kind = cast('Literal["search", "match_text", "fuzzy"]', node.function)
        return ir.TextMatch(kind, variable.name, name, query, edits, vt.BOOL)

    def _rank(self, node: ast.Call) -> ir.Bm25 | ir.Nearest:
        if len(node.arguments) != 2:
            self._refuse(node, f"`{node.function}` takes a property and a query")
        if node.function == "bm25":
            variable, name = self._text_property(node)
            query = self._text_query(node)
            return ir.Bm25(variable.name, name, query, vt.nullable(vt.F64, variable.optional))
        variable, name, found = self._searched(node)
        if found.dimension is None:
            hint = "write `search`, `match_text` or `bm25` to look into text"
            self.checks.fail("T15", f"`nearest` needs a Vector, `{name}` is {found}", node.arguments[0].span, hint)
        query = self._vector_query(node, found.dimension)
        yields = vt.nullable(vt.F64, variable.optional or found.nullable)
        return ir.Nearest(variable.name, name, query, self._metric(node, variable, name), yields)

    def _vector_query(self, node: ast.Call, dimension: int) -> ir.Expr:
        query = self.expressions.check(node.arguments[1])
        span = node.arguments[1].span
        found = query.type.value
        if isinstance(query, ir.Const) and found is not None and found.is_list and found.scalar is not Scalar.STRING:
            values = as_vector(query.value)
            if values is None:
                self.checks.fail("T15", "a vector holds numbers", span, "write `[0.1, 0.2]`")
            query = ir.Const(values, vt.value(PropertyType(Scalar.F32, dimension=len(values))))
            found = query.type.value
        if found is not None and found.dimension is not None:
            if found.dimension != dimension:
                message = f"the query has {found.dimension} numbers, the property {dimension}"
                self.checks.fail("T15", message, span, f"pass a `Vector({dimension})`")
            return query
        if not vt.is_text(query.type):
            hint = f"pass a `Vector({dimension})`, a list of {dimension} numbers, or a String to embed"
            self.checks.fail("T15", f"`nearest` cannot search with {_shown(query.type)}", span, hint)
        self._refuse_varying(node, query)
        return query

    def _metric(self, node: ast.Call, variable: Variable, name: str) -> Literal["l2", "cosine", "dot"]:
        metrics = set()
        for type_name in variable.types:
            indexes = self.checks.catalog.nodes[type_name].indexes
            found = next((each.metric for each in indexes if each.properties == (name,)), None)
            metrics.add(found or "l2")
        if len(metrics) > 1:
            hint = "bind the variable to one of the types"
            self.checks.fail("T15", f"`{name}` is measured differently in {', '.join(variable.types)}", node.span, hint)
        return cast('Literal["l2", "cosine", "dot"]', metrics.pop())

    def _rrf(self, node: ast.Call) -> ir.Expr:
        if not 2 <= len(node.arguments) <= 3:
            self._refuse(node, "`rrf` takes two rankings")
        arms = []
        for argument in node.arguments[:2]:
            if not isinstance(argument, ast.Call) or argument.function not in ("nearest", "bm25"):
                hint = f"write `{_SHAPES['rrf']}`"
                self.checks.fail("T21", "`rrf` fuses `nearest` and `bm25` only", argument.span, hint)
            arms.append(self._rank(argument))
            if ir.variables(arms[-1].query):
                hint = "pass the vector as a parameter"
                self.checks.fail("T21", "`rrf` ranks nodes, this ranks rows", argument.arguments[1].span, hint)
        if arms[0].var != arms[1].var:
            hint = "both rankings must be about the same variable"
            self.checks.fail("T21", f"`rrf` ranks `${arms[0].var}` and `${arms[1].var}`", node.span, hint)
        k = self._integer(node, 2, DEFAULT_RRF_K, "k")
        if isinstance(k, ir.Const) and k.value <= 0:
            self.checks.fail("T21", "`k` must be greater than 0", node.arguments[2].span, "leave it out for 60")
        return ir.Rrf(arms[0], arms[1], k, vt.nullable(vt.F64, any(arm.type.nullable for arm in arms)))

    def _searched(self, node: ast.Call) -> tuple[Variable, str, PropertyType]:
        argument = node.arguments[0]
        if not isinstance(argument, ast.PropertyRef):
            rule = _RULES[node.function]
            hint = f"write `{_SHAPES[node.function]}`"
            self.checks.fail(rule, f"`{node.function}` searches a property of a node", argument.span, hint)
        scope = self.expressions.place.scope
        found = scope.find(argument.var.text) if scope else None
        if found is None and node.function == "nearest":
            hint = f"bind it in `match`: `${argument.var.text}: Type`"
            self.checks.fail("T15", f"`${argument.var.text}` is not bound", argument.var.span, hint)
        if found is not None and found.kind == "edge":
            hint = "only properties of nodes can be searched"
            self.checks.fail("T23", f"`{node.function}` cannot search the edge `${found.name}`", argument.span, hint)
        if node.function == "nearest":
            self._nearest_property(argument, cast(Variable, found))
        prop = self.expressions.property(argument)
        return self.expressions.bound(argument.var), prop.name, cast(PropertyType, prop.type.value)

    def _nearest_property(self, argument: ast.PropertyRef, variable: Variable) -> None:
        for type_name in variable.types:
            known = {each.name: each.type for each in self.checks.catalog.nodes[type_name].properties}
            if argument.name.text not in known:
                vectors = sorted(name for name, found in known.items() if found.is_vector)
                hint = f"its vectors: {', '.join(vectors)}" if vectors else f"{type_name} has no vectors"
                message = f"{type_name} has no property `{argument.name.text}`"
                self.checks.fail("T15", message, argument.name.span, hint)

    def _text_property(self, node: ast.Call) -> tuple[Variable, str]:
        variable, name, found = self._searched(node)
        if not vt.is_text(vt.value(found)):
            message = f"`{node.function}` needs a String, `{name}` is {found}"
            self.checks.fail(
                _RULES[node.function], message, node.arguments[0].span, f"write `{_SHAPES[node.function]}`"
            )
        return variable, name

    def _text_query(self, node: ast.Call) -> ir.Expr:
        query = self.expressions.check(node.arguments[1])
        if not vt.is_text(query.type):
            message = f"`{node.function}` searches for a String, found {_shown(query.type)}"
            self.checks.fail(
                _RULES[node.function], message, node.arguments[1].span, f"write `{_SHAPES[node.function]}`"
            )
        self._refuse_varying(node, query)
        return query

    def _refuse_varying(self, node: ast.Call, query: ir.Expr) -> None:
        """Refuse a text that varies by row: it is tokenized or embedded once for all rows."""
        if ir.variables(query):
            message = f"`{node.function}` searches for one value, this one differs from row to row"
            hint = "pass it as a parameter, one query for each"
            self.checks.fail(_RULES[node.function], message, node.arguments[1].span, hint)

    def _integer(self, node: ast.Call, index: int, default: int, what: str) -> ir.Expr:
        if len(node.arguments) <= index:
            return ir.Const(default, vt.I64)
        expr = self.expressions.check(node.arguments[index])
        found = expr.type.value
        if not isinstance(expr, ir.Const | ir.Param) or found is None or not is_integer(found):
            message = f"`{what}` must be a whole number, found {_shown(expr.type)}"
            self.checks.fail(_RULES[node.function], message, node.arguments[index].span, "write for example 2")
        return expr

    def _refuse(self, node: ast.Call, message: str) -> NoReturn:
        self.checks.fail(_RULES[node.function], message, node.span, f"write `{_SHAPES[node.function]}`")

    # --- paths --------------------------------------------------------------------------------------------------------

    def _path(self, node: ast.Call) -> ir.Expr:
        hint = f"write `$path: shortest $a knows{{1,6}} $b` and `{node.function}($path)`"
        if len(node.arguments) != 1 or not isinstance(node.arguments[0], ast.Var):
            self.checks.fail(None, f"`{node.function}` takes a path", node.span, hint)
        scope = self.expressions.place.scope
        found = scope.find(node.arguments[0].name) if scope else None
        if found is None or found.kind != "path":
            message = f"`${node.arguments[0].name}` is not a path"
            self.checks.fail(None, message, node.arguments[0].span, hint)
        if node.function == "length":
            return ir.PathLength(found.name, vt.nullable(vt.I64, found.optional))
        ids = PropertyType(Scalar.STRING, found.optional, is_list=True)
        return ir.PathNodes(found.name, vt.value(ids))


def is_integer(found: PropertyType) -> bool:
    """Return whether the expression is a single integer."""
    return found.scalar in INTEGERS and not found.is_list


def as_vector(values: tuple[object, ...]) -> tuple[float, ...] | None:
    """Return list items as the F32 numbers of a vector; None when one is not a number of that range."""
    found = []
    for each in values:
        number = vt.single(float(each)) if isinstance(each, int | float) and not isinstance(each, bool) else None
        if number is None:
            return None
        found.append(number)
    return tuple(found)


def _shown(found: ir.ExprType) -> str:
    return "null" if found.kind == "null" else f"a node ({found})" if found.kind == "node" else str(found)
