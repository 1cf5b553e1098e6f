"""Loading rows: nodes and edges of any number of types in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.effects import AppendRows, Effect, OverwriteRows, ReplaceRows
from omnigraph.storage.staged import write_rows
from omnigraph.versioning.commits import GraphCommit
from omnigraph.versioning.plan import Requirement
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import mint
from omnigraph.write.rows import Batch, batches_from_envelopes, batches_from_frames
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validate import (
    APPEND,
    MERGE,
    OVERWRITE,
    require_endpoints,
    require_new_keys,
    require_no_dangling,
    without_duplicates,
)

MODES = (APPEND, MERGE, OVERWRITE)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did. `commit` is None when there was nothing to load."""

    branch: str
    mode: str
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    commit: GraphCommit | None
    base_branch: str | None = None
    branch_created: bool = False

    @property
    def total_entities(self) -> int:
        """Nodes and edges together."""
        return sum(self.nodes.values()) + sum(self.edges.values())


def load_rows(
    repository: Repository, data: Any, *, mode: str, branch: str, actor: str | None = None, message: str | None = None,
    expect_head: str | None = None, fresh: bool = True,
) -> LoadResult:  # fmt: skip
    """Validate, stage and publish rows as one commit. Not `fresh`: start from a state that may be some seconds old."""
    if mode not in MODES:
        raise InvalidArgument(f"mode {mode!r} is unknown", hint=f"use one of {', '.join(MODES)}")
    txn = WriteTxn(repository, branch, kind="load", actor=actor, message=message, expect_head=expect_head, fresh=fresh)
    batches = {k: without_duplicates(b, mode) for k, b in _batches(data, txn.catalog).items()}
    counts = {key: batch.table.num_rows for key, batch in batches.items()}
    if mode != OVERWRITE:
        batches = {key: batch for key, batch in batches.items() if batch.table.num_rows}
    commit = None
    if batches:
        requirements = _requirements(txn, batches, mode)
        effects = _effects(txn, batches, mode)
        commit = txn.commit(effects, requirements, rebase_updates=mode == MERGE)
    return LoadResult(branch, mode, _counts(counts, "node"), _counts(counts, "edge"), commit)


def _batches(data: Any, catalog: Catalog) -> dict[str, Batch]:
    if isinstance(data, Mapping):
        return batches_from_frames(data, catalog, mint)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return batches_from_envelopes(data, catalog, mint)
    raise InvalidArgument(
        f"cannot load {type(data).__name__}",
        hint='pass envelope rows, or {"Person": table or rows, "Knows": table or rows}',
    )


def _requirements(txn: WriteTxn, batches: Mapping[str, Batch], mode: str) -> list[Requirement]:
    requirements: list[Requirement] = []
    if mode == APPEND:
        for batch in batches.values():
            requirements.extend(require_new_keys(txn, batch))
    requirements.extend(require_endpoints(txn, batches, mode))
    if mode == OVERWRITE:
        requirements.extend(require_no_dangling(txn, batches))
    return requirements


def _effects(txn: WriteTxn, batches: Mapping[str, Batch], mode: str) -> dict[str, Effect]:
    if len(batches) == 1:
        return {key: _effect(txn, batch, mode) for key, batch in batches.items()}
    written = txn.store.workers.map(lambda batch: _effect(txn, batch, mode), batches.values())
    return dict(zip(batches, written, strict=True))


def _effect(txn: WriteTxn, batch: Batch, mode: str) -> Effect:
    key = batch.entity.table_key
    fragments = write_rows(txn.store.tables, txn.table(key), batch.table) if batch.table.num_rows else ()
    if mode == OVERWRITE:
        return OverwriteRows(fragments)
    if mode == MERGE and not batch.fresh_ids:
        return ReplaceRows(tuple(batch.ids), fragments)
    return AppendRows(fragments)


def _counts(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    return {key.partition(":")[2]: n for key, n in sorted(counts.items()) if key.startswith(f"{kind}:")}
