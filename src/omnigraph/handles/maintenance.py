"""`graph.maintenance`: upkeep of a graph beside its writers."""

from __future__ import annotations

from omnigraph.maintenance.repair import RepairReport, repair
from omnigraph.versioning.repository import Repository


class Maintenance:
    """`graph.maintenance`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def repair(self, confirm: bool = False) -> RepairReport:
        """Report damage and foreign drift; with `confirm`, move provably damaged files away."""
        return repair(self._repository, confirm=confirm)
