"""Errors of the store: it failed, or holds unexpected data."""

from __future__ import annotations

from typing import Any

from omnigraph.errors.base import OmnigraphError


class StorageError(OmnigraphError):
    """The store failed or holds unexpected data. Always raised from the cause."""

    code = "storage_error"


class StoreUnavailable(StorageError):
    """The store cannot be reached or refuses access."""

    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    """The disk, a quota or a limit on file sizes leaves no room."""

    code = "store_full"


class CorruptGraph(StorageError):
    """A durable object cannot be decoded as its kind."""

    code = "corrupt_graph"


class MissingData(StorageError):
    """A file that a live version needs is gone."""

    code = "missing_data"


class StagedDataGone(MissingData):
    """A file that a write has staged is no longer in the store. Nothing was published."""

    code = "staged_data_gone"


class StoreReplaced(StorageError):
    """The store at the graph's location is not the one that this handle opened: it was moved, unmounted or restored."""

    code = "store_replaced"


class CommitLost(StorageError):
    """A compare-and-swap lost to another writer. Internal: the publisher reads the branch again and retries."""

    code = "commit_lost"
    retryable = True


REBUILD = (
    "with the omnigraph that wrote it: `omnigraph schema show URI > schema.pg`, `omnigraph export URI > rows.jsonl`; "
    "then here: `omnigraph init NEW --schema schema.pg` and `omnigraph load NEW --data rows.jsonl --mode append`"
)
"""The advice for moving the rows of a graph to another storage format."""


class FormatUnsupported(StorageError):
    """The graph was written by an older or a newer storage format."""

    code = "format_unsupported"


class OutcomeUnknown(StorageError):
    """The store failed while the write was becoming visible: it may or may not be published."""

    code = "outcome_unknown"

    def __init__(self, commit_id: str) -> None:
        super().__init__(
            f"the store failed while commit {commit_id} was being published; it may or may not be visible",
            hint=f"`omnigraph commit show {commit_id}` tells; do not repeat the write before you know",
        )
        self.commit_id = commit_id

    def details(self) -> dict[str, Any]:
        """The commit id that shows whether the write became visible."""
        return {"graph_commit_id": self.commit_id}
