"""Pins and objects that a plan adopts without staging: pins of another branch, new or reshaped tables, a schema.

A merge adopts the pins of tables that only its source changed, and copies the commits that only the source has. A
schema change adopts the tables that it created or reshaped. All of it becomes visible with the plan's one swap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.api.commits import GraphCommit
from omnigraph.storage.decode import as_list, as_object, as_optional_commit_id, as_schema_hash, as_table_key
from omnigraph.versioning.commits import parse_commit
from omnigraph.versioning.snapshot import TableEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Graft:
    """`adopted` entries come from another branch; `reshaped` ones were made from the branch's own pins, and from no
    others.

    `removed` are keys of tables that are dropped and may be restored, `erased` those that are dropped for good.
    `renamed` maps the key of an entry to the key it had on the branch. `parted` are tables that the source changed and
    whose pin stays the branch's own: from now on row ids of the two lines, both of which are ancestors, may mean
    different rows.
    """

    adopted: tuple[TableEntry, ...] = ()
    reshaped: tuple[TableEntry, ...] = ()
    removed: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    schema_hash: str | None = None
    merged_parent: str | None = None
    commits: tuple[GraphCommit, ...] = ()
    parted: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """Keys, as the branch had them, of all tables that the graft replaces, renames or removes."""
        old = self.renamed
        return frozenset(old.get(e.table_key, e.table_key) for e in (*self.adopted, *self.reshaped)).union(
            self.removed, self.erased, old.values()
        )

    def applied(self, tables: Mapping[str, TableEntry], commit_id: str) -> dict[str, TableEntry]:
        """The tables of a branch after the graft. A replaced table gets a version above both versions that it had."""
        old = self.renamed
        gone = {*self.removed, *self.erased, *old.values()}
        result = {key: entry for key, entry in tables.items() if key not in gone}
        for key, was in old.items():
            if was in tables:
                result[key] = replace(tables[was], table_key=key)
        for entry in (*self.adopted, *self.reshaped):
            before = tables.get(old.get(entry.table_key, entry.table_key))
            if before is not None and before.is_same_pin(entry) and before.content_version == entry.content_version:
                result[entry.table_key] = replace(before, table_key=entry.table_key)
                continue
            version = max(entry.table_version, before.table_version if before is not None else 0)
            result[entry.table_key] = replace(
                entry, table_version=version + (before is not None), commit_id=commit_id, changes={}
            )
        for key in self.parted:
            if key in result:
                result[key] = replace(result[key], family=commit_id)
        return result

    def history(self, inline: Mapping[str, GraphCommit]) -> dict[str, GraphCommit]:
        """The branch's inline commits and the copied ones, oldest first. The commits of each line keep their order.

        Commit times come from many clocks, so a copied commit comes after its parents whatever its time says. No commit
        of the branch has a copied one as its parent.
        """
        own = list(inline.values())
        place = {commit_id: at for at, commit_id in enumerate(inline)}
        joined: list[GraphCommit] = []
        taken = 0
        for commit in self.commits:
            after = max(place.get(p or "", -1) for p in (commit.parent_commit_id, commit.merged_parent_commit_id))
            while taken < len(own) and (taken <= after or own[taken].created_at <= commit.created_at):
                joined.append(own[taken])
                taken += 1
            if commit.graph_commit_id not in inline:
                joined.append(commit)
        return {c.graph_commit_id: c for c in (*joined, *own[taken:])}


NO_GRAFT = Graft()


def graft_to_json(graft: Graft) -> dict[str, Any]:
    """A JSON-ready form, the inverse of `graft_from_json`."""
    return {
        "adopted": [_entry_to_json(e) for e in graft.adopted],
        "reshaped": [_entry_to_json(e) for e in graft.reshaped],
        "removed": list(graft.removed),
        "erased": list(graft.erased),
        "renamed": dict(graft.renamed),
        "schema_hash": graft.schema_hash,
        "merged_parent": graft.merged_parent,
        "commits": [c.to_json() for c in graft.commits],
        "parted": list(graft.parted),
    }


def graft_from_json(given: Any) -> Graft:
    """The inverse of `graft_to_json`, each value checked; runs inside `decoding`."""
    value = as_object(given, "a graft")
    renamed = as_object(value["renamed"], "a map of renamed tables")
    return Graft(
        adopted=tuple(_entry_from_json(e) for e in as_list(value["adopted"], "a list of pins")),
        reshaped=tuple(_entry_from_json(e) for e in as_list(value["reshaped"], "a list of pins")),
        removed=tuple(as_table_key(key) for key in as_list(value["removed"], "a list of table keys")),
        erased=tuple(as_table_key(key) for key in as_list(value["erased"], "a list of table keys")),
        renamed={as_table_key(key): as_table_key(was) for key, was in renamed.items()},
        schema_hash=None if value["schema_hash"] is None else as_schema_hash(value["schema_hash"]),
        merged_parent=as_optional_commit_id(value["merged_parent"]),
        commits=tuple(parse_commit(c) for c in as_list(value["commits"], "a list of commits")),
        parted=tuple(as_table_key(key) for key in as_list(value["parted"], "a list of table keys")),
    )


def _entry_to_json(entry: TableEntry) -> list[Any]:
    return [entry.table_key, entry.location, entry.table_version, entry.row_count, entry.metadata_text()]


def _entry_from_json(value: Any) -> TableEntry:
    return TableEntry.parse(*as_list(value, "a pin"))
