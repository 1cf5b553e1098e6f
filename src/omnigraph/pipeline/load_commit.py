"""Turn staged parts into a commit: apply the rules between rows, leave rows out, make the effects and the plan.

Tasks on any machines stage the parts; one process publishes them. Of a small load it reads the columns that rules need;
of a large one only the rows that tasks could not clear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.commits import GraphCommit
from omnigraph.api.options import MODES
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.datatypes import whole
from omnigraph.errors import Violation
from omnigraph.pipeline.restaging import Excluded, RowData
from omnigraph.pipeline.screening import Screened
from omnigraph.pipeline.screening_driver import Screener, SuspectRows, demands_of
from omnigraph.pipeline.staging import StagedPart, StagedSplit, StageJob, read_keys
from omnigraph.storage.effects import AppendRows, Effect, OverwriteRows, ReplaceRows, WrittenFragment
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, TaskPool
from omnigraph.versioning.load_lists import LoadList
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore
from omnigraph.write.delete import removals
from omnigraph.write.edge_duplicates import can_repeat
from omnigraph.write.load import MERGE, OVERWRITE, counts_of
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import (
    NOWHERE,
    Place,
    Places,
    TableDelta,
    Verdict,
    needed_columns,
    no_ids,
    raise_first,
    replaced_rows,
    validate,
)
from omnigraph.write.validation.beside import faults_beside
from omnigraph.write.validation.findings import DEFAULT_LIMIT, by_place

_MANY = 100_000
Restage = Callable[[Excluded], RowData]
"""Leaves some rows out of the staged splits that hold them, and returns those of DataFrames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTerms:
    """The terms of a load. `max_errors` None refuses the whole load for one bad row.

    `load_list` names the files of the load, for the runs of its job that follow.
    """

    mode: str
    branch: str
    actor: str | None = None
    message: str | None = None
    max_errors: int | None = None
    dry_run: bool = False
    expect_head: str | None = None
    idempotency_key: str | None = None
    ignore_unknown: bool = False
    dedupe_edges: bool = False
    load_list: LoadList | None = None

    def __post_init__(self) -> None:
        assert self.mode in MODES, f"{self.mode!r} is no mode of a load"

    @property
    def limit(self) -> int:
        """Return the number of violations worth collecting."""
        return DEFAULT_LIMIT if self.max_errors is None else self.max_errors + 1


def stage_job(store: GraphStore, txn: WriteTxn, terms: LoadTerms) -> StageJob:
    """Return the staging job of a write, for tasks."""
    pins = {key: (e.location, e.staged_version) for key, e in txn.base.tables.items()}
    return StageJob(
        store.root.uri, txn.commit_id, txn.base.schema_hash, pins, terms.limit, ignore_unknown=terms.ignore_unknown
    )


def begin_load(repository: Repository, terms: LoadTerms, progress: Listener | None = None) -> WriteTxn:
    """Begin a write with the terms of a load."""
    return WriteTxn(
        repository, terms.branch, kind="load", actor=terms.actor, message=terms.message,
        expect_head=terms.expect_head, idempotency_key=terms.idempotency_key, progress=progress,
    )  # fmt: skip


def earlier_load(repository: Repository, terms: LoadTerms) -> LoadResult | None:
    """Return the result of an earlier load with the same idempotency key. Raises when the head is unexpected."""
    txn = begin_load(repository, terms)
    done = txn.earlier_commit()
    if done is not None:
        return LoadResult(terms.branch, terms.mode, {}, {}, done)
    txn.require_expected_head()
    return None


class LoadCommit:
    """Checks staged parts on one state of the branch and publishes them."""

    def __init__(
        self, store: GraphStore, terms: LoadTerms, staged: Mapping[int, StagedSplit], refused: list[Violation],
        screener: Screener | None = None, pool: TaskPool = LOCAL_POOL, changed: Set[str] = frozenset(),
    ) -> None:  # fmt: skip
        self._store = store
        self._terms = terms
        self._staged = staged
        self._refused = refused
        self._screener = screener
        self._pool = pool
        self._changed = changed
        self._removals: dict[str, TableDelta] = {}

    @property
    def has_changes(self) -> bool:
        """Return whether any rows are events, whose staging depends on the rows of the graph."""
        return bool(self._changed)

    def restart(self) -> None:
        """Forget the refused rows: all rows are staged again."""
        self._refused = []

    def finish(self, txn: WriteTxn, restage: Restage | None) -> LoadResult:
        """Check and publish. Without `restage`, a row that violates a rule between rows refuses the load."""
        self._txn = txn
        verdict, screened = self._admitted(restage)
        gathered = self._gathered()
        rejected = (*self._row_violations(), *self._refused)
        counts = {key: sum(part.rows for part in parts) for key, parts in gathered.items()}
        if self._terms.mode != OVERWRITE:
            gathered = {key: parts for key, parts in gathered.items() if counts[key]}
            gathered |= {key: [] for key in self._removals if key not in gathered}
        commit: GraphCommit | None = None
        if gathered and not self._terms.dry_run:
            effects = {key: self._effect(key, parts, screened) for key, parts in gathered.items()}
            requirements = [_bounded(each) for each in (*verdict.requirements, *self._unmoved(gathered))]
            commit = self._txn.commit(effects, requirements, rebase_updates=self._terms.mode == MERGE, pool=self._pool)
        else:
            self._txn.withdraw()
        return LoadResult(
            self._terms.branch, self._terms.mode, counts_of(counts, "node"), counts_of(counts, "edge"), commit,
            dry_run=self._terms.dry_run, rejected=rejected,
            deleted={key.partition(":")[2]: len(delta.removed) for key, delta in sorted(self._removals.items())},
            late=self._late(),
        )  # fmt: skip

    def _late(self) -> dict[str, int]:
        """Return the number of late events, by type."""
        found: Counter[str] = Counter()
        for split in self._staged.values():
            found.update(split.late)
        return {key.partition(":")[2]: count for key, count in sorted(found.items())}

    def _unmoved(self, gathered: Mapping[str, Sequence[StagedPart]]) -> list[Requirement]:
        """Require tables unmoved: a new equal edge, or a change to rows compared with events, repeats the check."""
        if self._changed:
            return [Unmoved(key) for key in sorted(self._changed)]
        keys = [key for key in gathered if can_repeat(self._txn.catalog.type_of(key))]
        return [Unmoved(key) for key in keys] if self._terms.dedupe_edges and self._terms.mode != OVERWRITE else []

    def _admitted(self, restage: Restage | None) -> tuple[Verdict, Screened | None]:
        """Apply the rules between rows; leave refused rows out and apply them again until none is refused."""
        while True:
            wrong = self._row_violations()
            if wrong and self._terms.max_errors is None:
                raise_first([*wrong[: self._terms.limit], *self._faults_beside(wrong)])
            self._require_few([*wrong, *self._refused])
            deltas, screened, demands = self._questions(self._gathered())
            merges = self._terms.mode == MERGE
            replaced = {key: replaced_rows(delta) for key, delta in deltas.items()} if merges else {}
            if any(replaced.values()) and restage is not None:
                restage(replaced)
                continue
            verdict = validate(self._txn, deltas, limit=self._terms.limit, progress=self._txn.progress)
            if not verdict.violations:
                return Verdict((), (*verdict.requirements, *demands)), screened
            self._require_few([*self._refused, *verdict.violations])
            if restage is None or any(each.row is None for each in verdict.violations):
                raise_first(verdict.violations)
            else:
                self._refused += _with_rows(verdict.violations, restage(_places(verdict.violations)))

    def _faults_beside(self, wrong: Sequence[Violation]) -> list[Violation]:
        """Return what is wrong between the other rows of a load that is refused. Rows of events are not judged."""
        if self._changed:
            return []
        deltas = self._questions(self._gathered())[0]
        single = {key: delta for key, delta in deltas.items() if self._terms.mode != MERGE or not replaced_rows(delta)}
        is_complete = all(len(split.violations) < self._terms.limit for split in self._staged.values())
        return faults_beside(self._txn, single, wrong, is_complete=is_complete)

    def _questions(
        self, gathered: Mapping[str, Sequence[StagedPart]]
    ) -> tuple[dict[str, TableDelta], Screened | None, tuple[Requirement, ...]]:
        """Return the rows that the validator must judge, all or those that tasks did not clear, and tasks' demands."""
        screener = self._screener
        if self._changed:
            return self._with_removals(gathered), None, ()
        if screener is not None and screener.is_worth_it(self._txn, self._terms.mode, gathered):
            job = stage_job(self._store, self._txn, self._terms)
            screened = screener.screened(self._txn, job, self._terms.mode, gathered)
            if not screened.crowded:
                chosen = SuspectRows(self._txn, gathered, screened).chosen()
                deltas = {key: self._delta(key, gathered[key], rows, places) for key, (rows, places) in chosen.items()}
                return deltas, screened, demands_of(self._txn, self._terms.mode, gathered, screened)
        return {key: self._delta(key, parts, *self._all(key, parts)) for key, parts in gathered.items()}, None, ()

    def _with_removals(self, gathered: Mapping[str, Sequence[StagedPart]]) -> dict[str, TableDelta]:
        """Return the rows of all parts, and the deletes of events: of nodes with their edges, but for loaded edges."""
        deltas = {key: self._delta(key, parts, *self._all(key, parts)) for key, parts in gathered.items()}
        ids: dict[str, list[str]] = {}
        for number in sorted(self._staged):
            for key, some in self._staged[number].removed.items():
                ids.setdefault(key, []).extend(some)
        self._removals = {}
        for key, delta in removals(self._txn, {key: pa.array(some, pa.string()) for key, some in ids.items()}).items():
            written = deltas.get(key)
            removed = delta.removed
            if written is not None:
                removed = removed.filter(pc.invert(pc.is_in(removed, value_set=whole(written.written["id"]))))
            if len(removed):
                self._removals[key] = replace(delta, removed=removed)
                deltas[key] = self._removals[key] if written is None else replace(written, removed=removed)
        return deltas

    def _require_few(self, violations: Sequence[Violation]) -> None:
        if self._terms.max_errors is None or len(violations) > self._terms.max_errors:
            raise_first(violations[: self._terms.limit])

    def _row_violations(self) -> list[Violation]:
        return by_place(v for number in sorted(self._staged) for v in self._staged[number].violations)

    def _gathered(self) -> dict[str, list[StagedPart]]:
        found: dict[str, list[StagedPart]] = {}
        for number in sorted(self._staged):
            for part in self._staged[number].parts:
                found.setdefault(part.table_key, []).append(part)
        return found

    def _all(self, key: str, parts: Sequence[StagedPart]) -> tuple[pa.Table, Places]:
        columns = needed_columns(self._txn.catalog.type_of(key))
        tables = [read_keys(self._store, self._txn.table(key), part, columns) for part in parts if part.rows]
        places = NOWHERE
        for part in parts:
            places += part.places
        none = self._txn.catalog.type_of(key).arrow_schema.empty_table().select(columns)
        return pa.concat_tables(tables) if tables else none, places

    def _delta(self, key: str, parts: Sequence[StagedPart], rows: pa.Table, places: Places) -> TableDelta:
        entity = self._txn.catalog.type_of(key)
        none = rows.slice(0, 0)
        fresh = all(part.fresh_ids for part in parts)
        upserts = self._terms.mode == MERGE and not fresh
        return TableDelta(
            entity=entity, inserted=none if upserts else rows, updated=rows if upserts else none, removed=no_ids(),
            places=places, fresh_ids=fresh, overwrites=self._terms.mode == OVERWRITE, fields_checked=True,
        )  # fmt: skip

    def _effect(self, key: str, parts: Sequence[StagedPart], screened: Screened | None) -> Effect:
        gone = self._removals[key].removed.to_pylist() if key in self._removals else []
        fragments: tuple[WrittenFragment, ...] = tuple(f for part in parts for f in part.fragments)
        if self._terms.mode == OVERWRITE:
            return OverwriteRows(fragments)
        if self._terms.mode == MERGE and not all(part.fresh_ids for part in parts):
            if screened is None:
                return ReplaceRows((*self._replaced_ids(key, parts), *gone), fragments)
            assert self._screener is not None, "screened by nobody"
            job = stage_job(self._store, self._txn, self._terms)
            return self._screener.masked(self._txn, job, key, screened.matched.get(key, []), fragments)
        if gone:
            return ReplaceRows(tuple(gone), fragments)
        return AppendRows(fragments)

    def _replaced_ids(self, key: str, parts: Sequence[StagedPart]) -> list[str]:
        table = self._txn.table(key)
        tables = (read_keys(self._store, table, part, ["id"]) for part in parts if part.rows)
        return [i for table in tables for i in table["id"].drop_null().to_pylist()]


def _places(violations: Iterable[Violation]) -> dict[str, set[Place]]:
    found: dict[str, set[Place]] = {}
    for each in violations:
        found.setdefault(str(each.type_key), set()).add((each.path, each.row))
    return found


def _with_rows(violations: Iterable[Violation], rows: RowData) -> list[Violation]:
    return [replace(each, data=rows.get((str(each.type_key), (each.path, each.row)))) for each in violations]


def _bounded(requirement: Requirement) -> Requirement:
    """Replace a demand over very many ids by the stricter one that their table has not moved."""
    lists = (getattr(requirement, name, ()) for name in ("ids", "values", "added"))
    return Unmoved(requirement.table_key) if sum(map(len, lists)) > _MANY else requirement
