"""`fsck`: reads a graph end to end and says what does not fit. It changes nothing.

Every version that is kept: it can be read, its commit is in the lineage of its branch, its tables can be opened, the
files they need are there, and the numbers of rows are what was recorded. Every branch head and tag besides: ids are
unique, edges have both ends, and every index finds what a scan finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmnigraphError
from omnigraph.maintenance.indices import wanted_indexes
from omnigraph.storage.layout import MANIFEST, manifest_path
from omnigraph.storage.lookup import locate
from omnigraph.storage.predicates import sql_column, sql_literal
from omnigraph.storage.tables import BIRTH_VERSION, Table
from omnigraph.storage.tracing import files_of, list_table
from omnigraph.versioning.claims import Branch
from omnigraph.versioning.history import walk
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table

_SAMPLE = 1_000
_CHUNK = 500
_PROBES = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not fit. `check` is the kind of check, `where` the branch, version or table."""

    check: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What was found, and how much was looked at."""

    problems: tuple[Problem, ...]
    branches: int
    versions: int
    pins: int
    files: int
    rows: int
    pending_intents: int

    @property
    def is_clean(self) -> bool:
        """True when everything fits."""
        return not self.problems


def fsck(repository: Repository) -> FsckReport:
    """Check a whole graph."""
    checker = _Checker(repository)
    checker.run()
    return FsckReport(
        tuple(checker.problems), checker.branches, checker.versions, len(checker.pins), checker.files, checker.rows,
        len(repository.recovery.list()),
    )  # fmt: skip


@dataclass
class _Checker:
    repository: Repository
    problems: list[Problem] = field(default_factory=list)
    pins: dict[tuple[str, int], bool] = field(default_factory=dict)
    checked: set[tuple[str, int]] = field(default_factory=set)
    present: dict[str, frozenset[str]] = field(default_factory=dict)
    branches: int = 0
    versions: int = 0
    files: int = 0
    rows: int = 0

    def run(self) -> None:
        with self._finding("branches", MAIN):
            for branch in self.repository.refs.list():
                self.branches += 1
                self._branch(branch)
        with self._finding("tags", "__tags"):
            for tag in self.repository.tags.list():
                with self._finding("tag", tag.name):
                    self._state(self.repository.state_at(tag.branch, tag.native_branch, tag.manifest_version), True)
        self._drift()

    @contextmanager
    def _finding(self, check: str, where: str) -> Iterator[None]:
        """Trouble becomes a problem, and the next check goes on."""
        try:
            yield
        except OmnigraphError as error:
            self._found(check, where, error.message)

    def _found(self, check: str, where: str, message: str) -> None:
        self.problems.append(Problem(check, where, message))

    def _branch(self, branch: Branch) -> None:
        location = manifest_path(branch.native_branch)
        damaged = self.repository.store.manifests.damaged_newest(location)
        if damaged is not None:
            self._found("manifest", branch.name, f"{damaged} is cut short; `omnigraph repair` moves it away")
        with self._finding("lineage", branch.name):
            head = self.repository.tips.of(branch.name, branch.native_branch).state()
            known = self._lineage(branch, head)
            for version in self._kept_versions(location, head.version):
                with self._finding("version", f"{branch.name}@{version}"):
                    state = self.repository.state_at(branch.name, branch.native_branch, version)
                    self.versions += 1
                    if state.head not in known:
                        self._found("lineage", f"{branch.name}@{version}", f"{state.head} is not in the history")
                    self._state(state, version == head.version)

    def _kept_versions(self, location: str, newest: int) -> list[int]:
        names = (i.path.rsplit("/", 1)[-1] for i in self.repository.store.objects.list(f"{location}/_versions/"))
        stems = (name.removesuffix(".manifest") for name in names)
        return [v for v in sorted(2**64 - 1 - int(stem) for stem in stems if stem.isdigit()) if v <= newest]

    def _lineage(self, branch: Branch, head: ManifestState) -> set[str]:
        commits = list(walk(self.repository.store.objects, head))
        known = {commit.graph_commit_id for commit in commits}
        if len(known) != len(commits):
            self._found("lineage", branch.name, "a commit is listed twice")
        for commit in commits:
            for parent in (commit.parent_commit_id, commit.merged_parent_commit_id):
                if parent is not None and parent not in known:
                    self._found(
                        "lineage", branch.name, f"{commit.graph_commit_id} has a parent {parent} without record"
                    )
        return known

    def _state(self, state: ManifestState, deep: bool) -> None:
        for key, entry in sorted(state.tables.items()):
            if self._pin(state, entry) and deep:
                with self._finding("rows", f"{state.branch} {key}"):
                    self._table(state, entry)
        if deep:
            with self._finding("edges", state.branch):
                self._ends(state)

    def _pin(self, state: ManifestState, entry: TableEntry) -> bool:
        pin = (entry.location, entry.staged_version)
        if pin in self.pins:
            return self.pins[pin]
        before = len(self.problems)
        where = f"{state.branch}@{state.version} {entry.table_key}"
        with self._finding("pin", where):
            needed = files_of(self.repository.store.tables, *pin)
            self.files += len(needed)
            missing = [name for name in sorted(needed) if name not in self._files(entry.location)]
            for name in missing:
                self._found("file", where, f"{name} is missing")
            count = open_table(self.repository.store, entry).row_count
            if count != entry.row_count:
                self._found("count", where, f"{entry.row_count} rows were recorded and there are {count}")
        self.pins[pin] = len(self.problems) == before
        return self.pins[pin]

    def _files(self, location: str) -> frozenset[str]:
        """Files of a table, and the directories of its indexes."""
        if location not in self.present:
            names = [info.path for info in list_table(self.repository.store.objects, location).objects]
            indexes = {f"{name.rsplit('/', 1)[0]}/" for name in names if "/_indices/" in name}
            self.present[location] = frozenset(names) | indexes
        return self.present[location]

    def _table(self, state: ManifestState, entry: TableEntry) -> None:
        if (entry.location, entry.staged_version) in self.checked:
            return
        self.checked.add((entry.location, entry.staged_version))
        where = f"{state.branch} {entry.table_key}"
        table = open_table(self.repository.store, entry)
        ids = table.scan(["id"])["id"]
        self.rows += len(ids)
        doubles = len(ids) - len(ids.unique())
        if doubles:
            self._found("keys", where, f"{doubles} ids are stored more than once")
        for at in range(0, min(len(ids), _SAMPLE), _CHUNK):
            wanted = ids[at : at + _CHUNK].to_pylist()
            if sorted(locate(table, wanted, entry.tail).ids) != sorted(wanted):
                self._found("index", where, "a lookup by id does not find what a scan finds")
                break
        self._indexes(state, entry, table, where)

    def _indexes(self, state: ManifestState, entry: TableEntry, table: Table, where: str) -> None:
        entity = self.repository.store.catalog(state.schema_hash).type_of(entry.table_key)
        coverage = table.index_coverage()
        for name, wanted in wanted_indexes(entity):
            if wanted is None or wanted.kind != "btree" or f"{wanted.column}_idx" not in coverage:
                continue
            scanned = table.scan([wanted.column])[wanted.column]
            if any(_indexed(table, wanted.column, v) != _scanned(scanned, v) for v in _some_values(scanned)):
                self._found("index", where, f"the index of {name} does not find what a scan finds")

    def _ends(self, state: ManifestState) -> None:
        catalog = self.repository.store.catalog(state.schema_hash)
        for edge in catalog.edges.values():
            keys = (edge.table_key, f"node:{edge.source}", f"node:{edge.target}")
            if not all(self._is_sound(state.tables[key]) for key in keys):
                continue
            edges = open_table(self.repository.store, state.tables[edge.table_key]).scan(["src", "dst"])
            for column, key in (("src", keys[1]), ("dst", keys[2])):
                nodes = open_table(self.repository.store, state.tables[key]).scan(["id"])["id"]
                dangling = pc.sum(pc.invert(pc.is_in(edges[column], value_set=nodes.combine_chunks()))).as_py()
                if dangling:
                    self._found(
                        "edges", f"{state.branch} {edge.table_key}", f"{dangling} edges have no {key} at {column}"
                    )

    def _is_sound(self, entry: TableEntry) -> bool:
        return self.pins.get((entry.location, entry.staged_version), False)

    def _drift(self) -> None:
        with self._finding("drift", MANIFEST):
            for key, entry in sorted(self.repository.head(MAIN).tables.items()):
                with self._finding("drift", key):
                    head = self.repository.store.tables.head_version(entry.location)
                    if head != BIRTH_VERSION:
                        self._found("drift", key, f"another tool has committed to the table: its HEAD is {head}")


def _some_values(column: pa.ChunkedArray) -> list[pa.Scalar]:
    """A few values of a column, spread over it."""
    values = column.unique().drop_null()
    step = max(1, len(values) // _PROBES)
    return [values[at] for at in range(0, len(values), step)][:_PROBES]


def _indexed(table: Table, column: str, value: pa.Scalar) -> int:
    return int(table.scan([column], where=f"{sql_column(column)} = {sql_literal(value)}").num_rows)


def _scanned(column: pa.ChunkedArray, value: pa.Scalar) -> int:
    return int(pc.sum(pc.equal(column, value)).as_py() or 0)
