"""Errors of limits, unsupported requests and missing permissions."""

from __future__ import annotations

from typing import Any

from omnigraph.errors.base import OmnigraphError


class LimitExceeded(OmnigraphError):
    """A configured limit was reached."""

    code = "limit_exceeded"


class Unsupported(OmnigraphError):
    """The request is valid, but this engine does not support it."""

    code = "unsupported"


class ForkUnsupported(Unsupported):
    """The process was forked from one that had a graph open. Start processes by `spawn` instead."""

    code = "fork_unsupported"


class SchemaChangeRefused(Unsupported):
    """A schema change has a step that this engine does not support. Nothing was changed."""

    code = "schema_change_refused"

    def __init__(self, message: str, steps: tuple[Any, ...], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.steps = steps

    def details(self) -> dict[str, Any]:
        """Every step of the plan."""
        return {"supported": False, "steps": [step.as_dict() for step in self.steps]}


class DropNotAllowed(SchemaChangeRefused):
    """A schema change drops types or properties without permission to drop them. Nothing was changed."""

    code = "drop_not_allowed"

    def __init__(self, dropped: tuple[str, ...], steps: tuple[Any, ...]) -> None:
        flags = " ".join(f"--drop {name}" for name in dropped)
        super().__init__(
            f"this would drop {', '.join(dropped)}; nothing was changed",
            steps,
            hint=f"if that is meant, say so: {flags} (or --allow-drops); otherwise declare them in the schema",
        )
        self.dropped = dropped

    def details(self) -> dict[str, Any]:
        """The types and properties that would be dropped, the flags that allow it, and every step of the plan."""
        return {
            "drops": list(self.dropped),
            "flags": [f"--drop {name}" for name in self.dropped],
            "steps": [step.as_dict() for step in self.steps],
        }


class EmbeddingFailed(OmnigraphError):
    """The embedding service could not be reached, refused the request, or returned no valid embedding."""

    code = "embedding_failed"


class PermissionDenied(OmnigraphError):
    """The caller may not do this."""

    code = "permission_denied"


class ReadOnlyGraph(PermissionDenied):
    """A write on a graph that was opened read-only."""

    code = "read_only_graph"
