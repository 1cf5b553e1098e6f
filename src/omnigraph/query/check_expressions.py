"""Expressions with their types: `ast.Expression -> ir.Expr`.                        (ast -> CHECK -> lower -> ir)

One checker serves every place where an expression may stand; `Place` holds the rules of that place. Blobs pass as
operands of `is null` only, whole nodes as operands of `count` and `is null`; the place of use refuses them elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import Span
from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.check_functions import Functions
from omnigraph.query.grammar import COMPARISONS, TEXT_TESTS
from omnigraph.query.scope import ANONYMOUS, Checks, Scope, Variable, name_hint
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.names import nearest, suggest


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an expression: the variables in scope, and the columns or the row that bare names refer to."""

    scope: Scope | None = None
    columns: Mapping[str, ir.Expr] = field(default_factory=dict)
    target: NodeType | EdgeType | None = None
    aggregates: bool = False
    # Whether an aggregate always sees at least one row: only groups are never empty.
    grouped: bool = False
    # Whether bare names are properties of a row that is there: an insert has none yet.
    has_row: bool = False


class Expressions:
    """Checks the expressions of one place."""

    def __init__(self, checks: Checks, place: Place) -> None:
        self.checks = checks
        self.place = place
        self.functions = Functions(self)

    def check(self, node: ast.Expression) -> ir.Expr:
        """Return the typed form of an expression."""
        match node:
            case ast.Literal():
                return self._literal(node)
            case ast.ListLiteral():
                return self._list(node)
            case ast.Var() | ast.PropertyRef() | ast.IdRef() | ast.Word():
                return self._reference(node)
            case ast.Call():
                return self.functions.call(node)
            case ast.Unary():
                return self._unary(node)
            case ast.Binary():
                return self._binary(node)
            case ast.NullTest():
                operand = self.check(node.operand)
                return ir.IsNull(operand, node.negated, vt.BOOL)
            case ast.Logic():
                operands = tuple(self.boolean(each) for each in node.operands)
                yields = vt.nullable(vt.BOOL, any(each.type.nullable for each in operands))
                return ir.And(operands, yields) if node.op == "and" else ir.Or(operands, yields)

    def boolean(self, node: ast.Expression) -> ir.Expr:
        """Return a typed expression that is boolean; refuse any other."""
        expr = self.check(node)
        found = expr.type.value
        if found is None or found.scalar is not Scalar.BOOL or not found.is_plain_scalar:
            hint = "compare it with something: `$p.age > 30`"
            self.checks.fail("T7", f"expected true or false, found {describe(expr.type)}", node.span, hint)
        return expr

    # --- leaves -----------------------------------------------------------------------------------------------------

    def _literal(self, node: ast.Literal) -> ir.Expr:
        if node.value is None or isinstance(node.value, bool):
            self._refuse_ambiguous({None: "null", True: "true", False: "false"}[node.value], node.span)
        if node.value is None:
            return ir.Const(None, vt.NULL)
        return ir.Const(node.value, vt.value(PropertyType(vt.scalar_of(node.value))))

    def _refuse_ambiguous(self, word: str, span: Span) -> None:
        """Refuse a word that is both a value and the name of a property or column: either reading may be meant."""
        target = self.place.target if self.place.has_row else None
        if word in self.place.columns or (target is not None and any(p.name == word for p in target.properties)):
            owner = "column" if target is None else f"property of {target.name}"
            hint = "pass the value as a parameter; give the " + owner.split()[0] + " another name to use it here"
            self.checks.fail(None, f"`{word}` is a value and a {owner}", span, hint)

    def _list(self, node: ast.ListLiteral) -> ir.Expr:
        values = []
        for item in node.items:
            if isinstance(item, ast.ListLiteral):
                self.checks.fail(None, "a list cannot hold lists", item.span, "write one flat list")
            if item.value is None:
                self.checks.fail(None, "a list cannot hold null", item.span, "leave it out, or test with `is null`")
            values.append(item.value)
        kinds = {vt.scalar_of(each) for each in values}
        if kinds <= {Scalar.I64, Scalar.U64, Scalar.F64} and Scalar.F64 in kinds:
            values = [float(cast(float, each)) for each in values]
            kinds = {Scalar.F64}
        if len(kinds) > 1:
            found = " and ".join(sorted(kinds))
            self.checks.fail(None, f"this list mixes {found}", node.span, "all items of a list have one type")
        scalar = next(iter(kinds), Scalar.STRING)
        return ir.Const(tuple(values), vt.value(PropertyType(scalar, is_list=True)))

    def _reference(self, node: ast.Var | ast.PropertyRef | ast.IdRef | ast.Word) -> ir.Expr:
        match node:
            case ast.Var():
                return self._variable(node)
            case ast.PropertyRef():
                return self.property(node)
            case ast.IdRef():
                variable = self.bound(node.var)
                if variable.kind == "path":
                    self.checks.fail("T6", f"the path `${variable.name}` has no id", node.span, "write `nodes($path)`")
                return ir.EntityId(variable.name, vt.nullable(vt.STRING, variable.optional))
            case ast.Word():
                return self._word(node)

    def _variable(self, node: ast.Var) -> ir.Expr:
        found = self.place.scope.find(node.name) if self.place.scope else None
        if found is None or node.name == ANONYMOUS:
            return self.parameter(ast.Name(node.name, node.span))
        if found.kind == "edge":
            hint = f"write a property such as `${node.name}.since`, or `${node.name}.@id`"
            self.checks.fail("T23", f"the edge `${node.name}` is no value", node.span, hint)
        if found.kind == "path":
            hint = f"write `length(${node.name})` or `nodes(${node.name})`"
            self.checks.fail(None, f"the path `${node.name}` is no value", node.span, hint)
        return ir.Entity(found.name, ir.ExprType(None, "node", found.types, found.optional))

    def parameter(self, name: ast.Name) -> ir.Param:
        """Return a declared parameter by name."""
        if name.text == ANONYMOUS:
            self.checks.fail(None, "`$_` has no value", name.span, "give the variable a name")
        if name.text not in self.checks.params:
            hint = self.checks.variable_hint(name.text, self.place.scope)
            if self.place.target is not None:
                self.checks.fail("T14", f"`${name.text}` is not a declared parameter", name.span, hint)
            self.checks.fail(None, f"`${name.text}` is neither bound nor a parameter", name.span, hint)
        return ir.Param(name.text, vt.value(self.checks.params[name.text]))

    def bound(self, name: ast.Name) -> Variable:
        """Return a bound variable by name, for access to its properties (T6)."""
        found = self.place.scope.find(name.text) if self.place.scope and name.text != ANONYMOUS else None
        if found is not None:
            return found
        if self.place.target is not None:
            hint = "in a mutation a property is a bare name: `name = $name`"
            self.checks.fail("T6", f"`${name.text}` is not bound", name.span, hint)
        if name.text in self.checks.params:
            hint = "parameters are plain values; bind a node with `$x: Type`"
            self.checks.fail("T6", f"the parameter `${name.text}` has no properties", name.span, hint)
        close = nearest(name.text, self.place.scope.names() if self.place.scope else ())
        hint = f"did you mean `${close}`?" if close else f"bind it in `match`: `${name.text}: Type`"
        return self.checks.fail("T6", f"`${name.text}` is not bound", name.span, hint)

    def property(self, node: ast.PropertyRef) -> ir.Prop:
        """Return a property of a bound node or edge (T6)."""
        variable = self.bound(node.var)
        if variable.kind == "path":
            hint = f"write `length(${variable.name})` or `nodes(${variable.name})`"
            self.checks.fail("T6", f"the path `${variable.name}` has no properties", node.span, hint)
        found = property_type(self.checks, variable, node.name)
        may_be_null = found.nullable or variable.optional
        return ir.Prop(variable.name, node.name.text, vt.nullable(vt.value(found), may_be_null))

    def _word(self, node: ast.Word) -> ir.Expr:
        if self.place.target is not None:
            return self._target_property(node)
        if node.text in self.place.columns:
            return self.place.columns[node.text]
        hint = suggest(
            node.text, self.place.columns, f"write `${node.text}` for a variable, or name a column with `as`"
        )
        return self.checks.fail(None, f"there is no column `{node.text}`", node.span, hint)

    def _target_property(self, node: ast.Word) -> ir.Expr:
        target = self.place.target
        assert target is not None
        if isinstance(target, EdgeType) and node.text in ("from", "to"):
            return ir.Prop("", "src" if node.text == "from" else "dst", vt.STRING)
        found = next((each for each in target.properties if each.name == node.text), None)
        if found is None:
            known = [each.name for each in target.properties]
            known += ["from", "to"] if isinstance(target, EdgeType) else []
            self.checks.fail(
                "T11", f"{target.name} has no property `{node.text}`", node.span, name_hint(node.text, known)
            )
        return ir.Prop("", found.name, vt.value(found.type))

    # --- operators --------------------------------------------------------------------------------------------------

    def _unary(self, node: ast.Unary) -> ir.Expr:
        if node.op == "not":
            operand = self.boolean(node.operand)
            return ir.Not(operand, operand.type)
        operand = self.check(node.operand)
        if not vt.is_number(operand.type):
            message = f"`-` needs a number, found {describe(operand.type)}"
            self.checks.fail("T7", message, node.operand.span, "only numbers can be computed with")
        return ir.Negate(operand, vt.arithmetic(ir.Const(-1, vt.I64), operand))

    def _binary(self, node: ast.Binary) -> ir.Expr:
        left, right = self.check(node.left), self.check(node.right)
        if node.op in COMPARISONS:
            return self.comparison(cast('Literal["=", "!=", "<", "<=", ">", ">="]', node.op), left, right, node)
        if node.op in TEXT_TESTS:
            return self._text_test(node, left, right)
        if node.op == "in":
            return self._membership(node, left, right)
        for side, expr in ((node.left, left), (node.right, right)):
            if not vt.is_number(expr.type):
                message = f"`{node.op}` needs numbers, found {describe(expr.type)}"
                self.checks.fail("T7", message, side.span, "only numbers can be computed with")
        op = cast('Literal["+", "-", "*", "/", "%"]', node.op)
        return ir.Arithmetic(op, left, right, vt.arithmetic(left, right))

    def comparison(
        self, op: Literal["=", "!=", "<", "<=", ">", ">="], left: ir.Expr, right: ir.Expr, node: ast.Binary
    ) -> ir.Expr:
        """Check `left op right`; a literal is folded to the type of the other side (T7)."""
        for side, expr in ((node.left, left), (node.right, right)):
            if expr.type.kind == "null":
                test = "is not null" if op == "!=" else "is null"
                self.checks.fail("T7", "nothing equals null, not even null", side.span, f"write `{test}`")
            if not vt.is_scalar(expr.type):
                hint = _comparison_hint(expr.type)
                self.checks.fail("T7", f"{describe(expr.type)} cannot be compared with `{op}`", side.span, hint)
        self.must_meet("T7", left.type, right.type, node.span, f"cannot compare {left.type} with {right.type}")
        left, right = vt.fold_literals(left, right.type), vt.fold_literals(right, left.type)
        return ir.Compare(op, left, right, vt.nullable(vt.BOOL, left.type.nullable or right.type.nullable))

    def _text_test(self, node: ast.Binary, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        if node.op == "contains" and vt.is_list(left.type):
            return self._membership(ast.Binary("contains", node.right, node.left, node.span), right, left)
        for side, expr in ((node.left, left), (node.right, right)):
            if not vt.is_text(expr.type):
                wanted = "a String or a list on its left" if side is node.left and node.op == "contains" else "Strings"
                hint = "numbers and dates are compared with `=`, `<` and the like"
                self.checks.fail("T7", f"`{node.op}` needs {wanted}, found {describe(expr.type)}", side.span, hint)
        yields = vt.nullable(vt.BOOL, left.type.nullable or right.type.nullable)
        return ir.TextTest("contains" if node.op == "contains" else "starts_with", left, right, yields)

    def _membership(self, node: ast.Binary, item: ir.Expr, items: ir.Expr) -> ir.Expr:
        if not vt.is_list(items.type):
            hint = (
                "write `contains` to look into a text" if vt.is_text(items.type) else "write `in [1, 2]` or `in $list`"
            )
            self.checks.fail("T7", f"`{node.op}` needs a list, found {describe(items.type)}", node.right.span, hint)
        if not vt.is_scalar(item.type):
            message = f"a list holds single values, {describe(item.type)} cannot be one of them"
            self.checks.fail("T7", message, node.left.span, "test one value at a time")
        return self.member("T7", item, items, node.span)

    def member(self, rule: str, item: ir.Expr, items: ir.Expr, span: Span) -> ir.Expr:
        """Check membership of a scalar in a list; their types must be comparable."""
        assert items.type.value is not None
        element = vt.value(PropertyType(items.type.value.scalar))
        if not (isinstance(items, ir.Const) and not items.value):
            self.must_meet(rule, item.type, element, span, f"{item.type} cannot be an item of {items.type}")
        folded = vt.fold_literals(items, item.type)
        return ir.Member(
            vt.fold_literals(item, folded.type),
            folded,
            vt.nullable(vt.BOOL, item.type.nullable or items.type.nullable),
        )

    def must_meet(self, rule: str, left: ir.ExprType, right: ir.ExprType, span: Span, message: str) -> None:
        """Fail unless two scalars can be compared or assigned."""
        assert left.value is not None
        assert right.value is not None
        if vt.scalars_meet(left.value.scalar, right.value.scalar):
            return
        kinds = {left.value.scalar, right.value.scalar}
        hint = "both sides must have one type"
        if kinds == {Scalar.STRING, Scalar.DATE}:
            hint = 'write `date("2024-01-31")`, or declare the parameter as Date'
        elif kinds == {Scalar.STRING, Scalar.DATETIME}:
            hint = 'write `datetime("2024-01-31T12:00:00Z")`, or declare the parameter as DateTime'
        elif kinds == {Scalar.DATE, Scalar.DATETIME}:
            hint = "a day and a moment differ: write both as `date(...)` or both as `datetime(...)`"
        elif Scalar.STRING in kinds:
            hint = "text takes double quotes; numbers, true and false take none"
        self.checks.fail(rule, message, span, hint)


def property_type(checks: Checks, variable: Variable, name: ast.Name, rule: str = "T6") -> PropertyType:
    """Return the type of a property that every type of the variable has."""
    types = []
    for type_name in variable.types:
        nodes = variable.kind == "node"
        owner: NodeType | EdgeType = checks.catalog.nodes[type_name] if nodes else checks.catalog.edges[type_name]
        found = next((each for each in owner.properties if each.name == name.text), None)
        if found is None:
            known = [each.name for each in owner.properties]
            checks.fail(rule, f"{type_name} has no property `{name.text}`", name.span, name_hint(name.text, known))
        types.append(found.type)
    unified = vt.unify(types)
    if unified is None:
        owners = ", ".join(variable.types)
        hint = "bind the variable to one of the types"
        checks.fail(rule, f"`{name.text}` has different types in {owners}", name.span, hint)
    return unified


def describe(found: ir.ExprType) -> str:
    """Return a type in the words of an error."""
    match found.kind:
        case "null":
            return "null"
        case "node":
            return f"a node ({found})"
        case _:
            return str(found)


def _comparison_hint(found: ir.ExprType) -> str:
    if found.kind == "node":
        return "compare ids, `$p.@id = $q.@id`, or properties"
    if found.value is not None and found.value.is_vector:
        return "order by `nearest($d.embedding, $q)`"
    if found.value is not None and found.value.scalar is Scalar.BLOB:
        return "blobs are fetched, never compared; `is null` works"
    return "test one item with `contains` or `in`"
