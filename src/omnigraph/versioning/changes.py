"""Changes between two states, and the feed of the changes in each commit of a branch.

The cost depends on the size of the change: tables with equal content versions are not opened, and of the others only
files that differ are read. A maintenance commit is an empty block. Blocks follow the first parents of a branch, so the
changes of a merge appear once, in the block of the merge.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.api.changes import EVERYTHING, ChangeBlock, ChangeFilter, EntityChange
from omnigraph.api.commits import MAINTENANCE, GraphCommit
from omnigraph.datatypes import Scalar
from omnigraph.errors import ChangeFeedGap, CursorInvalid, InvalidArgument, MissingData, NotFound, TypeNotFound
from omnigraph.errors.base import show_value
from omnigraph.schema.names import suggest
from omnigraph.versioning.ancestry import Lineage
from omnigraph.versioning.diff import Pinned
from omnigraph.versioning.history import read_extent
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.row_images import changed_images
from omnigraph.versioning.store import GraphStore

_CURSOR_FORMAT = 2


def require_types(store: GraphStore, state: ManifestState, names: Iterable[str]) -> None:
    """Refuse names that no type has or ever had: a filter by such a name would hide every change."""
    known = {entity.name for entity in store.catalog(state.schema_hash).entity_types}
    for name in names:
        if name in known or any(name in (*each.nodes, *each.edges) for each in store.catalogs()):
            continue
        raise TypeNotFound(f"there is no node type and no edge type `{name}`", hint=suggest(name, known))


def changes_between(
    store: GraphStore, base: ManifestState, head: ManifestState, wanted: ChangeFilter = EVERYTHING, *,
    lineal: bool = False,
) -> Iterator[EntityChange]:  # fmt: skip
    """Every difference, nodes before edges, then by type, id and operation. `lineal`: `head` descends from `base`."""
    wanted.require_known()
    before, after = pins_by_type(store, base), pins_by_type(store, head)
    shapes = {i: p.entity for i, p in before.items()} | {i: p.entity for i, p in after.items()}
    for type_id, shape in sorted(shapes.items(), key=lambda item: (item[1].kind != "node", item[1].name, item[0])):
        if not wanted.wants(shape):
            continue
        sides = [pins[type_id].entity for pins in (before, after) if type_id in pins]
        f32 = frozenset(p.name for side in sides for p in side.properties if p.type.scalar is Scalar.F32)
        images = changed_images(store, before.get(type_id), after.get(type_id), lineal=lineal)
        for entity_id, op, old_row, new_row in images:
            if not wanted.ops or op in wanted.ops:
                yield EntityChange(
                    entity_kind=shape.kind, type_name=shape.name, entity_id=entity_id, op=op, before=old_row,
                    after=new_row, f32=f32,
                )  # fmt: skip


def changes_of(repository: Repository, commit: GraphCommit, wanted: ChangeFilter = EVERYTHING) -> list[EntityChange]:
    """The changes of one commit against its first parent."""
    return _told(repository, commit, wanted)[0]


def _told(
    repository: Repository, commit: GraphCommit, wanted: ChangeFilter = EVERYTHING
) -> tuple[list[EntityChange], bool]:
    """The changes of one commit, and whether it changed the schema."""
    if not has_changes(commit):
        return [], False
    with reclaimed_as_gap(commit):
        base, head = states_around(repository, commit)
        changes = list(changes_between(repository.store, base, head, wanted, lineal=True))
        return changes, base.schema_hash != head.schema_hash


def has_changes(commit: GraphCommit) -> bool:
    """False for a commit that changes no row: maintenance, and the first commit of a graph."""
    return commit.op_class != MAINTENANCE and commit.parent_commit_id is not None


def states_around(repository: Repository, commit: GraphCommit) -> tuple[ManifestState, ManifestState]:
    """The states before and after a commit that has a parent."""
    # The version before a commit's own is its first parent's state, also for the first commit of a branch.
    base = repository.state_at(
        commit.manifest_branch, commit.native_branch, commit.manifest_version - 1, commit.parent_commit_id
    )
    return base, repository.at(commit)


@contextmanager
def reclaimed_as_gap(commit: GraphCommit) -> Iterator[None]:
    """Report states or files that cleanup has reclaimed as a gap of the feed at a commit."""
    try:
        yield
    except (NotFound, MissingData) as error:
        raise ChangeFeedGap(commit.graph_commit_id) from error


def pins_by_type(store: GraphStore, state: ManifestState) -> dict[str, Pinned]:
    """Every type of a state at its pin, by type id."""
    types = store.catalog(state.schema_hash).entity_types
    return {t.type_id: Pinned(state.tables[t.table_key], t) for t in types}


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a feed: after one complete commit of one incarnation of a branch of one graph, under one filter."""

    graph: str
    branch: str
    native_branch: str | None
    commit_id: str
    wanted: ChangeFilter

    def text(self) -> str:
        """The opaque form that callers store."""
        body = [_CURSOR_FORMAT, self.graph, self.branch, self.native_branch, self.commit_id, self.wanted.words]
        return base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode()).decode()

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The inverse of `text`."""
        try:
            form, *fields = json.loads(base64.urlsafe_b64decode(text.encode()))
            if form != _CURSOR_FORMAT:
                raise CursorInvalid("the cursor was made by another version of omnigraph", hint="start from a baseline")
            graph, branch, native, commit_id, words = fields
            kinds, types, ops = (tuple(each) for each in words)
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
            raise CursorInvalid(
                f"{show_value(text, 40)} is no cursor", hint="pass a cursor as a poll printed it"
            ) from error
        given = (graph, branch, "" if native is None else native, commit_id, *kinds, *types, *ops)
        if not all(isinstance(each, str) for each in given):
            raise CursorInvalid(f"{show_value(text, 40)} is no cursor", hint="pass a cursor as a poll printed it")
        return cls(graph, branch, native, commit_id, ChangeFilter(kinds, types, ops))


class Feed:
    """The commits of a branch after a position, oldest first, each with its changes. Reading it changes no state.

    `cursor` is the position after the last block that was read; `caught_up` says that it was the head when the feed
    began.
    """

    def __init__(
        self, repository: Repository, *, branch: str = MAIN, cursor: str | None = None, start: str = "now",
        wanted: ChangeFilter = EVERYTHING, limit: int | None = None,
    ) -> None:  # fmt: skip
        wanted.require_known()
        self._repository = repository
        self._state = repository.head(branch)
        self._lineage = Lineage(repository.store.objects, self._state, {})
        self._place = Cursor(_identity(repository, self._state), branch, self._state.native_branch, "", wanted)
        after = self._start(cursor, start)
        commits = _first_parents(self._lineage, self._state.head, after)
        self.caught_up = limit is None or len(commits) <= limit
        self._commits = commits if limit is None else commits[:limit]
        self._read = after

    @property
    def cursor(self) -> str | None:
        """The position to continue from; None before the first commit of a feed from the beginning."""
        return None if self._read is None else self._cursor(self._read)

    @property
    def commits(self) -> tuple[GraphCommit, ...]:
        """The commits of the feed, oldest first."""
        return tuple(self._commits)

    def cursor_after(self, commit: GraphCommit) -> str:
        """The cursor that continues after one of the feed's commits."""
        return self._cursor(commit.graph_commit_id)

    def __iter__(self) -> Iterator[ChangeBlock]:
        for commit in self._commits:
            changes, schema_changed = _told(self._repository, commit, self._place.wanted)
            self._read = commit.graph_commit_id
            yield ChangeBlock(commit, tuple(changes), self._cursor(commit.graph_commit_id), schema_changed)

    def _cursor(self, commit_id: str) -> str:
        return replace(self._place, commit_id=commit_id).text()

    def _start(self, cursor: str | None, start: str) -> str | None:
        """The commit after which the feed begins; None is before the first."""
        if cursor is not None:
            given = Cursor.parse(cursor)
            if given.graph != self._place.graph:
                raise CursorInvalid("the cursor belongs to another graph", hint="start from a baseline of this one")
            if (given.branch, given.native_branch) != (self._place.branch, self._place.native_branch):
                raise CursorInvalid(
                    f"the cursor belongs to another branch, or to an earlier {given.branch!r}",
                    hint="start from a baseline of this branch",
                )
            if given.wanted.words != self._place.wanted.words:
                # Changes that one filter lets pass and the other does not would be missed or repeated without notice.
                raise CursorInvalid(
                    f"the cursor belongs to a feed of {str(given.wanted) or 'all changes'}, "
                    f"not of {str(self._place.wanted) or 'all changes'}",
                    hint="go on with the filter that the feed was begun with, or start from a baseline with this one",
                )
            start = f"after:{given.commit_id}"
        if start == "now":
            return self._state.head
        if start == "beginning":
            return None
        word, _, commit_id = start.partition(":")
        if word != "after" or not commit_id:
            raise InvalidArgument(f"start {start!r} is unknown", hint="use now, beginning or after:<commit id>")
        if commit_id not in self._lineage:
            raise ChangeFeedGap(commit_id)
        return commit_id


def _first_parents(lineage: Lineage, head: str, after: str | None) -> list[GraphCommit]:
    found: list[GraphCommit] = []
    commit_id: str | None = head
    while commit_id is not None and commit_id != after:
        commit = lineage.find(commit_id)
        if commit is None:
            raise ChangeFeedGap(commit_id)
        found.append(commit)
        commit_id = commit.parent_commit_id
    if commit_id != after:
        raise InvalidArgument(
            f"commit {after} came to this branch by a merge", hint="name a commit that was made on the branch"
        )
    return found[::-1]


def _identity(repository: Repository, state: ManifestState) -> str:
    """The id of the graph's first commit: no two graphs share it."""
    if state.extents:
        return read_extent(repository.store.objects, state.extents[0])[0].graph_commit_id
    return next(iter(state.commits))
