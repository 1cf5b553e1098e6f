"""`graph.recovery`: unfinished writes of crashed writers, and the actions of recovery on them."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.api.arguments import checked
from omnigraph.api.reports import PendingIntent, RecoveryRecord
from omnigraph.api.requests import AuditRecovery, ListIntents
from omnigraph.api.service import GraphService
from omnigraph.api.write_requests import DiscardIntent, RunRecovery


@checked
class RecoveryLog:
    """`graph.recovery`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def run(self) -> list[RecoveryRecord]:
        """Resolve every intent whose lease has expired."""
        return self._service.call(RunRecovery())

    def discard(self, operation_id: str, *, reason: str = "", force: bool = False) -> RecoveryRecord:
        """Give up an intent that cannot be read; its bytes go to quarantine. See `list` for what is wrong with it."""
        return self._service.call(DiscardIntent(operation_id=operation_id, reason=reason, force=force))

    def audit(self) -> pa.Table:
        """What recovery has done: `_graph_commit_recoveries.lance` as rows."""
        return self._service.call(AuditRecovery())

    def list(self) -> list[PendingIntent]:
        """Unresolved intents."""
        return self._service.call(ListIntents())
