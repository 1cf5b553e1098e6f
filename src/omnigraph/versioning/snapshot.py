"""The content of one branch version: one pin per table, and the schema they were written under. Immutable and cheap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from omnigraph.errors import TypeNotFound
from omnigraph.storage.decode import (
    Malformed,
    as_change_list,
    as_commit_id,
    as_integer,
    as_list,
    as_object,
    as_table_key,
    as_table_location,
    as_text,
    as_texts,
    parse_json,
)
from omnigraph.storage.digests import NO_DIGESTS, Digests
from omnigraph.storage.layout import COMMIT_ID
from omnigraph.storage.tail import EMPTY_TAIL, Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """The pin of one table.

    `table_version` is the logical version (plus one for each publish that touched the table). `staged_version` is the
    Lance version that holds the rows; it decides whether two entries are the same. `content_version` names the commit
    that last changed the rows: equal means unchanged, whatever compaction did since. Within a `family` a row keeps its
    row id, also through compaction; a merge of two lines of the table begins a new one. `digests` are the recorded
    checksums of the files that the pin needs.
    """

    table_key: str
    type_id: str
    location: str
    table_version: int
    staged_version: int
    content_version: str
    row_count: int
    high_water: int = 0
    commit_id: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    tail: Tail = EMPTY_TAIL
    family: str = ""
    digests: Digests = NO_DIGESTS
    _text: str | None = field(init=False, default=None, repr=False, compare=False)
    """The text it was parsed from; None for an entry that was made from another one."""

    def is_same_pin(self, other: TableEntry) -> bool:
        """Whether both are one version of one table. Numbers alone do not decide: all tables begin with the same."""
        return self.location == other.location and self.staged_version == other.staged_version

    def metadata_text(self) -> str:
        """The metadata column of the `table_version` row. Versions are text: they exceed a signed 64-bit integer."""
        return self._text or json.dumps(
            {
                "staged_version": str(self.staged_version),
                "content_version": self.content_version,
                "type_id": self.type_id,
                "high_water": self.high_water,
                "commit_id": self.commit_id,
                "changes": dict(self.changes),
                "tail": self.tail.to_json(),
                "family": self.family,
                "digests": self.digests.to_json(),
            },
            separators=(",", ":"),
        )

    @classmethod
    @lru_cache(maxsize=1024)  # most pins of a version are those of the version before it
    def parse(cls, table_key: str, location: str, table_version: int, row_count: int, metadata: str) -> TableEntry:
        """The inverse of `metadata_text` plus the row's own columns, each checked; runs inside `decoding`."""
        value = as_object(parse_json(metadata), "the metadata of a pin")
        entry = cls(
            table_key=as_table_key(table_key),
            type_id=as_text(value["type_id"], "a type id", COMMIT_ID),
            location=as_table_location(location),
            table_version=as_integer(table_version, "a table version"),
            staged_version=as_integer(value["staged_version"], "a staged version"),
            content_version=as_commit_id(value["content_version"]),
            row_count=as_integer(row_count, "a number of rows"),
            high_water=as_integer(value["high_water"], "a high-water mark"),
            commit_id=as_text(value["commit_id"], "a commit id"),
            changes=parse_changes(value["changes"]),
            tail=Tail.from_json(value["tail"]),
            family=as_text(value.get("family", ""), "a family"),
            digests=Digests.from_json(value["digests"]),
        )
        if not location.startswith(table_key.partition(":")[0]):
            raise Malformed(f"{location} is not the location of {table_key}")
        object.__setattr__(entry, "_text", metadata)
        return entry


def parse_changes(value: Any) -> Mapping[str, Any]:
    """The change summary in a pin's metadata: lists, or the object that holds them."""
    given = as_object(value, "a summary of changes")
    for name, item in given.items():
        match name:
            case "base":
                as_integer(item, "a staged version")
            case "file":
                as_change_list(item)
            case "removed" | "masked":
                for each in as_list(item, "a list of fragments"):
                    as_integer(each, "a fragment")
            case _:
                as_texts(item, "a list of names")
    return given


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """A branch at one manifest version."""

    branch: str
    version: int
    commit_id: str
    schema_hash: str
    tables: Mapping[str, TableEntry]

    def __repr__(self) -> str:
        rows = ", ".join(f"{key} {entry.row_count}" for key, entry in sorted(self.tables.items()))
        return f"<Snapshot {self.branch}@{self.version} {self.commit_id}: {rows or 'no types'}>"

    def table(self, table_key: str) -> TableEntry:
        """The pin of one table."""
        entry = self.tables.get(table_key)
        if entry is None:
            known = ", ".join(sorted(self.tables)) or "none"
            raise TypeNotFound(f"this snapshot has no table {table_key!r}", hint=f"tables: {known}")
        return entry
