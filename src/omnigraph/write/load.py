"""Loading: nodes and edges of any number of types, from files, frames or rows, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.api.options import Mode
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.errors import Violation
from omnigraph.storage.effects import AppendRows, Effect, OverwriteRows, ReplaceRows
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.write.edge_duplicates import UniqueEdges, can_repeat
from omnigraph.write.files import Sniffed
from omnigraph.write.intake import Intake
from omnigraph.write.read_progress import read_progress
from omnigraph.write.retries import serialize_preparation
from omnigraph.write.sources import Input, Reading
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import Findings, Place, Verdict, raise_first, replaced_rows, validate
from omnigraph.write.validation.beside import faults_beside
from omnigraph.write.validation.findings import DEFAULT_LIMIT, by_place

APPEND: Final = "append"
MERGE: Final = "merge"
OVERWRITE: Final = "overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One load. `max_errors` None refuses the whole load for one bad row; a number lets so many be left out.

    `dedupe_edges` skips edges without a key that equal one in the graph or in an earlier row.
    """

    inputs: Sequence[Input]
    mode: Mode
    branch: str
    actor: str | None = None
    message: str | None = None
    expect_head: str | None = None
    idempotency_key: str | None = None
    dry_run: bool = False
    max_errors: int | None = None
    ignore_unknown: bool = False
    dedupe_edges: bool = False
    progress: Listener | None = None
    is_small: bool = False


def load_rows(repository: Repository, request: LoadRequest, *, fresh: bool = True) -> LoadResult:
    """Validate, stage and publish rows as one commit. Not `fresh`: start from a state that may be some seconds old."""
    txn = WriteTxn(
        repository, request.branch, kind="load", actor=request.actor, message=request.message,
        expect_head=request.expect_head, idempotency_key=request.idempotency_key, progress=request.progress,
        fresh=fresh or request.expect_head is not None,
    )  # fmt: skip
    done = txn.earlier_commit()
    if done is not None:
        return LoadResult(request.branch, request.mode, {}, {}, done)
    txn.require_expected_head()
    with txn.announce_write(request.is_small):
        return _load(txn, request)


def _load(txn: WriteTxn, request: LoadRequest) -> LoadResult:
    with serialize_preparation(txn.store, request.is_small):
        sniffed: Sniffed = {}
        intake, verdict, rejected, duplicates = _admitted(txn, request, sniffed)
    counts = {key: mine.count for key, mine in intake.gathered.items()}
    if request.mode != OVERWRITE:
        intake.gathered = {key: mine for key, mine in intake.gathered.items() if mine.count}
    commit = None
    if intake.gathered and not request.dry_run:
        commit = txn.commit(
            _effects(txn, intake, request.mode),
            [*verdict.requirements, *_unmoved(intake, request)],
            rebase_updates=request.mode == MERGE,
        )
    return LoadResult(
        request.branch, request.mode, counts_of(counts, "node"), counts_of(counts, "edge"), commit,
        dry_run=request.dry_run, rejected=rejected, duplicates=duplicates, sniffed=sniffed,
    )  # fmt: skip


def _unmoved(intake: Intake, request: LoadRequest) -> list[Requirement]:
    """Requirements by which this load is repeated when another write, which may add equal edges, comes between."""
    keys = [key for key, mine in intake.gathered.items() if can_repeat(mine.entity)]
    return [Unmoved(key) for key in keys] if request.dedupe_edges and request.mode != OVERWRITE else []


def _admitted(
    txn: WriteTxn, request: LoadRequest, sniffed: Sniffed
) -> tuple[Intake, Verdict, tuple[Violation, ...], Mapping[str, int]]:
    """Read, and leave out rows that break a rule together with other rows, until the rest may be written.

    With `dedupe_edges` a row that is left out may have been the first of several equal ones: all is read again.
    """
    skipped: dict[str, set[Place]] = {}  # by table: rows in memory are identified by their number alone
    refused: list[Violation] = []
    limit = DEFAULT_LIMIT if request.max_errors is None else request.max_errors + 1
    intake: Intake | None = None
    while True:
        if intake is None:
            found = Findings(limit)
            unique = UniqueEdges(txn, overwrites=request.mode == OVERWRITE) if request.dedupe_edges else None
            intake = _read(txn, request, found, skipped, unique, sniffed)
            wrong = by_place(found)
        deltas = {
            key: mine.delta(upserts=request.mode == MERGE, overwrites=request.mode == OVERWRITE)
            for key, mine in intake.gathered.items()
        }
        replaced = {key: replaced_rows(delta) for key, delta in deltas.items()} if request.mode == MERGE else {}
        if wrong and request.max_errors is None:
            single = {key: delta for key, delta in deltas.items() if not replaced.get(key)}
            raise_first([*wrong, *faults_beside(txn, single, found, is_complete=not found.full)])
        _require_few(request, [*wrong, *refused])
        excluded = {key: places for key, places in replaced.items() if places}
        if not excluded:
            verdict = validate(txn, deltas, limit=limit, progress=request.progress)
            if not verdict.violations:
                return intake, verdict, (*wrong, *refused), counts_of(unique.skipped if unique else {}, "edge")
            refused.extend(verdict.violations)
            _require_few(request, [*wrong, *refused])
            if any(each.row is None for each in verdict.violations):
                raise_first(verdict.violations)
            for each in verdict.violations:
                excluded.setdefault(str(each.type_key), set()).add((each.path, each.row))
        for key, places in excluded.items():
            skipped.setdefault(key, set()).update(places)
        if unique is None:
            intake.exclude(excluded)
        else:
            intake = None


def _require_few(request: LoadRequest, violations: Sequence[Violation]) -> None:
    if request.max_errors is None or len(violations) > request.max_errors:
        raise_first(violations)


def _read(
    txn: WriteTxn, request: LoadRequest, found: Findings, skipped: Mapping[str, set[Place]],
    unique: UniqueEdges | None, sniffed: Sniffed,
) -> Intake:  # fmt: skip
    intake = Intake(txn.store, txn, found)
    block_bytes = txn.store.settings.load_block_bytes
    reading = Reading(txn.catalog, found, request.ignore_unknown, block_bytes, sniffed)
    with read_progress(request.progress, request.inputs) as progress:
        for each in request.inputs:
            for batch in progress.batches(each, reading):
                refused = skipped.get(batch.entity.table_key)
                batch = batch.without(refused) if refused else batch
                intake.add(unique.unique(batch) if unique else batch)
            if found.full:
                break
    return intake


def _effects(txn: WriteTxn, intake: Intake, mode: str) -> dict[str, Effect]:
    replaced = {
        key: mine.keys["id"].drop_null().to_pylist() if mode == MERGE and not mine.fresh_ids else []
        for key, mine in intake.gathered.items()
    }
    small = intake.few_rows()
    if small is not None and mode != OVERWRITE:
        with intake.write_progress(txn.progress):
            return {key: txn.effect(key, rows, replaced[key]) for key, rows in small.items()}
    effects: dict[str, Effect] = {}
    for key, fragments in intake.fragments(txn.progress).items():
        if mode == OVERWRITE:
            effects[key] = OverwriteRows(fragments)
        else:
            effects[key] = ReplaceRows(tuple(replaced[key]), fragments) if replaced[key] else AppendRows(fragments)
    return effects


def counts_of(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """Rows by type name, of the tables of one kind."""
    return {key.partition(":")[2]: n for key, n in sorted(counts.items()) if key.startswith(f"{kind}:")}
