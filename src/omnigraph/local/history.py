"""Handle requests about branches, tags, commits and the changes between them."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.api.changes import ChangeFeed, ChangeFilter, EntityChange
from omnigraph.api.commits import Branch, GraphCommit, Tag
from omnigraph.api.progress import Listener
from omnigraph.api.requests import (
    CommitChanges,
    DiffTargets,
    GetBranch,
    GetCommit,
    GetHead,
    ListBranches,
    ListCommits,
    ListTags,
    PollChanges,
)
from omnigraph.api.results import HistoryExport
from omnigraph.api.write_requests import CreateBranch, CreateTag, DeleteBranch, DeleteTag, ExportHistory
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.versioning.changes import Feed, changes_between, changes_of, require_types
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import CommitFilter
from omnigraph.write.export_history import export_history


def list_branches(graph: LocalGraph, _: ListBranches, __: Listener | None) -> list[Branch]:
    """All branches, main first."""
    return graph.repository.refs.list()


def get_branch(graph: LocalGraph, request: GetBranch, _: Listener | None) -> Branch:
    """One branch."""
    return graph.repository.refs.get(request.name)


def create_branch(graph: LocalGraph, request: CreateBranch, _: Listener | None) -> Branch:
    """A new branch that begins with a target."""
    return graph.repository.create_branch(request.name, request.at)


def delete_branch(graph: LocalGraph, request: DeleteBranch, _: Listener | None) -> None:
    """Delete a branch."""
    graph.repository.refs.delete(request.name)


def list_tags(graph: LocalGraph, _: ListTags, __: Listener | None) -> list[Tag]:
    """All tags."""
    return graph.repository.tags.list()


def create_tag(graph: LocalGraph, request: CreateTag, _: Listener | None) -> Tag:
    """Name the state of a target."""
    return graph.repository.create_tag(request.name, request.at)


def delete_tag(graph: LocalGraph, request: DeleteTag, _: Listener | None) -> None:
    """Forget a tag."""
    graph.repository.tags.delete(request.name)


def list_commits(graph: LocalGraph, request: ListCommits, _: Listener | None) -> Iterator[GraphCommit]:
    """Commits of a branch, newest first."""
    return graph.repository.commits(request.branch, CommitFilter(request.actor, request.limit))


def get_commit(graph: LocalGraph, request: GetCommit, _: Listener | None) -> GraphCommit:
    """One commit by id."""
    return graph.repository.commit(request.commit_id)


def get_head(graph: LocalGraph, request: GetHead, _: Listener | None) -> GraphCommit:
    """The newest commit of a branch."""
    state = graph.repository.head(request.branch)
    return state.commits[state.head]


def commit_changes(graph: LocalGraph, request: CommitChanges, _: Listener | None) -> tuple[EntityChange, ...]:
    """Return the changes of a commit against its first parent."""
    commit = graph.repository.commit(request.commit_id)
    if request.types:
        require_types(graph.store, graph.repository.head(MAIN), request.types)
    return tuple(changes_of(graph.repository, commit, _filter(request)))


def diff_targets(graph: LocalGraph, request: DiffTargets, _: Listener | None) -> Iterator[EntityChange]:
    """Return the changes from one target to another."""
    base, head = graph.repository.resolve(request.a), graph.repository.resolve(request.b)
    require_types(graph.store, head, request.types)
    found = changes_between(graph.store, base, head, _filter(request))
    return graph.repository.read_through(found, base, head)


def poll_changes(graph: LocalGraph, request: PollChanges, _: Listener | None) -> ChangeFeed:
    """Return the commits of a branch after a cursor. A feed that continues was checked when it began."""
    if request.cursor is None:
        require_types(graph.store, graph.repository.head(request.branch), request.types)
    return Feed(
        graph.repository, branch=request.branch, cursor=request.cursor, start=request.start, wanted=_filter(request),
        limit=request.limit,
    )  # fmt: skip


def write_history(graph: LocalGraph, request: ExportHistory, _: Listener | None) -> HistoryExport:
    """Write every commit of a branch with its changes."""
    return export_history(graph.repository, request.target, request.branch)


def _filter(request: CommitChanges | DiffTargets | PollChanges) -> ChangeFilter:
    return ChangeFilter(tuple(request.kinds), tuple(request.types), tuple(request.ops))


HANDLERS: Handlers = {
    ListBranches: list_branches,
    GetBranch: get_branch,
    CreateBranch: create_branch,
    DeleteBranch: delete_branch,
    ListTags: list_tags,
    CreateTag: create_tag,
    DeleteTag: delete_tag,
    ListCommits: list_commits,
    GetCommit: get_commit,
    GetHead: get_head,
    CommitChanges: commit_changes,
    DiffTargets: diff_targets,
    PollChanges: poll_changes,
    ExportHistory: write_history,
}
