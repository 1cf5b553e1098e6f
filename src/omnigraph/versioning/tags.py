"""Named snapshots. A tag is one write-once object, and the state it names is kept from cleanup.

Each tag is recorded twice, in two directories: the loss of one file loses neither the tag nor the versions it keeps,
and `fsck` reports it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from omnigraph.api.commits import Tag
from omnigraph.errors import CorruptGraph, NameTaken, StoreReplaced, TagNotFound
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
from omnigraph.storage.layout import TAG_COPIES, TAGS, tag_name, tag_path
from omnigraph.storage.presence import missing_files
from omnigraph.versioning.claims import MAIN, Claims, check_name, claim_path
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.store import GraphStore, mint, now_us


def parse_tag(value: Any, path: str) -> Tag:
    """The tag whose object is at `path`, each value checked."""
    with decoding(path):
        given = as_object(value, "a tag")
        tag = Tag(
            name=as_name(given["name"]),
            graph_commit_id=as_commit_id(given["graph_commit_id"]),
            branch=as_name(given["branch"]),
            native_branch=as_native_branch(given["native_branch"]),
            manifest_version=as_integer(given["manifest_version"], "a manifest version"),
            created_at=as_integer(given["created_at"], "a time"),
            tag_id=as_commit_id(given["tag_id"]),
        )
        if path not in (tag_path(tag.name), tag_path(tag.name, TAG_COPIES)):
            raise Malformed(f"it is about the tag {tag.name!r}")
    return tag


class Tags:
    """Creates, lists, resolves and deletes tags."""

    def __init__(self, store: GraphStore, claims: Claims) -> None:
        self._store = store
        self._claims = claims

    def create(self, name: str, state: ManifestState) -> Tag:
        """Name the state of a branch at one version. An existing name is never moved."""
        self._store.require_writable()
        check_name(name, "tag")
        if name == "main" or any(claim.is_open for claim in self._claims.newest(name)):
            raise NameTaken(f"there is a branch {name!r}, and reads could mean either", hint="choose another name")
        tag = Tag(name, state.head, state.branch, state.native_branch, state.version, now_us(), mint())
        if not self._store.objects.put_new_json(tag_path(name), asdict(tag)):
            raise NameTaken(f"tag {name!r} exists", hint="delete it first, or choose another name")
        if not self._store.objects.put_new_json(tag_path(name, TAG_COPIES), asdict(tag)):
            # Remains of a tag whose first record was lost: the name was in use.
            self._store.objects.delete([tag_path(name)])
            raise NameTaken(
                f"tag {name!r} exists, and one of its two records is lost",
                hint="`omnigraph repair --confirm` restores it; or choose another name",
            )
        hit(Point.TAG_WRITTEN)
        missing = missing_files(self._store.root, [claim_path(MAIN, 0), tag_path(name), tag_path(name, TAG_COPIES)])
        if missing:
            raise StoreReplaced(
                f"{self._store.root.uri} was moved or replaced while tag {name!r} was being created: "
                f"{missing[0]} is not there",
                hint="check the location, then look whether the tag is there",
            )
        return tag

    def record_again(self, tag: Tag) -> None:
        """Put the missing one of the two records of a tag."""
        for path in (tag_path(tag.name), tag_path(tag.name, TAG_COPIES)):
            self._store.objects.put_new_json(path, asdict(tag))

    def find(self, name: str) -> Tag | None:
        """A tag by name, or None."""
        try:
            return self._read(tag_path(name)) or self._read(tag_path(name, TAG_COPIES))
        except CorruptGraph:
            copy = self._read(tag_path(name, TAG_COPIES))
            if copy is None:
                raise
            return copy

    def has_first_record(self, name: str) -> bool:
        """Whether the first record of a tag exists; `Claims.survey` reports the second. One probe."""
        return self._store.objects.exists(tag_path(name))

    def list(self) -> list[Tag]:
        """All tags by name."""
        self._store.require_present()
        found = (self.find(name) for name in sorted(self.recorded_names(TAGS) | self.recorded_names(TAG_COPIES)))
        return [tag for tag in found if tag is not None]

    def recorded_names(self, prefix: str) -> set[str]:
        """Names of the tags that have a record below `TAGS` or `TAG_COPIES`."""
        return {tag_name(info.path) for info in self._store.objects.list(prefix)}

    def delete(self, name: str) -> None:
        """Delete a tag. The state that it named stays readable until cleanup."""
        self._store.require_writable()
        if self.find(name) is None:
            raise TagNotFound(
                f"there is no tag {name!r}", hint=f"tags: {', '.join(t.name for t in self.list()) or 'none'}"
            )
        # A tag exists as long as one of its records does: a deletion that is cut short has not happened.
        for path in (tag_path(name, TAG_COPIES), tag_path(name)):
            self._store.objects.delete([path])

    def _read(self, path: str) -> Tag | None:
        value = self._store.objects.get_json(path)
        return None if value is None else parse_tag(value, path)
