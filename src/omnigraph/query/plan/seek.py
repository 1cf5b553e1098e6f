"""Rule: turn an equality on a key into a lookup. A key of one property is the node's id, written as text."""

from __future__ import annotations

from omnigraph.datatypes import INTEGERS, Scalar
from omnigraph.query import ir
from omnigraph.query.plan.model import Seek, Sizes

_EXACT = INTEGERS | {Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME}
"""Types whose equal values have one canonical text, whatever the type of the literal."""


def seek_of(var: str, types: tuple[str, ...], filters: tuple[ir.Expr, ...], sizes: Sizes) -> Seek | None:
    """Return the first of a variable's own filters that names its nodes by key or by id."""
    for condition in filters:
        match condition:
            case ir.Compare("=", left, right):
                found = _seek(left, right, var, types, condition, sizes) or _seek(
                    right, left, var, types, condition, sizes
                )
            case ir.Member(item, items):
                found = _seek(item, items, var, types, condition, sizes)
            case _:
                found = None
        if found is not None:
            return found
    return None


def _seek(
    named: ir.Expr, values: ir.Expr, var: str, types: tuple[str, ...], condition: ir.Expr, sizes: Sizes
) -> Seek | None:
    if not isinstance(values, (ir.Const, ir.Param)) or values.type.value is None:
        return None
    scalar = values.type.value.scalar
    if isinstance(named, ir.EntityId) and named.var == var:
        return Seek(values, False, condition) if scalar is Scalar.STRING else None
    if not isinstance(named, ir.Prop) or named.var != var or named.type.value is None:
        return None
    kind = named.type.value.scalar
    same_kind = kind is scalar or (kind in INTEGERS and scalar in INTEGERS)
    if kind not in _EXACT or not same_kind or named.type.value.is_list:
        return None
    is_key = all(sizes.keys.get(each) == named.name for each in types)
    return Seek(values, True, condition) if is_key else None
