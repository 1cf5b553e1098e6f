"""Expectations about the rows of a source: conditions in Spark SQL, and what happens to a row that breaks one."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import InvalidArgument

WARN, DROP, FAIL = "warn", "drop", "fail"
ON_FAIL = (WARN, DROP, FAIL)
IGNORE, REFUSE, ADD = "ignore", "refuse", "add"
UNKNOWN = (IGNORE, REFUSE, ADD)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition over the columns of a source. Rows for which it is not true are counted, dropped, or end the load."""

    rule: str
    on_fail: str = FAIL
    name: str = ""

    def __post_init__(self) -> None:
        if self.on_fail not in ON_FAIL:
            raise InvalidArgument(f"on_fail {self.on_fail!r} is unknown", hint=f"use one of {', '.join(ON_FAIL)}")
        if not self.rule.strip():
            raise InvalidArgument("an expectation needs a rule", hint="a condition in Spark SQL, such as age >= 0")
        if not self.name:
            object.__setattr__(self, "name", self.rule)
