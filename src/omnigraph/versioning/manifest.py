"""The rows of `__manifest` and the state they hold: one version is the complete state of one branch.

A read is one open and one small scan at any history depth. Every publish writes all rows, so rows are few and short:
old commits move to history files, and long change lists to objects of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from omnigraph.api.commits import GraphCommit
from omnigraph.errors import CorruptGraph
from omnigraph.storage.decode import (
    Malformed,
    as_commit_id,
    as_history_file,
    as_integer,
    as_object,
    as_schema_hash,
    as_table_key,
    as_text,
    decoding,
    parse_json,
)
from omnigraph.storage.manifest_table import ManifestVersion
from omnigraph.versioning.commits import parse_commit_text
from omnigraph.versioning.format_version import INTERNAL_SCHEMA_VERSION, STAMP, require_supported_format
from omnigraph.versioning.snapshot import Snapshot, TableEntry

# Manifest rows are small and rewritten often: searching for a good encoding costs more than it saves.
_PLAIN = {"lance-encoding:compression": "none", "lance-encoding:dict-divisor": "100000"}


def _field(name: str, kind: pa.DataType, *, nullable: bool = True, **metadata: str) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata=_PLAIN | metadata)


MANIFEST_SCHEMA = pa.schema(
    [
        _field("object_id", pa.string(), nullable=False, **{"lance-schema:unenforced-primary-key": "true"}),
        _field("object_type", pa.string(), nullable=False),
        _field("location", pa.string()),
        _field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        _field("table_key", pa.string()),
        _field("table_version", pa.uint64()),
        _field("table_branch", pa.string()),
        _field("row_count", pa.uint64()),
    ],
    metadata={STAMP: str(INTERNAL_SCHEMA_VERSION)},
)
_READ_COLUMNS = [n for n in MANIFEST_SCHEMA.names if n not in ("base_objects", "table_branch")]


@dataclass(frozen=True, slots=True)
class HistoryExtent:
    """A file of archived commits: `count` of them, with ids between `first` and `last` (by text order)."""

    location: str
    level: int
    count: int
    first: str
    last: str

    @classmethod
    def parse(cls, location: str, metadata: str) -> HistoryExtent:
        """From the columns of a `history_extent` row, each checked; runs inside `decoding`."""
        value = as_object(parse_json(metadata), "the metadata of a history file")
        return cls(
            as_history_file(location),
            as_integer(value["level"], "a level"),
            as_integer(value["count"], "a number of commits"),
            as_text(value["first"], "a commit id"),
            as_text(value["last"], "a commit id"),
        )


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A table that was dropped softly: its last pin, and the hash of the schema that described it.

    It lets the type be restored. It does not keep the rows from cleanup, which reclaims them with the versions that
    show them.
    """

    entry: TableEntry
    schema_hash: str


@dataclass(frozen=True)
class ManifestState:
    """The complete state of one branch at one version.

    `commits` are the recent ones, oldest first; `extents` hold the older ones, oldest first. `native_branch` is the
    incarnation of the branch: None for main, `<name>.<ulid>` otherwise. `tombstones` are by table key.
    """

    branch: str
    native_branch: str | None
    version: int
    head: str
    schema_hash: str
    tables: Mapping[str, TableEntry]
    commits: Mapping[str, GraphCommit]
    extents: tuple[HistoryExtent, ...] = ()
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)
    closed: bool = False

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot of this state."""
        return Snapshot(self.branch, self.version, self.head, self.schema_hash, self.tables)

    def with_version(self, version: int) -> ManifestState:
        """The same state with `version` set."""
        return replace(self, version=version)


def read_state(
    opened: ManifestVersion,
    branch: str,
    native_branch: str | None,
    known: ManifestState | None = None,
    rows: pa.Table | None = None,
) -> ManifestState:
    """Parse one version; `rows` are its rows if they are already read.

    Commits that an earlier state of the branch already holds are taken from it.
    """
    require_supported_format(opened.schema, opened.location)
    where = f"{opened.location} version {opened.version}"
    rows = opened.rows(_READ_COLUMNS) if rows is None else rows
    with decoding(where):
        return _parse_state(rows, known).state(branch, native_branch, opened.version, where)


def _parse_state(rows: pa.Table, known: ManifestState | None) -> _StateParser:
    ids, kinds = rows["object_id"].to_pylist(), rows["object_type"].to_pylist()
    first = kinds.index("graph_commit") if "graph_commit" in kinds else len(kinds)
    earlier = known.commits if known is not None else {}
    # Most rows are commits that were there the last time: those are not parsed again.
    after = next((at for at in range(first, len(ids)) if ids[at] not in earlier), len(ids))
    parser = _StateParser()
    for part in (rows.slice(0, first), rows.slice(after)):
        for values in zip(*(part[name].to_pylist() for name in _READ_COLUMNS), strict=True):
            parser.take(dict(zip(_READ_COLUMNS, values, strict=True)))
    parser.commits = {i: earlier[i] for i in ids[first:after]} | parser.commits
    return parser


class _Pins(dict[str, TableEntry]):
    """The pins of a version. Every type of the schema has one, so each read of a missing one reports damage."""

    def __missing__(self, table_key: str) -> TableEntry:
        raise CorruptGraph(
            f"the manifest has no table {table_key!r}, which the schema declares",
            hint="`omnigraph fsck` shows the damage; older commits may still be whole",
        )


class _StateParser:
    def __init__(self) -> None:
        self.head: str | None = None
        self.schema_hash: str | None = None
        self.tables = _Pins()
        self.commits: dict[str, GraphCommit] = {}
        self.extents: list[HistoryExtent] = []
        self.tombstones: dict[str, Tombstone] = {}
        self.locations: dict[str, str] = {}
        self.closed = False

    def take(self, row: dict[str, Any]) -> None:
        match row["object_type"]:
            case "table":
                self.locations[as_table_key(row["table_key"])] = row["location"]
            case "table_version":
                key = as_table_key(row["table_key"])
                self.tables[key] = TableEntry.parse(
                    key, self.locations[key], row["table_version"], row["row_count"], row["metadata"]
                )
            case "table_tombstone":
                key = as_table_key(row["table_key"])
                value = as_object(parse_json(row["metadata"]), "the metadata of a dropped table")
                entry = TableEntry.parse(
                    key, row["location"], row["table_version"], row["row_count"], as_text(value["pin"], "a pin")
                )
                self.tombstones[key] = Tombstone(entry, as_schema_hash(value["schema_hash"]))
            case "graph_commit":
                commit = parse_commit_text(row["metadata"])
                if commit.graph_commit_id != row["object_id"]:
                    raise Malformed(f"the row of commit {row['object_id']} holds {commit.graph_commit_id}")
                self.commits[commit.graph_commit_id] = commit
            case "graph_head":
                self.head = as_commit_id(row["location"])
            case "history_extent":
                self.extents.append(HistoryExtent.parse(row["location"], row["metadata"]))
            case "schema_contract":
                self.schema_hash = as_schema_hash(row["location"])
            case "branch_closed":
                self.closed = True
            case unknown:
                raise CorruptGraph(f"__manifest holds an unknown object type {unknown!r}", hint="upgrade omnigraph")

    def state(self, branch: str, native_branch: str | None, version: int, where: str) -> ManifestState:
        if self.head is None or self.schema_hash is None:
            raise CorruptGraph(
                f"{where} lacks its head or its schema contract", hint="older versions of the branch may be whole"
            )
        return ManifestState(
            branch=branch,
            native_branch=native_branch,
            version=version,
            head=self.head,
            schema_hash=self.schema_hash,
            tables=self.tables,
            commits=self.commits,
            extents=tuple(self.extents),
            tombstones=self.tombstones,
            closed=self.closed,
        )


def tombstone_object_id(table_key: str, version: int) -> str:
    """The deterministic row id of a dropped table."""
    return f"tombstone:{table_key}:{version}"


def version_object_id(table_key: str, version: int) -> str:
    """The deterministic row id of a table's pin."""
    return f"version:{table_key}:{version}"


Row = tuple[Any, ...]
_NO_ROW: Row = (None,) * len(MANIFEST_SCHEMA.names)
_ROW_TYPE = pa.struct(list(MANIFEST_SCHEMA))
_INDEX = {name: at for at, name in enumerate(MANIFEST_SCHEMA.names)}


def _row(object_id: str, object_type: str, **columns: Any) -> Row:
    values = list(_NO_ROW)
    values[0], values[1] = object_id, object_type
    for name, value in columns.items():
        values[_INDEX[name]] = value
    return tuple(values)


class RowWriter:
    """Turns states into manifest rows. Caches the rows of unchanged pins and commits, which most rows are."""

    def __init__(self) -> None:
        self._kept: dict[Row, tuple[Row, ...]] = {}
        self._published: tuple[list[str], pa.Table] = [], MANIFEST_SCHEMA.empty_table()
        """Commits that other writers published or that precede the last one made here, and their rows."""

    def learn(self, state: ManifestState, rows: pa.Table) -> None:
        """Cache the rows of commits from the table of a state that another writer has published."""
        ids, column = list(state.commits), rows["object_id"].to_pylist()
        first = column.index(ids[0]) if ids else 0
        if column[first : first + len(ids)] == ids:
            self._published = ids, rows.slice(first, len(ids))

    def rows(self, state: ManifestState) -> pa.Table:
        """The complete manifest table of a state."""
        commits = list(state.commits.values())
        ids = list(state.commits)
        known = self._known_rows(ids)
        first = self._first_rows(state)
        fresh = [*first, *map(_commit_row, commits[known.num_rows :])]
        fresh.append(_row(f"graph_head:{state.branch}", "graph_head", location=state.head))
        if state.closed:
            fresh.append(_row("branch_closed", "branch_closed"))
        made = _table(fresh)
        rows = pa.concat_tables([made.slice(0, len(first)), known, made.slice(len(first))]).combine_chunks()
        # The last commit may lose its slot and be written again as another; those before it never change.
        self._published = ids[:-1], rows.slice(len(first), len(ids) - 1)
        return rows

    def _known_rows(self, ids: list[str]) -> pa.Table:
        """The rows of the longest prefix of some commits that is cached."""
        published, rows = self._published
        start = published.index(ids[0]) if ids and ids[0] in published else len(published)
        if published[start:] != ids[: len(published) - start]:
            start = len(published)
        return rows.slice(start)

    def _first_rows(self, state: ManifestState) -> list[Row]:
        """The rows of the schema, the pins, the tombstones and the history files."""
        kept: dict[Row, tuple[Row, ...]] = {}
        rows = [_row("schema_contract", "schema_contract", location=state.schema_hash)]
        for key, entry in sorted(state.tables.items()):
            pin = (entry.location, entry.staged_version, entry.table_version, entry.family)
            memo: Row = (key, *pin, state.native_branch)
            kept[memo] = self._kept.get(memo) or _table_rows(entry, state.native_branch)
            rows.extend(kept[memo])
        rows.extend(_tombstone_row(tombstone) for _, tombstone in sorted(state.tombstones.items()))
        rows.extend(_extent_row(extent) for extent in state.extents)
        self._kept = kept
        return rows


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_arrays(pa.array(rows, _ROW_TYPE).flatten(), schema=MANIFEST_SCHEMA)


def _table_rows(entry: TableEntry, native_branch: str | None) -> tuple[Row, ...]:
    key = entry.table_key
    return (
        _row(f"table:{key}", "table", location=entry.location, table_key=key),
        _row(
            version_object_id(key, entry.table_version),
            "table_version",
            metadata=entry.metadata_text(),
            table_key=key,
            table_version=entry.table_version,
            table_branch=native_branch,
            row_count=entry.row_count,
        ),
    )


def _tombstone_row(tombstone: Tombstone) -> Row:
    entry = tombstone.entry
    text = json.dumps({"schema_hash": tombstone.schema_hash, "pin": entry.metadata_text()}, separators=(",", ":"))
    return _row(
        tombstone_object_id(entry.table_key, entry.table_version), "table_tombstone", location=entry.location,
        metadata=text, table_key=entry.table_key, table_version=entry.table_version, row_count=entry.row_count,
    )  # fmt: skip


def _extent_row(extent: HistoryExtent) -> Row:
    text = json.dumps({"level": extent.level, "count": extent.count, "first": extent.first, "last": extent.last})
    return _row(f"history:{extent.location}", "history_extent", location=extent.location, metadata=text)


def _commit_row(commit: GraphCommit) -> Row:
    text = json.dumps(commit.to_json(), separators=(",", ":"))
    return _row(commit.graph_commit_id, "graph_commit", metadata=text)
