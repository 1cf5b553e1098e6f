"""Change data capture: what the rows of a source do to their keys, by columns or by a known format."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.errors import InvalidArgument, JobError

DEBEZIUM = "debezium"
DELTA = "delta"
PRESETS = (DEBEZIUM, DELTA)
UPSERT, DELETE = "upsert", "delete"
_NAMED = {
    DEBEZIUM: (("op", "__op"), ("ts_ms", "__ts_ms", "__source_ts_ms"), ("c", "u", "r"), ("d",), ("m",)),
    DELTA: (
        ("_change_type",), ("_commit_version",), ("insert", "update_postimage"), ("delete",), ("update_preimage",),
    ),
}  # fmt: skip
_META = {
    DEBEZIUM: ("before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"),
    DELTA: ("_change_type", "_commit_version", "_commit_timestamp"),
}


@dataclass(frozen=True, slots=True)
class Cdc:
    """Change events: what each row does to its key, and which of several events of a key is the last.

    `op` names the column of the operation. Its values in `delete` delete, those in `ignore` are skipped; `upsert` lists
    all others that are accepted, and is empty where every other value upserts. `sequence` names a column of integers,
    dates or times; `a.b` is a member of a struct. A `preset` (`debezium`, `delta`) sets all of this. `partial` keeps,
    of rows that exist, the values of properties that the source has no column for.
    """

    op: str | None = None
    sequence: str | None = None
    delete: tuple[str, ...] = ("D", "delete")
    upsert: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    partial: bool = False
    preset: str | None = None

    def __post_init__(self) -> None:
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise InvalidArgument(f"cdc {self.preset!r} is unknown", hint=f"use one of {', '.join(PRESETS)}")
            _, _, upsert, delete, ignore = _NAMED[self.preset]
            for name, values in (("upsert", upsert), ("delete", delete), ("ignore", ignore)):
                object.__setattr__(self, name, values)
        elif self.op is None or self.sequence is None:
            raise InvalidArgument("cdc needs `op` and `sequence`, or a preset", hint="or `cdc: debezium`, `cdc: delta`")
        elif not self.delete:
            raise InvalidArgument("cdc needs a value of `op` that deletes")
        twice = sorted(set(self.delete) & {*self.upsert, *self.ignore} | set(self.upsert) & set(self.ignore))
        if twice:
            raise InvalidArgument(f"cdc: {twice[0]!r} has two meanings", hint="name each value of `op` once")

    def op_column(self, names: Collection[str], place: str) -> str:
        """The column of the operation among those of a source."""
        return self._column("op", self.op, 0, names, place)

    def sequence_column(self, names: Collection[str], place: str) -> str:
        """The column, or the path of a member, that orders the events."""
        return self._column("sequence", self.sequence, 1, names, place)

    def _column(self, what: str, given: str | None, at: int, names: Collection[str], place: str) -> str:
        known = (given,) if given is not None else _NAMED[str(self.preset)][at]
        for name in known:
            if name in names or (given is not None and name.partition(".")[0] in names):
                return str(name)
        raise JobError(
            f"{place}: the {what} of its change events is missing: there is no column {known[0]!r}",
            hint=f"the source has {', '.join(names)}",
        )

    def is_meta(self, name: str) -> bool:
        """Whether a column describes the event and not the row."""
        if self.preset is None:
            return name in (self.op, self.sequence)
        return name in _META[self.preset] or name == self.sequence or (self.preset == DEBEZIUM and name[:2] == "__")

    def meaning(self, op: str | None) -> str | None:
        """`UPSERT`, `DELETE`, an empty text for an event to skip, None for an unknown operation."""
        if op in self.ignore:
            return ""
        if op in self.delete:
            return DELETE
        return UPSERT if op in self.upsert or (op is not None and not self.upsert) else None
