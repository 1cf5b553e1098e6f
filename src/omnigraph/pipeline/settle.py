"""From staged parts to a commit: the rules between rows, the rows that are left out, the effects and the plan.

Whoever staged the parts, on whatever machines, one process settles them. It sees only the columns that rules need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import Violation
from omnigraph.pipeline.staging import Place, StagedPart, StagedSplit, StageJob
from omnigraph.storage.effects import AppendRows, Effect, OverwriteRows, ReplaceRows, WrittenFragment
from omnigraph.versioning.commits import GraphCommit
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.store import GraphStore
from omnigraph.write.load import MERGE, MODES, OVERWRITE, LoadResult, counts_of
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import NOWHERE, TableDelta, Verdict, needed_columns, no_ids, raise_first, validate
from omnigraph.write.validation.findings import DEFAULT_LIMIT, by_place

_MANY = 100_000
Restage = Callable[[set[Place]], None]
"""Stages again, without some rows, the splits that hold them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTerms:
    """How staged rows are to be written. `max_errors` None refuses the whole load for one bad row."""

    mode: str
    branch: str
    actor: str | None = None
    message: str | None = None
    max_errors: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        assert self.mode in MODES

    @property
    def limit(self) -> int:
        """How many violations are worth collecting."""
        return DEFAULT_LIMIT if self.max_errors is None else self.max_errors + 1


def stage_job(store: GraphStore, txn: WriteTxn, terms: LoadTerms) -> StageJob:
    """What tasks are told to stage for a write."""
    pins = {key: (e.location, e.staged_version) for key, e in txn.base.tables.items()}
    return StageJob(store.root.uri, txn.commit_id, txn.base.schema_hash, pins, terms.limit)


class Settlement:
    """Checks staged parts on one state of the branch and publishes them."""

    def __init__(
        self, store: GraphStore, terms: LoadTerms, staged: Mapping[int, StagedSplit], refused: list[Violation]
    ) -> None:
        self._store = store
        self._terms = terms
        self._staged = staged
        self._refused = refused

    def finish(self, txn: WriteTxn, restage: Restage | None) -> LoadResult:
        """Check and publish. Without `restage`, a row that breaks a rule beside others refuses the load."""
        self._txn = txn
        verdict = self._admitted(restage)
        gathered = self._gathered()
        rejected = (*self._row_violations(), *self._refused)
        counts = {key: sum(part.rows for part in parts) for key, parts in gathered.items()}
        if self._terms.mode != OVERWRITE:
            gathered = {key: parts for key, parts in gathered.items() if counts[key]}
        commit: GraphCommit | None = None
        if gathered and not self._terms.dry_run:
            effects = {key: self._effect(parts) for key, parts in gathered.items()}
            requirements = [_bounded(each) for each in verdict.requirements]
            commit = self._txn.commit(effects, requirements, rebase_updates=self._terms.mode == MERGE)
        else:
            self._txn.withdraw()
        return LoadResult(
            self._terms.branch, self._terms.mode, counts_of(counts, "node"), counts_of(counts, "edge"), commit,
            dry_run=self._terms.dry_run, rejected=rejected,
        )  # fmt: skip

    def _admitted(self, restage: Restage | None) -> Verdict:
        """Apply the rules between rows; leave refused rows out and apply them again, as often as it takes."""
        while True:
            self._require_few([*self._row_violations(), *self._refused])
            gathered = self._gathered()
            replaced = self._replaced(gathered) if self._terms.mode == MERGE else set()
            if replaced and restage is not None:
                restage(replaced)
                continue
            deltas = {key: self._delta(key, parts) for key, parts in gathered.items()}
            verdict = validate(self._txn, deltas, limit=self._terms.limit)
            if not verdict.violations:
                return verdict
            self._refused.extend(verdict.violations)
            self._require_few(self._refused)
            if restage is None or any(each.row is None for each in verdict.violations):
                raise_first(verdict.violations)
            else:
                restage({(each.path, each.row) for each in verdict.violations})

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

    def _delta(self, key: str, parts: Sequence[StagedPart]) -> TableDelta:
        entity = self._txn.catalog.type_of(key)
        columns = needed_columns(entity)
        none = entity.arrow_schema.empty_table().select(columns)
        tables = [self._keys(part, columns) for part in parts if part.rows]
        rows = pa.concat_tables(tables) if tables else none
        fresh = all(part.fresh_ids for part in parts)
        upserts = self._terms.mode == MERGE and not fresh
        places = NOWHERE
        for part in parts:
            places += part.places
        return TableDelta(
            entity=entity, inserted=none if upserts else rows, updated=rows if upserts else none, removed=no_ids(),
            places=places, fresh_ids=fresh, overwrites=self._terms.mode == OVERWRITE, fields_checked=True,
        )  # fmt: skip

    def _keys(self, part: StagedPart, columns: Sequence[str]) -> pa.Table:
        """The columns that rules need, mapped from disk where they lie on one."""
        table = pa.table({})
        if part.keys is not None:
            root = self._store.root
            if root.is_local:
                table = ipc.open_file(pa.memory_map(str(Path(root.uri) / part.keys))).read_all()
            else:
                table = ipc.open_file(pa.BufferReader(self._store.objects.get(part.keys) or b"")).read_all()
        if "id" in columns and "id" not in table.column_names:  # fresh ids: no rule asks for them
            ids = pa.table({"id": pa.nulls(part.rows, pa.string())})
            for field in table.schema:  # as they are: parts with ids and parts without are put together
                ids = ids.append_column(field, table[field.name])
            table = ids
        return table.select(columns)

    def _replaced(self, gathered: Mapping[str, Sequence[StagedPart]]) -> set[Place]:
        """Places of rows that a later row of the same id replaces, for edge types without a key."""
        replaced: set[Place] = set()
        for key, parts in gathered.items():
            entity = self._txn.catalog.type_of(key)
            if entity.key or entity.kind != "edge" or all(part.fresh_ids for part in parts):
                continue
            delta = self._delta(key, parts)
            last: dict[str, int] = {}
            for index, entity_id in enumerate(delta.written["id"].to_pylist()):
                if entity_id is None:  # fresh
                    continue
                if entity_id in last:
                    replaced.add(delta.places.at(last[entity_id]))
                last[entity_id] = index
        return replaced

    def _effect(self, parts: Sequence[StagedPart]) -> Effect:
        fragments: tuple[WrittenFragment, ...] = tuple(f for part in parts for f in part.fragments)
        if self._terms.mode == OVERWRITE:
            return OverwriteRows(fragments)
        if self._terms.mode == MERGE and not all(part.fresh_ids for part in parts):
            ids = [i for part in parts if part.rows for i in self._keys(part, ["id"])["id"].drop_null().to_pylist()]
            return ReplaceRows(tuple(ids), fragments)
        return AppendRows(fragments)


def _bounded(requirement: Requirement) -> Requirement:
    """A demand over very many ids as the stricter one that their table has not moved."""
    lists = (getattr(requirement, name, ()) for name in ("ids", "values", "added"))
    return Unmoved(requirement.table_key) if sum(map(len, lists)) > _MANY else requirement
