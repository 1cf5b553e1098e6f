"""Branches: a claimed name, and an incarnation with a manifest of its own.

The first manifest version of a new branch holds the complete state, so it needs nothing of its parent and costs the
same for one table or a thousand. One object deletes a branch: every publisher on the branch looks for that object after
the swap, so no late write counts. A closing version follows, by which readers with an open handle see its end; its
files stay for the collector.
"""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import replace

from omnigraph.api.commits import Branch
from omnigraph.errors import BranchInUse, BranchNotFound, CorruptGraph, MissingData, NameTaken, StoreReplaced
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import manifest_path
from omnigraph.storage.manifest_table import ManifestVersion
from omnigraph.storage.presence import missing_files
from omnigraph.versioning.branch_heads import BranchHead, BranchHeads, require_readable
from omnigraph.versioning.claims import MAIN, Claims, ClaimStatus, check_name, claim_path, closed_path, native_name
from omnigraph.versioning.manifest import ManifestState, RowWriter
from omnigraph.versioning.publish import Publisher
from omnigraph.versioning.store import GraphStore, mint, now_us, ticks
from omnigraph.versioning.tags import Tags

__all__ = ["MAIN", "Branch", "Refs", "check_name"]

_MAX_SHOWN = 10


class Refs:
    """Creates, lists, resolves and deletes branches."""

    def __init__(self, store: GraphStore, tips: BranchHeads, publisher: Publisher, claims: Claims, tags: Tags) -> None:
        self._store = store
        self._tips = tips
        self._publisher = publisher
        self._claims = claims
        self._tags = tags
        # A closed branch is recognised by its own manifest, so a resolved name need not be looked up again.
        self._resolved: dict[str, Branch] = {}

    def tip(self, name: str) -> BranchHead:
        """The head of a branch by its public name."""
        if name == MAIN:
            return self._tips.of(MAIN, None)
        known = self.resolve(name)
        if known is None:
            raise self.not_found(name)
        return self._tips.of(name, known.native_branch)

    def resolve(self, name: str) -> Branch | None:
        """A branch by name, or None. One that was resolved before may have been deleted since: `head` checks that."""
        known = self._resolved.get(name)
        if known is None:
            known = self.find(name)
            if known is not None:
                self._resolved[name] = known
        return known

    def head(self, name: str) -> ManifestState:
        """The newest state of an existing branch; a name that was resolved earlier may have a successor."""
        if name in self._resolved:
            with contextlib.suppress(MissingData):  # its files are collected
                state = self.tip(name).state()
                if not state.closed:
                    return state
            self.forget(name)
        tip = self.tip(name)
        try:
            return require_readable(tip.state())
        except MissingData as error:
            self._store.require_present()
            if self._store.objects.holds_any(f"{tip.location}/_versions/"):
                raise  # the manifest exists: another file is missing, and the error names it
            raise CorruptGraph(
                f"branch {name!r} is claimed and {tip.location} is gone",
                hint=f"restore {tip.location} from a copy of the store; nothing was changed",
            ) from error

    def forget(self, name: str) -> None:
        """Look the name up again the next time: its branch turned out to be closed."""
        branch = self._resolved.pop(name, None)
        if branch is not None:
            self._tips.forget(branch.native_branch)

    def get(self, name: str) -> Branch:
        """A branch by name; raises if it does not exist."""
        found = self.find(name)
        if found is None:
            raise self.not_found(name)
        return found

    def find(self, name: str) -> Branch | None:
        """A branch by name, or None; opens no manifest."""
        if name == MAIN:
            return Branch(MAIN)
        for claim in self._claims.newest(name):
            if claim.is_open:
                return self._claims.read(claim)
        return None

    def not_found(self, name: str) -> BranchNotFound:
        """The error for a name that no branch has, with all names, or similar ones where there are many."""
        self._store.require_present()
        names = [MAIN, *(claim.name for claim in self._claims.newest() if claim.is_open)]
        shown = names
        if len(names) > _MAX_SHOWN:
            shown = difflib.get_close_matches(name, names, n=3) or names[:_MAX_SHOWN]
        more = ", ..." if len(names) > len(shown) else ""
        return BranchNotFound(f"there is no branch {name!r}", hint=f"branches: {', '.join(shown)}{more}")

    def create(self, name: str, source: ManifestState) -> Branch:
        """Create a branch that begins with the state `source`."""
        self._store.require_writable()
        check_name(name)
        if name == MAIN:
            raise NameTaken("'main' exists from the beginning", hint="choose another name")
        survey = self._claims.survey()
        newest = survey.newest
        _require_free(name, newest)
        if name in survey.tagged or self._tags.has_first_record(name):
            raise NameTaken(f"there is a tag {name!r}, and reads could mean either", hint="choose another name")
        generation = max(survey.retired, *(0, *(claim.generation for claim in newest if claim.name == name))) + 1
        native = native_name(name, generation, mint())
        state = replace(require_readable(source), branch=name, native_branch=native, version=1)
        branch = Branch(name, native, source.branch, source.native_branch, source.head, now_us(), generation)
        try:
            return self._create(branch, state)
        except KeyboardInterrupt:
            self._take_back(branch)
            raise

    def _create(self, branch: Branch, state: ManifestState) -> Branch:
        name, native = branch.name, branch.native_branch
        born = self._store.manifests.create(manifest_path(native), RowWriter().rows(state))
        hit(Point.BRANCH_MANIFEST)
        if not self._claims.put(branch):
            self._store.objects.delete_prefix(f"{manifest_path(native)}/")
            raise NameTaken(
                f"branch {name!r} was created by someone else just now", hint="use it, or choose another name"
            )
        hit(Point.BRANCH_CLAIMED)
        self._require_born(branch, born)
        self._tips.of(name, native).advance(state, born, ticks())
        self._resolved[name] = branch
        return branch

    def _take_back(self, branch: Branch) -> None:
        """Delete a branch whose creation was interrupted, if it was claimed already."""
        found = self.find(branch.name)
        if found is not None and found.native_branch == branch.native_branch:
            self.delete(branch.name)

    def delete_unused(self, name: str) -> bool:
        """Delete a branch on which nothing was published since it was created; True if it was deleted."""
        if self.head(name).version > 1:
            return False
        self.delete(name)
        return True

    def _require_born(self, branch: Branch, born: ManifestVersion) -> None:
        """Refuse a branch whose claim and manifest are not both in the store that holds main's claim."""
        claim, main = claim_path(branch.name, branch.generation), claim_path(MAIN, 0)
        missing = missing_files(self._store.root, [main, claim, *born.data_files(), born.path])
        if not missing:
            return
        if main not in missing and claim not in missing:  # claimed for a manifest that is not in this store
            self._claims.close(branch, mint())
        raise StoreReplaced(
            f"{missing[0]} is not there any more: {self._store.root.uri} was moved or replaced while branch "
            f"{branch.name!r} was being created, or a cleanup with a short grace removed what was not yet claimed",
            hint="check the location, then create the branch again",
        )

    def delete(self, name: str) -> None:
        """Close a branch, which frees its name."""
        self._store.require_writable()
        if name == MAIN:
            raise BranchInUse("'main' cannot be deleted")
        branch = self.get(name)
        self._require_unused(branch)
        hit(Point.BRANCH_BEFORE_CLOSE)
        deleted_here = self._claims.close(branch, mint())
        hit(Point.BRANCH_UNCLAIMED)
        self._require_closed(branch)
        with contextlib.suppress(MissingData):  # another process has deleted it, and its files are collected already
            self._publisher.close_branch(self._tips.of(name, branch.native_branch))
        hit(Point.BRANCH_CLOSED)
        self.forget(name)
        self._tips.forget(branch.native_branch)
        if not deleted_here:
            raise BranchNotFound(f"branch {name!r} was deleted by someone else")

    def _require_closed(self, branch: Branch) -> None:
        """Raise if the claim of a deleted branch is still open in the store that holds main's claim."""
        claim, main = claim_path(branch.name, branch.generation), claim_path(MAIN, 0)
        missing = missing_files(self._store.root, [main, claim, closed_path(branch)])
        is_collected = main not in missing and claim in missing
        if missing and not is_collected:
            raise StoreReplaced(
                f"{self._store.root.uri} was moved or replaced while branch {branch.name!r} was being deleted: "
                f"{missing[0]} is not there",
                hint="check the location, then delete the branch again",
            )

    def _require_unused(self, branch: Branch) -> None:
        children = [b.name for b in self._open() if b.parent_native == branch.native_branch]
        if children:
            raise BranchInUse(
                f"branch {branch.name!r} has descendants: {', '.join(children)}", hint="delete or merge those first"
            )
        tags = [tag.name for tag in self._tags.list() if tag.native_branch == branch.native_branch]
        if tags:
            raise BranchInUse(
                f"branch {branch.name!r} is held by tags: {', '.join(tags)}", hint="delete the tags first"
            )

    def _open(self) -> list[Branch]:
        """Every branch but main, from one listing. Each claim is read once in a process."""
        return list(self._store.workers.map(self._claims.read, [c for c in self._claims.newest() if c.is_open]))

    def every_incarnation(self) -> list[Branch]:
        """Every branch that has a claim, deleted ones included; not main."""
        return self._claims.every()

    def list(self) -> list[Branch]:
        """Main, then every branch by name. No manifest is opened."""
        self._store.require_present()
        return [Branch(MAIN), *self._open()]


def _require_free(name: str, newest: list[ClaimStatus]) -> None:
    for claim in newest:
        taken = claim.name
        if not claim.is_open:
            continue
        if taken == name:
            raise NameTaken(f"branch {name!r} exists", hint="choose another name, or delete it first")
        if taken.startswith(f"{name}/") or name.startswith(f"{taken}/"):
            inner, outer = (name, taken) if name.startswith(taken) else (taken, name)
            raise NameTaken(
                f"branch {inner!r} would lie inside branch {outer!r}",
                hint="choose a name that is not a path prefix of another branch",
            )
