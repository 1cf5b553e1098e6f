"""`graph.tags`: names for states that must stay readable."""

from __future__ import annotations

from omnigraph.api.arguments import checked
from omnigraph.api.commits import Tag
from omnigraph.api.target import Target
from omnigraph.versioning.repository import Repository


@checked
class TagNames:
    """`graph.tags`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def create(self, name: str, at: Target = None) -> Tag:
        """Name the state of a branch, commit or manifest version."""
        return self._repository.create_tag(name, at)

    def list(self) -> list[Tag]:
        """All tags."""
        return self._repository.tags.list()

    def delete(self, name: str) -> None:
        """Forget a tag."""
        self._repository.tags.delete(name)
