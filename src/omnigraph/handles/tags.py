"""`graph.tags`: names for states that must stay readable."""

from __future__ import annotations

from omnigraph.api.arguments import checked
from omnigraph.api.commits import Tag
from omnigraph.api.requests import ListTags
from omnigraph.api.service import GraphService
from omnigraph.api.target import Target
from omnigraph.api.write_requests import CreateTag, DeleteTag


@checked
class TagNames:
    """`graph.tags`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def create(self, name: str, at: Target = None) -> Tag:
        """Name the state of a branch, commit or manifest version."""
        return self._service.call(CreateTag(name=name, at=at))

    def list(self) -> list[Tag]:
        """All tags."""
        return self._service.call(ListTags())

    def delete(self, name: str) -> None:
        """Forget a tag."""
        self._service.call(DeleteTag(name=name))
