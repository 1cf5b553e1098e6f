"""The one validator of loads, mutations and merges. (rows -> VALIDATE -> stage -> plan -> publish)

`validate(base, deltas)` takes the delta of a write to each table, as Arrow, and the state it starts from. It returns
every violation up to a limit, and the requirements that make the publisher repeat the checks that read the graph. The
cost depends on the change: only ids and values that the deltas name are looked up, through the indexes of the tables.
"""

from __future__ import annotations

from omnigraph.write.validation.check import Verdict, validate
from omnigraph.write.validation.fields import check_fields
from omnigraph.write.validation.findings import Findings, raise_first
from omnigraph.write.validation.keys import replaced_rows
from omnigraph.write.validation.model import (
    NOWHERE,
    Base,
    Mask,
    Place,
    Places,
    Subject,
    TableDelta,
    needed_columns,
    no_ids,
)

__all__ = [
    "NOWHERE",
    "Base",
    "Findings",
    "Mask",
    "Place",
    "Places",
    "Subject",
    "TableDelta",
    "Verdict",
    "check_fields",
    "needed_columns",
    "no_ids",
    "raise_first",
    "replaced_rows",
    "validate",
]
