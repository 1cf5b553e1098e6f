"""Named snapshots. A tag is one write-once object, and what it names is kept from cleanup."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.errors import NameTaken, TagNotFound
from omnigraph.storage.decode import (
    Malformed,
    as_commit_id,
    as_integer,
    as_name,
    as_native_branch,
    as_object,
    decoding,
)
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import TAGS, tag_name, tag_path
from omnigraph.versioning.claims import check_name
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.store import GraphStore, now_us


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for the state of one commit."""

    name: str
    graph_commit_id: str
    branch: str
    native_branch: str | None
    manifest_version: int
    created_at: int

    @classmethod
    def from_json(cls, value: Any, path: str) -> Tag:
        """The tag whose object is at `path`, each value checked."""
        with decoding(path):
            given = as_object(value, "a tag")
            tag = cls(
                name=as_name(given["name"]),
                graph_commit_id=as_commit_id(given["graph_commit_id"]),
                branch=as_name(given["branch"]),
                native_branch=as_native_branch(given["native_branch"]),
                manifest_version=as_integer(given["manifest_version"], "a manifest version"),
                created_at=as_integer(given["created_at"], "a time"),
            )
            if path != tag_path(tag.name):
                raise Malformed(f"it is about the tag {tag.name!r}")
        return tag


class Tags:
    """Creates, lists, resolves and deletes tags."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def create(self, name: str, state: ManifestState) -> Tag:
        """Name the state of a branch at one version. An existing name is never moved."""
        self._store.require_writable()
        check_name(name, "tag")
        tag = Tag(name, state.head, state.branch, state.native_branch, state.version, now_us())
        if not self._store.objects.put_new_json(tag_path(name), asdict(tag)):
            raise NameTaken(f"tag {name!r} exists", hint="delete it first, or choose another name")
        hit(Point.TAG_WRITTEN)
        return tag

    def find(self, name: str) -> Tag | None:
        """A tag by name, or None."""
        path = tag_path(name)
        value = self._store.objects.get_json(path)
        return None if value is None else Tag.from_json(value, path)

    def list(self) -> list[Tag]:
        """All tags by name."""
        found = (self.find(tag_name(info.path)) for info in self._store.objects.list(TAGS))
        return [tag for tag in found if tag is not None]

    def delete(self, name: str) -> None:
        """Forget a tag. What it named stays readable until cleanup."""
        self._store.require_writable()
        if self.find(name) is None:
            raise TagNotFound(
                f"there is no tag {name!r}", hint=f"tags: {', '.join(t.name for t in self.list()) or 'none'}"
            )
        self._store.objects.delete([tag_path(name)])
