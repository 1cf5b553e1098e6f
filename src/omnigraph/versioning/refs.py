"""Branches: a claimed name, and behind it an incarnation with a manifest of its own.

A new branch is born whole: its first manifest version holds the complete state, so it needs nothing of its parent and
costs the same for one table or a thousand. Deleting publishes a closing version, to which every late writer loses its
swap. That version is what ends the branch; its files stay for the collector.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.errors import BranchInUse, BranchNotFound, NameTaken
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import TAGS, manifest_path, tag_name
from omnigraph.versioning.claims import MAIN, Branch, Claims, ListedClaim, check_name
from omnigraph.versioning.manifest import ManifestState, RowWriter
from omnigraph.versioning.publish import Publisher
from omnigraph.versioning.store import GraphStore, mint, now_us, ticks
from omnigraph.versioning.tips import BranchTip, Tips, require_readable

__all__ = ["MAIN", "Branch", "Refs", "check_name"]


class Refs:
    """Creates, lists, resolves and deletes branches."""

    def __init__(self, store: GraphStore, tips: Tips, publisher: Publisher) -> None:
        self._store = store
        self._tips = tips
        self._publisher = publisher
        self._claims = Claims(store.objects)
        # A closed branch says so itself, so a name that was resolved once need not be looked up again.
        self._resolved: dict[str, Branch] = {}

    def tip(self, name: str) -> BranchTip:
        """The tip of a branch by its public name."""
        if name == MAIN:
            return self._tips.of(MAIN, None)
        known = self._resolved.get(name)
        if known is None:
            known = self._resolved[name] = self.get(name)
        return self._tips.of(name, known.native_branch)

    def forget(self, name: str) -> None:
        """Look a name up again the next time: its branch turned out to be closed."""
        branch = self._resolved.pop(name, None)
        if branch is not None:
            self._tips.forget(branch.native_branch)

    def get(self, name: str) -> Branch:
        """A branch that exists."""
        if name == MAIN:
            return Branch(MAIN)
        for claim in self._claims.newest(name):
            if not claim.is_closed:
                return self._claims.read(claim)
        raise BranchNotFound(f"there is no branch {name!r}", hint=f"branches: {', '.join(b.name for b in self.list())}")

    def create(self, name: str, source: ManifestState) -> Branch:
        """A branch that begins with the state `source`."""
        self._store.require_writable()
        check_name(name)
        if name == MAIN:
            raise NameTaken("'main' exists from the beginning", hint="choose another name")
        generation = self._next_generation(name)
        native = f"{name}.{mint()}"
        state = replace(require_readable(source), branch=name, native_branch=native, version=1)
        born = self._store.manifests.create(manifest_path(native), RowWriter().rows(state))
        hit(Point.BRANCH_MANIFEST)
        branch = Branch(name, native, source.branch, source.native_branch, source.head, now_us(), generation)
        if not self._claims.put(branch):
            self._store.objects.delete_prefix(manifest_path(native))
            raise NameTaken(
                f"branch {name!r} was created by someone else just now", hint="use it, or choose another name"
            )
        hit(Point.BRANCH_CLAIMED)
        self._tips.of(name, native).advance(state, born, ticks())
        self._resolved[name] = branch
        return branch

    def delete(self, name: str) -> None:
        """Close a branch, which frees its name."""
        self._store.require_writable()
        if name == MAIN:
            raise BranchInUse("'main' cannot be deleted")
        branch = self.get(name)
        self._require_unused(branch)
        hit(Point.BRANCH_BEFORE_CLOSE)
        closed_it = self._publisher.close_branch(self._tips.of(name, branch.native_branch))
        hit(Point.BRANCH_CLOSED)
        self._claims.mark_closed(name, branch.generation)
        hit(Point.BRANCH_UNCLAIMED)
        self.forget(name)
        self._tips.forget(branch.native_branch)
        if not closed_it:
            raise BranchNotFound(f"branch {name!r} was deleted by someone else")

    def _next_generation(self, name: str) -> int:
        generation = 1
        for claim in self._claims.newest():
            taken = claim.name
            if taken == name:
                self._require_closed(claim)
                generation = claim.generation + 1
            elif not claim.is_closed and (taken.startswith(f"{name}/") or name.startswith(f"{taken}/")):
                inner, outer = (name, taken) if name.startswith(taken) else (taken, name)
                raise NameTaken(
                    f"branch {inner!r} would lie inside branch {outer!r}",
                    hint="choose a name that is not a path prefix of another branch",
                )
        return generation

    def _require_closed(self, claim: ListedClaim) -> None:
        """A name is free when its last branch is closed, whether or not its deleter lived to say so."""
        if claim.is_closed:
            return
        branch = self._claims.read(claim)
        if not self._tips.of(claim.name, branch.native_branch).state().closed:
            raise NameTaken(f"branch {claim.name!r} exists", hint="choose another name, or delete it first")
        self._claims.mark_closed(claim.name, claim.generation)

    def _require_unused(self, branch: Branch) -> None:
        children = [b.name for b in self._claimed() if b.parent_native == branch.native_branch]
        if children:
            raise BranchInUse(
                f"branch {branch.name!r} has descendants: {', '.join(children)}", hint="delete or merge those first"
            )
        tags = self._tags_on(branch)
        if tags:
            raise BranchInUse(
                f"branch {branch.name!r} is held by tags: {', '.join(tags)}", hint="delete the tags first"
            )

    def _tags_on(self, branch: Branch) -> tuple[str, ...]:
        found = []
        for info in self._store.objects.list(TAGS):
            value = self._store.objects.get_json(info.path)
            if isinstance(value, dict) and value.get("native_branch") == branch.native_branch:
                found.append(tag_name(info.path))
        return tuple(found)

    def _claimed(self) -> tuple[Branch, ...]:
        """Every claim that is not marked closed."""
        return tuple(self._store.workers.map(self._claims.read, [c for c in self._claims.newest() if not c.is_closed]))

    def _is_open(self, branch: Branch) -> bool:
        return not self._tips.of(branch.name, branch.native_branch).state().closed

    def every_incarnation(self) -> list[Branch]:
        """Every branch that was ever claimed, deleted ones included."""
        return self._claims.every()

    def list(self) -> list[Branch]:
        """Main, then every open branch by name."""
        claimed = self._claimed()
        alive = self._store.workers.map(self._is_open, claimed)
        return [Branch(MAIN), *(branch for branch, open_ in zip(claimed, alive, strict=True) if open_)]
