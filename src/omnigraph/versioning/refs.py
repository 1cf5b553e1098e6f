"""Branches: a public name claimed by one object, and behind it an incarnation with a manifest of its own.

A new branch is born whole: its first manifest version holds the complete state, so it needs nothing of its parent and
costs the same for one table or a thousand. Deleting publishes a closing version first, to which every late writer loses
its swap; then the claim goes, and the files stay for the collector.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from dataclasses import asdict, dataclass, replace

from omnigraph.errors import BranchInUse, BranchNotFound, InvalidArgument, NameTaken
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import REFS, TAGS, manifest_path, name_of, ref_path, version_file
from omnigraph.versioning.manifest import ManifestState, RowWriter
from omnigraph.versioning.publish import Publisher
from omnigraph.versioning.store import GraphStore, mint, now_us
from omnigraph.versioning.tips import BranchTip, Tips, require_readable

MAIN = "main"
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._/-]*[A-Za-z0-9_-])?")
_HEAL_AFTER = dt.timedelta(seconds=60)
_OWN_REMOVAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as its claim describes it. `native_branch` is the incarnation; None is main's."""

    name: str
    native_branch: str | None = None
    parent: str | None = None
    parent_native: str | None = None
    base_commit: str | None = None
    created_at: int = 0


def check_name(name: str, what: str = "branch") -> None:
    """Refuse names that could not be a file, a URL segment or a flag value, and those that belong to the system."""
    if name.startswith("__"):
        raise InvalidArgument(f"{what} names beginning with '__' belong to the system", hint="choose another name")
    if len(name) > 200 or not _NAME.fullmatch(name) or ".." in name or "//" in name:
        raise InvalidArgument(
            f"{name!r} is not a {what} name", hint="use letters, digits and . _ - / (not at the ends), at most 200"
        )


class Refs:
    """Creates, lists, resolves and deletes branches."""

    def __init__(self, store: GraphStore, tips: Tips, publisher: Publisher) -> None:
        self._store = store
        self._tips = tips
        self._publisher = publisher

    def tip(self, name: str) -> BranchTip:
        """The tip of a branch by its public name."""
        if name == MAIN:
            return self._tips.of(MAIN, None)
        return self._tips.of(name, self.get(name).native_branch)

    def get(self, name: str) -> Branch:
        """The claim of a branch."""
        if name == MAIN:
            return Branch(MAIN)
        claim = self._claim(name)
        if claim is None:
            raise BranchNotFound(
                f"there is no branch {name!r}", hint=f"branches: {', '.join(b.name for b in self.list())}"
            )
        return claim

    def list(self) -> list[Branch]:
        """Main, then every claimed branch by name."""
        names = [name_of(info.path) for info in self._store.objects.list(REFS)]
        found = self._store.workers.map(self._claim, names) if names else []
        return [Branch(MAIN), *(claim for claim in found if claim is not None and not claim.name.startswith("__"))]

    def create(self, name: str, source: ManifestState) -> Branch:
        """A branch that begins with the state `source`."""
        self._store.require_writable()
        check_name(name)
        if name == MAIN:
            raise NameTaken("'main' exists from the beginning", hint="choose another name")
        self._require_free(name)
        native = f"{name}.{mint()}"
        state = replace(require_readable(source), branch=name, native_branch=native, version=1)
        born = self._store.manifests.create(manifest_path(native), RowWriter().rows(state))
        hit(Point.BRANCH_MANIFEST)
        branch = Branch(name, native, source.branch, source.native_branch, source.head, now_us())
        if not self._store.objects.put_new_json(ref_path(name), asdict(branch)):
            self._store.objects.delete_prefix(manifest_path(native))
            raise NameTaken(
                f"branch {name!r} was created by someone else just now", hint="use it, or choose another name"
            )
        hit(Point.BRANCH_CLAIMED)
        self._tips.of(name, native).advance(state, born, time.monotonic())
        return branch

    def delete(self, name: str) -> None:
        """Close a branch and free its name."""
        self._store.require_writable()
        if name == MAIN:
            raise BranchInUse("'main' cannot be deleted")
        branch = self.get(name)
        self._require_unused(branch)
        begun = time.monotonic()
        tip = self._tips.of(name, branch.native_branch)
        already_closed = tip.state().closed
        hit(Point.BRANCH_BEFORE_CLOSE)
        self._publisher.close_branch(tip)
        hit(Point.BRANCH_CLOSED)
        # Removing a claim cannot be conditional. So only the closer removes it, at once; after that only a claim that
        # has been dead for a minute is removed by others, and nobody can remove the claim of a successor.
        if already_closed and not self._is_long_closed(tip):
            raise BranchNotFound(f"branch {name!r} is being deleted by someone else")
        if time.monotonic() - begun <= _OWN_REMOVAL_SECONDS:
            self._store.objects.delete([ref_path(name)])
        hit(Point.BRANCH_UNCLAIMED)
        self._tips.forget(branch.native_branch)

    def _claim(self, name: str) -> Branch | None:
        value = self._store.objects.get_json(ref_path(name))
        return None if value is None else Branch(**value)

    def _require_free(self, name: str) -> None:
        for info in self._store.objects.list(REFS):
            taken = name_of(info.path)
            if taken == name and not self._heal_dead_claim(name):
                raise NameTaken(f"branch {name!r} exists", hint="choose another name, or delete it first")
            if taken != name and (taken.startswith(f"{name}/") or name.startswith(f"{taken}/")):
                raise NameTaken(
                    f"branch {name!r} would lie inside branch {taken!r}" if name.startswith(taken) else
                    f"branch {taken!r} would lie inside branch {name!r}",
                    hint="choose a name that is not a path prefix of another branch",
                )  # fmt: skip

    def _heal_dead_claim(self, name: str) -> bool:
        """Remove the claim of a branch whose deletion was interrupted; False when the branch lives."""
        claim = self._claim(name)
        if claim is None:
            return True
        tip = self._tips.of(name, claim.native_branch)
        if not tip.state().closed or not self._is_long_closed(tip):
            return False
        self._store.objects.delete([ref_path(name)])
        self._tips.forget(claim.native_branch)
        return True

    def _is_long_closed(self, tip: BranchTip) -> bool:
        closed_at = self._store.objects.modified(f"{tip.location}/{version_file(tip.state().version)}")
        return closed_at is not None and self._store.store_clock() - closed_at > _HEAL_AFTER

    def _require_unused(self, branch: Branch) -> None:
        children = [b.name for b in self.list() if b.parent_native == branch.native_branch and b.name != MAIN]
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
            if value is not None and value["native_branch"] == branch.native_branch:
                found.append(name_of(info.path))
        return tuple(found)
