"""`graph.maintenance`: upkeep of a graph beside its writers."""

from __future__ import annotations

from omnigraph.maintenance.indices import IndexReport, IndexStatus, ensure_indices, index_status
from omnigraph.maintenance.repair import RepairReport, repair
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository


class Maintenance:
    """`graph.maintenance`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def ensure_indices(self, branch: str = MAIN, actor: str | None = None) -> IndexReport:
        """Build or extend every index that the schema asks for, in one commit that changes no answer."""
        return ensure_indices(self._repository, branch, actor=actor)

    def index_status(self, branch: str = MAIN) -> tuple[IndexStatus, ...]:
        """Every index that the schema asks for, and the rows it covers."""
        return index_status(self._repository, branch)

    def repair(self, confirm: bool = False) -> RepairReport:
        """Report damage and foreign drift; with `confirm`, move provably damaged files away."""
        return repair(self._repository, confirm=confirm)
