"""All rules over all deltas, in the order in which their violations are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.errors import Violation
from omnigraph.versioning.plan import Requirement
from omnigraph.write.validation.edges import check_cardinality, check_endpoints, check_removed_nodes
from omnigraph.write.validation.fields import check_fields
from omnigraph.write.validation.findings import DEFAULT_LIMIT, Findings, raise_first
from omnigraph.write.validation.keys import check_keys, check_uniques
from omnigraph.write.validation.model import Base, TableDelta


@dataclass(frozen=True, slots=True)
class Verdict:
    """The violations, and the requirements that must still hold when the write is published."""

    violations: tuple[Violation, ...]
    requirements: tuple[Requirement, ...]

    def accepted(self) -> tuple[Requirement, ...]:
        """The requirements of a write without violations; raises otherwise."""
        raise_first(self.violations)
        return self.requirements


_RULES_BETWEEN_TABLES = 3


def validate(
    base: Base,
    deltas: Mapping[str, TableDelta],
    *,
    limit: int = DEFAULT_LIMIT,
    progress: Listener | None = None,
) -> Verdict:
    """Check a write by the rows that exist after it: values, keys, unique values, endpoints, cardinality.

    `progress` gets a step for each table and for each rule between tables.
    """
    found = Findings(limit)
    requirements: list[Requirement] = []
    with PhaseProgress(progress, "check", len(deltas) + _RULES_BETWEEN_TABLES, "steps") as phase:
        for delta in deltas.values():
            if not delta.fields_checked:
                check_fields(delta.entity, delta.written, delta.places, found)
        for delta in deltas.values():
            requirements.extend(check_keys(base, delta, found))
            requirements.extend(check_uniques(base, delta, found))
            phase.advance(1, rows=len(delta.inserted) + len(delta.updated))
        requirements.extend(check_endpoints(base, deltas, found))
        phase.advance(1)
        requirements.extend(check_removed_nodes(base, deltas, found))
        phase.advance(1)
        requirements.extend(check_cardinality(base, deltas, found))
    return Verdict(tuple(found), tuple(requirements))
