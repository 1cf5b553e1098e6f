"""Handle requests that change rows: loads, mutations, deletes, merges, and reverts of commits.

A write whose meaning does not depend on the head is prepared again when the branch moves, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.api.arguments import EntityId
from omnigraph.api.options import Engine
from omnigraph.api.progress import Listener
from omnigraph.api.results import DeleteResult, LoadResult, MergeResult, MutationResult, RestoreResult
from omnigraph.api.write_requests import (
    CherryPick,
    DeleteEntities,
    LoadRows,
    MergeBranch,
    RestoreTarget,
    RevertCommit,
    RunMutation,
)
from omnigraph.errors import InvalidArgument, NotFound, OmnigraphError
from omnigraph.local.engines import find_engine, holds_spark_frames
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.query import bind_params
from omnigraph.query.ir import QueryIR
from omnigraph.versioning.repository import Repository
from omnigraph.write.delete import delete_entities
from omnigraph.write.inputs.file_options import NO_OPTIONS
from omnigraph.write.load import APPEND, OVERWRITE, LoadRequest, load_rows
from omnigraph.write.merge import delete_merged, merge_branch
from omnigraph.write.merge_compare import Comparing, in_process
from omnigraph.write.mutate import MutationRequest, mutate
from omnigraph.write.retries import retry_on_conflict
from omnigraph.write.sources import holds_few_rows, inputs_of
from omnigraph.write.undo import Author, cherry_pick, restore_graph, restore_rows, revert_commit, terms_of


def load(graph: LocalGraph, request: LoadRows, progress: Listener | None) -> LoadResult:
    """Write nodes and edges in one commit."""
    if request.engine == "spark" or (request.engine == "auto" and holds_spark_frames(request.data)):
        return find_engine("spark").load(graph, request, progress)
    wanted = LoadRequest(
        inputs=inputs_of(request.data, request.options or NO_OPTIONS), mode=request.mode, branch=request.branch,
        actor=request.actor, message=request.message, expect_head=request.expect_head,
        idempotency_key=request.idempotency_key, dry_run=request.dry_run, max_errors=request.max_errors,
        ignore_unknown=request.ignore_unknown, dedupe_edges=request.dedupe_edges, progress=progress,
        is_small=holds_few_rows(request.data),
    )  # fmt: skip
    created = fork_if_missing(graph.repository, request.branch, request.from_branch)

    def attempt(fresh: bool) -> LoadResult:
        return load_rows(graph.repository, wanted, fresh=fresh)

    fresh_first = request.mode != APPEND or graph.store.root.is_local
    try:
        result = attempt(True) if request.mode == OVERWRITE else retry_on_conflict(attempt, fresh_first=fresh_first)
    except OmnigraphError:
        if created:  # a refused load leaves nothing behind, not even the branch that it forked
            graph.repository.refs.delete(request.branch)
        raise
    except KeyboardInterrupt:
        if created:  # an interrupted load may have been published
            graph.repository.refs.delete_unused(request.branch)
        raise
    if created and request.dry_run:
        graph.repository.refs.delete(request.branch)
    return replace(result, base_branch=request.from_branch, branch_created=created)


def fork_if_missing(repository: Repository, branch: str, from_branch: str | None) -> bool:
    """Create `branch` from another when one is named and it does not exist; return whether it was created."""
    if from_branch is None:
        return False
    try:
        repository.refs.get(branch)
    except NotFound:
        repository.create_branch(branch, from_branch)
        return True
    return False


def run_mutation(graph: LocalGraph, request: RunMutation, _: Listener | None) -> MutationResult:
    """Run one mutation as one commit. Inserts are compiled and checked again when the branch moved."""
    graph.store.require_writable()
    try:
        first = _compile_mutation(graph, request, fresh=False)
    except OmnigraphError:  # of a state some seconds old: the newest may have the missing name
        first = _compile_mutation(graph, request, fresh=True)
    if not first.only_inserts:
        return mutate(graph.repository, first)
    return retry_on_conflict(
        lambda fresh: mutate(graph.repository, _compile_mutation(graph, request, fresh=fresh), fresh=fresh),
        fresh_first=graph.store.root.is_local,
    )


def _compile_mutation(graph: LocalGraph, request: RunMutation, *, fresh: bool) -> MutationRequest:
    repository = graph.repository
    state = repository.head(request.branch) if fresh else repository.recent_head(request.branch)
    catalog = graph.store.catalog(state.schema_hash)
    compiled = graph.queries.get(request.query, catalog, state.schema_hash, request.name, request.path)
    if isinstance(compiled, QueryIR):
        raise InvalidArgument(f"{compiled.name} is a read, not a mutation", hint="use query() for reads")
    return MutationRequest(
        query=compiled, schema_hash=state.schema_hash, params=bind_params(compiled, request.params),
        branch=request.branch, actor=request.actor, message=request.message, expect_head=request.expect_head,
        idempotency_key=request.idempotency_key, max_entities=request.max_entities,
    )  # fmt: skip


def delete(graph: LocalGraph, request: DeleteEntities, _: Listener | None) -> DeleteResult:
    """Remove entities, and the edges of removed nodes."""
    return delete_entities(
        graph.repository, request.type_name, request.ids, branch=request.branch, actor=request.actor,
        message=request.message,
    )  # fmt: skip


def merge(graph: LocalGraph, request: MergeBranch, progress: Listener | None) -> MergeResult:
    """Bring the changes of one branch into another."""
    result = merge_branch(
        graph.repository, request.source, request.into, strategy=request.strategy, dry_run=request.dry_run,
        property_level=request.property_level, actor=request.actor, message=request.message,
        comparing=_comparing(request.engine, progress), resolutions=request.resolutions, progress=progress,
    )  # fmt: skip
    return delete_merged(graph.repository, result) if request.delete_branch and not request.dry_run else result


def _comparing(engine: Engine, progress: Listener | None) -> Comparing:
    return in_process if engine in ("arrow", "auto") else find_engine(engine).comparing(progress)


def revert(graph: LocalGraph, request: RevertCommit, _: Listener | None) -> MergeResult:
    """Revert the changes of a commit of a branch."""
    terms = terms_of(request.strategy, property_level=True)
    author = Author(actor=request.actor, message=request.message)
    return retry_on_conflict(
        lambda _: revert_commit(
            graph.repository, request.commit_id, request.branch, terms=terms, author=author, dry_run=request.dry_run
        ),
        fresh_first=True,
    )


def pick(graph: LocalGraph, request: CherryPick, _: Listener | None) -> MergeResult:
    """Apply the changes of one commit to a branch."""
    terms = terms_of(request.strategy, property_level=True)
    author = Author(actor=request.actor, message=request.message)
    return retry_on_conflict(
        lambda _: cherry_pick(
            graph.repository, request.commit_id, request.branch, terms=terms, author=author, dry_run=request.dry_run
        ),
        fresh_first=True,
    )


def restore(graph: LocalGraph, request: RestoreTarget, _: Listener | None) -> RestoreResult:
    """Restore a branch to a target: the whole graph with its schema, or rows under the present schema."""
    author = Author(actor=request.actor, message=request.message)
    if not request.types and request.ids is None:
        return restore_graph(graph.repository, request.at, request.branch, author=author, dry_run=request.dry_run)
    wanted: dict[str, Sequence[EntityId] | None] = {**(request.ids or {}), **dict.fromkeys(request.types)}
    return restore_rows(graph.repository, request.at, request.branch, wanted, author=author, dry_run=request.dry_run)


HANDLERS: Handlers = {
    LoadRows: load,
    RunMutation: run_mutation,
    DeleteEntities: delete,
    MergeBranch: merge,
    RevertCommit: revert,
    CherryPick: pick,
    RestoreTarget: restore,
}
