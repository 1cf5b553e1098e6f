"""`graph.recovery`: what crashed writers left, and what was done about it."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.versioning.recovery import PendingIntent, RecoveryRecord
from omnigraph.versioning.repository import Repository


class RecoveryLog:
    """`graph.recovery`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def run(self) -> list[RecoveryRecord]:
        """Resolve every intent whose lease has expired."""
        return self._repository.recovery.run()

    def audit(self) -> pa.Table:
        """What recovery has done: `_graph_commit_recoveries.lance` as rows."""
        return self._repository.recovery.audit_table()

    def list(self) -> list[PendingIntent]:
        """Unresolved intents."""
        return self._repository.recovery.list()
