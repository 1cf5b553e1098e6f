"""`fsck`: reads a graph end to end and reports every inconsistency. It changes nothing.

For every version that is kept: it can be read, its commit is in the lineage of its branch, its tables can be opened,
the files they need exist with the recorded sizes (deep: the recorded checksums), and the numbers of rows are the
recorded ones. For every branch head and tag also: ids are unique, edges have both ends, and every index finds the same
rows as a scan. And no control object is damaged, no claim and no record of a tag is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.commits import Branch
from omnigraph.api.reports import FsckReport, Problem
from omnigraph.errors import OmnigraphError, TypeNotFound
from omnigraph.maintenance.fsck_files import FileChecker, NeededBy
from omnigraph.maintenance.fsck_names import damaged_objects, lost_names
from omnigraph.maintenance.indices import wanted_indexes
from omnigraph.storage.digests import Digest
from omnigraph.storage.digests import recorded_digests as recorded_digests
from omnigraph.storage.layout import MANIFEST, TAG_COPIES, TAGS, manifest_path, pin_file
from omnigraph.storage.lookup import locate
from omnigraph.storage.manifest_table import ManifestVersion
from omnigraph.storage.needed_files import needed_files
from omnigraph.storage.predicates import sql_column, sql_literal
from omnigraph.storage.tables import BIRTH_VERSION, Table
from omnigraph.versioning.history import walk
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table

_SAMPLE = 1_000
_CHUNK = 500
_PROBES = 8


def fsck(repository: Repository, *, deep: bool = False, type_name: str | None = None) -> FsckReport:
    """Check a whole graph, or the tables of one type. `deep` reads every file of every kept version."""
    keys = None if type_name is None else frozenset((f"node:{type_name}", f"edge:{type_name}"))
    files = FileChecker(repository.store, deep)
    checker = Checker(repository, files, keys)
    checker.run()
    if keys is not None and keys.isdisjoint(key for _, key in checker.seen):
        raise TypeNotFound(f"no kept version has a type {type_name!r}", hint="`omnigraph schema show` lists the types")
    return FsckReport(
        tuple(checker.problems), checker.branches, checker.versions, len(checker.pins), checker.files, checker.rows,
        checker.pending, deep, files.bytes_read, files.unrecorded,
    )  # fmt: skip


@dataclass
class Checker:
    """Collects problems. `keys` are the tables to check, None for all of them."""

    repository: Repository
    on_disk: FileChecker
    keys: frozenset[str] | None = None
    problems: list[Problem] = field(default_factory=list)
    pins: dict[tuple[str, int], bool] = field(default_factory=dict)
    checked: set[tuple[str, int]] = field(default_factory=set)
    states: list[NeededBy] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)
    pending: int = 0
    branches: int = 0
    versions: int = 0
    files: int = 0
    rows: int = 0

    def run(self) -> None:
        """Check everything."""
        for branch in self.open_branches():
            self.branches += 1
            self._branch(branch)
        self._tags()
        if self.keys is None:
            self._drift()
            self._control()
        self._report_damage()

    def run_heads(self, branches: Iterable[Branch]) -> None:
        """Check the tables and edges of the heads of some branches only."""
        for branch in branches:
            self.branches += 1
            with self._finding("head", branch.name):
                state = self.repository.tips.of(branch.name, branch.native_branch).state()
                self._take(state)
                for entry in state.tables.values():
                    self._pin(state, entry)
                self._ends(state)
        self._report_damage()

    def open_branches(self) -> Iterator[Branch]:
        """Main and every branch whose claim can be read."""
        yield Branch(MAIN)
        for claim in self.repository.claims.newest():
            if claim.is_open:
                with self._finding("claim", claim.name):
                    yield self.repository.claims.read(claim)

    def _tags(self) -> None:
        names = {n for prefix in (TAGS, TAG_COPIES) for n in self.repository.tags.recorded_names(prefix)}
        for name in sorted(names):
            with self._finding("tag", name):
                tag = self.repository.tags.find(name)
                if tag is not None:
                    self._state(self.repository.state_at(tag.branch, tag.native_branch, tag.manifest_version), True)

    def _control(self) -> None:
        """Control objects that are damaged, names that were lost, unfinished writes that cannot be read."""
        for path, error in damaged_objects(self.repository):
            self._found("control", path, error.message, error.hint or "")
        for lost in lost_names(self.repository):
            if lost.is_provable:
                self._found(lost.kind, lost.name, lost.message, "`omnigraph repair --confirm` restores it")
            elif lost.problem is not None:
                self._found(lost.kind, lost.name, f"{lost.message}: {lost.problem}", "restore it from a copy")
        with self._finding("intents", "__recovery"):
            intents = self.repository.recovery.list()
            self.pending = len(intents)
            for intent in intents:
                if intent.problem is not None:
                    self._found("intents", intent.operation_id, intent.problem)

    @contextmanager
    def _finding(self, check: str, where: str) -> Iterator[None]:
        """Report an error in this block as a problem, and go on with the next check."""
        try:
            yield
        except OmnigraphError as error:
            self._found(check, where, error.message, error.hint or "")

    def _found(self, check: str, where: str, message: str, remedy: str = "") -> None:
        problem = Problem(check, where, message, remedy)
        if problem not in self.problems:
            self.problems.append(problem)

    def _report_damage(self) -> None:
        """Report each missing or damaged file once, with the versions that need it."""
        for path, fault in sorted(self.on_disk.faults.items()):
            versions, remedy = self.on_disk.who_needs(path, self.states)
            self._found("file", self.on_disk.table_keys[path], f"{path} {fault}; needed by {versions}", remedy)

    def _take(self, state: ManifestState) -> None:
        self.states.append(NeededBy.of(state))
        self.seen.update((state.branch, key) for key in state.tables)

    def _branch(self, branch: Branch) -> None:
        location = manifest_path(branch.native_branch)
        damaged = self.repository.store.manifests.damaged_newest(location)
        if damaged is not None:
            self._found("manifest", branch.name, f"{damaged} is cut short; `omnigraph repair` moves it away")
        with self._finding("lineage", branch.name):
            head = self.repository.tips.of(branch.name, branch.native_branch).state()
            known = self._lineage(branch, head)
            kept = self._kept_versions(location, head.version)
            self._manifest_files(branch, kept)
            for version in kept:
                with self._finding("version", f"{branch.name}@{version}"):
                    state = self.repository.state_at(branch.name, branch.native_branch, version)
                    self.versions += 1
                    self._take(state)
                    if state.head not in known:
                        self._found("lineage", f"{branch.name}@{version}", f"{state.head} is not in the history")
                    self._state(state, version == head.version)

    def _manifest_files(self, branch: Branch, versions: list[int]) -> None:
        opened: list[ManifestVersion] = []
        for version in versions:
            with self._finding("version", f"{branch.name}@{version}"):
                opened.append(self.repository.store.manifests.at(manifest_path(branch.native_branch), version))
        with self._finding("manifest", branch.name):
            for message in self.on_disk.check_manifests(branch.native_branch, opened, versions):
                self._found("manifest", branch.name, message, "restore the file from a copy of the store")

    def _kept_versions(self, location: str, newest: int) -> list[int]:
        names = (i.path.rsplit("/", 1)[-1] for i in self.repository.store.objects.list(f"{location}/_versions/"))
        stems = (name.removesuffix(".manifest") for name in names)
        return [v for v in sorted(2**64 - 1 - int(stem) for stem in stems if stem.isdigit()) if v <= newest]

    def _lineage(self, branch: Branch, head: ManifestState) -> set[str]:
        if self.keys is not None:  # one type only
            return {commit.graph_commit_id for commit in walk(self.repository.store.objects, head)}
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
            if (self.keys is None or key in self.keys) and self._pin(state, entry) and deep:
                with self._finding("rows", f"{state.branch} {key}"):
                    self._table(state, entry)
        if deep and self.keys is None:
            with self._finding("edges", state.branch):
                self._ends(state)

    def _pin(self, state: ManifestState, entry: TableEntry) -> bool:
        pin = (entry.location, entry.staged_version)
        if pin in self.pins:
            return self.pins[pin]
        before = len(self.problems)
        where = f"{state.branch}@{state.version} {entry.table_key}"
        is_whole = False
        with self._finding("pin", where):
            is_whole = self._files(entry)
            count = open_table(self.repository.store, entry).row_count if is_whole else entry.row_count
            if count != entry.row_count:
                self._found("count", where, f"{entry.row_count} rows were recorded and there are {count}")
        self.pins[pin] = is_whole and len(self.problems) == before
        return self.pins[pin]

    def _files(self, entry: TableEntry) -> bool:
        """Whether the files of a pin are as they were committed. The files of a damaged version are unknown."""
        pin, key = (entry.location, entry.staged_version), entry.table_key
        recorded: dict[str, Digest] = {}
        with self._finding("ledger", key):  # without it sizes and checksums are unknown; the files may be intact
            recorded = recorded_digests(self.repository.store.objects, entry.digests, entry.staged_version)
        if not self.on_disk.check_pin(pin, key, [pin_file(entry.staged_version)], recorded):
            return False
        needed = needed_files(open_table(self.repository.store, entry))
        self.files += len(needed) + 1
        return self.on_disk.check_pin(pin, key, needed, recorded)

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
