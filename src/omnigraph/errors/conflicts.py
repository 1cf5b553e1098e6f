"""Errors of concurrent writes, and of merges that need a decision."""

from __future__ import annotations

from typing import Any

from omnigraph.errors.base import OmnigraphError
from omnigraph.errors.data import Violation


class ConflictError(OmnigraphError):
    """A concurrent write was published first, or a name is taken. Nothing was published."""

    code = "conflict"
    retryable = True


class ExpectedVersionMismatch(ConflictError):
    """A table that the write read or changed moved in a way that could change its outcome."""

    code = "expected_version_mismatch"

    def __init__(self, table_key: str, *, expected: int, actual: int) -> None:
        super().__init__(
            f"{table_key} moved while this write was prepared: expected version {expected}, found {actual}",
            hint="read the branch again and repeat the write if it still makes sense",
        )
        self.table_key = table_key
        self.expected = expected
        self.actual = actual

    def details(self) -> dict[str, Any]:
        """The table and both versions, as HTTP clients see them."""
        return {"manifest_conflict": {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}}


class SchemaMoved(ConflictError):
    """The schema changed between validation and publish."""

    code = "schema_moved"

    def __init__(self, *, expected: str, actual: str, message: str | None = None, hint: str | None = None) -> None:
        super().__init__(
            message or f"the schema changed while this write was prepared (from {expected[:12]} to {actual[:12]})",
            hint=hint or "repeat the write; it will be validated under the new schema",
        )
        self.expected = expected
        self.actual = actual


class ChangeFeedSchemaChanged(ConflictError):
    """A commit in a range of the change feed has other columns of a type than the query that reads it."""

    code = "change_feed_schema_changed"
    retryable = False

    def __init__(self, *, type_name: str, commit_id: str, version: int, what: str) -> None:
        super().__init__(
            f"from version {version} on (commit {commit_id}) {type_name} has other columns than this query: {what}",
            hint="start the query again from its checkpoint: it goes on with the columns of the newest schema. "
            f"If these differ too, give the option schemaVersion={version} to read the commits of that schema first",
        )
        self.type_name = type_name
        self.commit_id = commit_id
        self.version = version

    def details(self) -> dict[str, Any]:
        """The commit from which the columns differ."""
        return {"type_name": self.type_name, "graph_commit_id": self.commit_id, "version": self.version}


class PlanMoved(SchemaMoved):
    """A schema change has other steps now than when it was planned. Nothing was changed."""

    retryable = False

    def __init__(self, *, expected: str, actual: str, steps: tuple[Any, ...]) -> None:
        shown = "; ".join(map(str, steps)) or "nothing to do"
        super().__init__(
            expected=expected, actual=actual,
            message=f"the schema moved: the plan was {expected} and is {actual} now ({shown}); nothing was changed",
            hint="`omnigraph schema plan` shows the steps as they are now; apply them with --plan",
        )  # fmt: skip
        self.steps = steps

    def details(self) -> dict[str, Any]:
        """Both plans by their digests, and the steps as they are now."""
        return {
            "plan_moved": {"expected": self.expected, "actual": self.actual},
            "steps": [step.as_dict() for step in self.steps],
        }


class KeyConflict(ConflictError):
    """A strict insert found its key taken."""

    code = "key_conflict"
    retryable = False

    def __init__(
        self, type_key: str, entity_id: str, *, message: str | None = None, violations: tuple[Violation, ...] = ()
    ) -> None:
        super().__init__(
            message or taken_text(type_key, entity_id), hint="load in the mode merge to replace rows that are there"
        )
        self.type_key = type_key
        self.entity_id = entity_id
        self.violations = violations

    def details(self) -> dict[str, Any]:
        """The key, its type, and its place in the input."""
        kind, _, name = self.type_key.partition(":")
        found: dict[str, Any] = {"key_conflict": {"entity_kind": kind, "type_name": name, "entity_id": self.entity_id}}
        if self.violations and self.violations[0].path is not None:
            found |= {"path": self.violations[0].path, "line": self.violations[0].row}
        if len(self.violations) > 1:
            found["violations"] = [each.as_dict() for each in self.violations]
        return found


def taken_text(type_key: str, entity_id: str) -> str:
    """Return the message for an id that exists already."""
    return f"{type_key} already has an entity with id {entity_id!r}"


class ConstraintConflict(ConflictError):
    """A concurrent write was published first; together with it this write would break a rule of the schema."""

    code = "constraint_conflict"

    def __init__(self, message: str, *, type_key: str) -> None:
        super().__init__(message, hint="read the branch again and repeat the write if it still makes sense")
        self.type_key = type_key


class EndpointConflict(ConflictError):
    """A concurrent write removed a node that this write needs, or added an edge to a node that this write removes."""

    code = "endpoint_conflict"

    def __init__(self, message: str, *, type_key: str, entity_id: str) -> None:
        super().__init__(message, hint="read the branch again and repeat the write if it still makes sense")
        self.type_key = type_key
        self.entity_id = entity_id


class PreconditionFailed(ConflictError):
    """The branch head is not the commit that the caller expects. Never retried."""

    code = "precondition_failed"
    retryable = False

    def __init__(self, *, expected: str, actual: str | None) -> None:
        super().__init__(f"the branch head is {actual}, not {expected}", hint="read the branch again, then decide")
        self.expected = expected
        self.actual = actual

    def details(self) -> dict[str, Any]:
        """Both commit ids."""
        return {"precondition_failure": {"expected": self.expected, "actual": self.actual}}


class PublishContention(ConflictError):
    """A publish ran out of retries or reached its deadline."""

    code = "publish_contention"


class NameTaken(ConflictError):
    """A graph, branch or tag of that name exists."""

    code = "name_taken"
    retryable = False


class BranchGone(ConflictError):
    """The branch that this write was prepared on was deleted, and perhaps created again under the same name."""

    code = "branch_gone"
    retryable = False


class BranchInUse(ConflictError):
    """The branch cannot be deleted: a tag or another branch depends on it."""

    code = "branch_in_use"
    retryable = False


class PlanExpired(ConflictError):
    """A plan was withdrawn (by recovery) or is older than the collector's grace allows."""

    code = "plan_expired"


class MergeConflict(OmnigraphError):
    """A merge needs a decision. Nothing was published."""

    code = "merge_conflict"

    def __init__(self, message: str, conflicts: tuple[Any, ...]) -> None:
        super().__init__(message, hint="choose sides with a strategy, or change one of the branches and merge again")
        self.conflicts = conflicts

    def details(self) -> dict[str, Any]:
        """Every conflict, with the values of both sides and of the base."""
        return {"merge_conflicts": [c.as_dict() for c in self.conflicts]}
