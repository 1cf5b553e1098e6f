"""Violations beside wrong values: a refused load reports duplicates and missing ends in the same run.

Rows with a wrong value are left out before rules between rows are checked, so some of these cannot be checked: an edge
is not wrong because the row of its node is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.errors import Violation
from omnigraph.schema.catalog import EdgeType
from omnigraph.write.validation.check import validate
from omnigraph.write.validation.findings import by_place
from omnigraph.write.validation.model import Base, TableDelta


def faults_beside(
    base: Base, deltas: Mapping[str, TableDelta], wrong: Iterable[Violation], *, is_complete: bool
) -> list[Violation]:
    """Violations among the rows that were read whole, at most as many as a validation reports.

    `wrong` are the rows that were left out of `deltas`. Not `is_complete`: reading stopped before the end of the input.
    """
    incomplete = {each.type_key for each in wrong}
    return [
        each
        for each in by_place(validate(base, deltas).violations)
        if each.rule not in ("endpoint", "card")
        or (is_complete and None not in incomplete and not incomplete & _judged_by(deltas, each))
    ]


def _judged_by(deltas: Mapping[str, TableDelta], violation: Violation) -> set[str | None]:
    """The types whose rows decide whether an edge has its ends, and a node its number of edges."""
    entity = deltas[str(violation.type_key)].entity if violation.type_key in deltas else None
    if not isinstance(entity, EdgeType):
        return {violation.type_key}
    return {violation.type_key, f"node:{entity.source}", f"node:{entity.target}"}
