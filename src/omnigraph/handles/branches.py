"""`graph.branches`: create, list and delete branches."""

from __future__ import annotations

from omnigraph.versioning.refs import MAIN, Branch
from omnigraph.versioning.repository import Repository, Target


class Branches:
    """`graph.branches`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def create(self, name: str, from_: Target = MAIN) -> Branch:
        """A new branch from a branch, tag, commit id or manifest version."""
        return self._repository.create_branch(name, from_)

    def list(self) -> list[Branch]:
        """All branches, main first."""
        return self._repository.refs.list()

    def get(self, name: str) -> Branch:
        """One branch."""
        return self._repository.refs.get(name)

    def delete(self, name: str) -> None:
        """Delete a branch. Refused for main and while tags or descendants need it."""
        self._repository.refs.delete(name)
