"""`graph.recovery`: what crashed writers left, and what was done about it."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.api.arguments import checked
from omnigraph.api.reports import PendingIntent, RecoveryRecord
from omnigraph.versioning.repository import Repository


@checked
class RecoveryLog:
    """`graph.recovery`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def run(self) -> list[RecoveryRecord]:
        """Resolve every intent whose lease has expired."""
        return self._repository.recovery.run()

    def discard(self, operation_id: str, *, reason: str = "", force: bool = False) -> RecoveryRecord:
        """Give up an intent that cannot be read; its bytes go to quarantine. See `list` for what is wrong with it."""
        return self._repository.recovery.discard(operation_id, reason=reason or "no reason given", force=force)

    def audit(self) -> pa.Table:
        """What recovery has done: `_graph_commit_recoveries.lance` as rows."""
        return self._repository.recovery.audit_table()

    def list(self) -> list[PendingIntent]:
        """Unresolved intents."""
        return self._repository.recovery.list()
