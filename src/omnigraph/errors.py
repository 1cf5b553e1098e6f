"""Every error the library raises on purpose, grouped by what the caller does next.

::

    OmnigraphError
     +- LanguageError        fix the text        ParseError SchemaError TypeCheckError JobError   (span, excerpt, hint)
     +- DataError            fix the rows        InvalidValue MissingValue UnknownField DuplicateKey MissingEndpoint
     |                                           CardinalityViolation ConstraintViolated   (.violations)
     +- InvalidArgument      fix the call        (also a ValueError) CursorInvalid
     +- ConflictError        refresh and decide  ExpectedVersionMismatch SchemaMoved KeyConflict EndpointConflict
     |                                           ConstraintConflict PreconditionFailed PublishContention NameTaken
     |                                           BranchGone BranchInUse PlanExpired
     +- MergeConflict        decide              .conflicts
     +- NotFound             fix the name        GraphNotFound BranchNotFound CommitNotFound TagNotFound TypeNotFound
     |                                           VersionNotFound HistoricalVersionReclaimed ChangeFeedGap
     +- StorageError         look at the store   StoreUnavailable CorruptGraph MissingData CommitLost
     |                                           FormatUnsupported OutcomeUnknown
     +- LimitExceeded, Unsupported (SchemaChangeRefused), EmbeddingFailed, PermissionDenied (ReadOnlyGraph)

`code` is stable and documented. `retryable` means: nothing was published, take a fresh snapshot and try again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class OmnigraphError(Exception):
    """Root of all errors. `hint` says what to do next, when there is something to say."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def details(self) -> dict[str, Any]:
        """Structured fields for `--json` and HTTP bodies."""
        return {}

    def as_dict(self) -> dict[str, Any]:
        """The error as one JSON-ready object."""
        body: dict[str, Any] = {"error": self.message, "code": self.code, "retryable": self.retryable}
        if self.hint:
            body["hint"] = self.hint
        return body | self.details()


# --- fix the text -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source text: 1-based line and column, width in characters (at least 1)."""

    line: int
    column: int
    width: int = 1


class LanguageError(OmnigraphError):
    """A schema or query text is wrong. Renders as `file:line:column` with the line and a caret."""

    code = "language_error"

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        source: str | None = None,
        path: str | None = None,
        hint: str | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.span = span
        self.source = source
        self.path = path
        self.rule = rule

    @property
    def excerpt(self) -> str | None:
        """The offending line with a caret under the span."""
        if self.span is None or self.source is None:
            return None
        lines = self.source.split("\n")
        line = lines[min(self.span.line, len(lines)) - 1].rstrip("\r")
        # Tabs are kept in the padding so that the caret lands under the right character in any terminal.
        pad = "".join(c if c == "\t" else " " for c in line[: self.span.column - 1])
        return f"{line}\n{pad}{'^' * max(1, self.span.width)}"

    def __str__(self) -> str:
        where = self.path or "<text>"
        head = (
            f"{where}:{self.span.line}:{self.span.column}: {self.message}" if self.span else f"{where}: {self.message}"
        )
        parts = [head]
        if self.excerpt:
            parts.extend(f"  {line}" for line in self.excerpt.split("\n"))
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)

    def details(self) -> dict[str, Any]:
        """Position, rule and excerpt."""
        found: dict[str, Any] = {}
        if self.path:
            found["path"] = self.path
        if self.span:
            found |= {"line": self.span.line, "column": self.span.column, "width": self.span.width}
        if self.rule:
            found["rule"] = self.rule
        return found


class ParseError(LanguageError):
    """The text does not follow the grammar."""

    code = "parse_error"


class SchemaError(LanguageError):
    """The schema parses but says something impossible."""

    code = "schema_error"


class TypeCheckError(LanguageError):
    """The query parses but does not fit the schema."""

    code = "type_error"


class JobError(LanguageError):
    """A job file of the pipeline says something that cannot be run."""

    code = "job_error"


# --- fix the rows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One row that breaks one rule. `row` is its line in a text file, else its place in the input, from 1."""

    rule: str
    message: str
    type_key: str | None = None
    field: str | None = None
    value: Any = None
    entity_id: str | None = None
    path: str | None = None
    row: int | None = None
    column: int | None = None
    hint: str | None = None

    @property
    def text(self) -> str:
        """The message with the place of the row."""
        if self.row is None:
            return self.message if self.path is None else f"{self.path}: {self.message}"
        if self.path is None:
            return f"row {self.row}: {self.message}"
        place = f"{self.path}:{self.row}" if self.column is None else f"{self.path}:{self.row}:{self.column}"
        return f"{place}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, absent fields left out."""
        line = self.row if self.path is not None else None
        found = {
            "rule": self.rule, "message": self.message, "type_key": self.type_key, "field": self.field,
            "value": None if self.value is None else str(self.value)[:200], "entity_id": self.entity_id,
            "path": self.path, "row": self.row, "line": line, "column": self.column,
        }  # fmt: skip
        return {k: v for k, v in found.items() if v is not None}


class DataError(OmnigraphError):
    """A row is wrong. Nothing was written. `violations` lists every wrong row that was found."""

    code = "data_error"

    def __init__(
        self,
        message: str,
        *,
        type_key: str | None = None,
        row: int | None = None,
        field: str | None = None,
        path: str | None = None,
        hint: str | None = None,
        violations: tuple[Violation, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.type_key = type_key
        self.row = row
        self.field = field
        self.path = path
        self.violations = violations

    def details(self) -> dict[str, Any]:
        """Where in the input the row stands, and all that is wrong when it is more than one thing."""
        line = self.row if self.path is not None else None
        found = {"type_key": self.type_key, "row": self.row, "field": self.field, "path": self.path, "line": line}
        if self.violations:
            found["column"] = self.violations[0].column
        if len(self.violations) > 1:
            found["violations"] = [each.as_dict() for each in self.violations]  # type: ignore[assignment]
        return {k: v for k, v in found.items() if v is not None}


class InvalidValue(DataError):
    """A value does not fit its property's type."""

    code = "invalid_value"


class MissingValue(DataError):
    """A required property has no value."""

    code = "missing_value"


class UnknownField(DataError):
    """A row names a property that its type does not have."""

    code = "unknown_field"


class DuplicateKey(DataError):
    """Two rows have the same key or unique value."""

    code = "duplicate_key"


class ConstraintViolated(DataError):
    """A constraint does not hold of the data that it is declared for."""

    code = "constraint_violated"


class MissingEndpoint(DataError):
    """An edge names a node that does not exist."""

    code = "missing_endpoint"


class CardinalityViolation(DataError):
    """A node would have more or fewer edges of a type than its schema allows."""

    code = "cardinality_violation"


class InvalidArgument(OmnigraphError, ValueError):
    """The call itself is wrong: a bad name, URI, option or mode."""

    code = "invalid_argument"


class CursorInvalid(InvalidArgument):
    """A cursor of the change feed is damaged, or belongs to another graph or to another life of the branch."""

    code = "cursor_invalid"


# --- refresh and decide -----------------------------------------------------------------------------------------


class ConflictError(OmnigraphError):
    """Somebody else was there first. Nothing was published."""

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

    def __init__(self, *, expected: str, actual: str) -> None:
        super().__init__(
            f"the schema changed while this write was prepared (from {expected[:12]} to {actual[:12]})",
            hint="repeat the write; it will be validated under the new schema",
        )
        self.expected = expected
        self.actual = actual


class KeyConflict(ConflictError):
    """A strict insert found its key taken."""

    code = "key_conflict"
    retryable = False

    def __init__(
        self, type_key: str, entity_id: str, *, message: str | None = None, violations: tuple[Violation, ...] = ()
    ) -> None:
        super().__init__(
            message or taken_text(type_key, entity_id), hint="use mode='merge' to update existing entities"
        )
        self.type_key = type_key
        self.entity_id = entity_id
        self.violations = violations

    def details(self) -> dict[str, Any]:
        """Which key of which type, and where it stands in the input."""
        kind, _, name = self.type_key.partition(":")
        found: dict[str, Any] = {"key_conflict": {"entity_kind": kind, "type_name": name, "entity_id": self.entity_id}}
        if self.violations and self.violations[0].path is not None:
            found |= {"path": self.violations[0].path, "line": self.violations[0].row}
        if len(self.violations) > 1:
            found["violations"] = [each.as_dict() for each in self.violations]
        return found


def taken_text(type_key: str, entity_id: str) -> str:
    """What to say of an id that exists already."""
    return f"{type_key} already has an entity with id {entity_id!r}"


class ConstraintConflict(ConflictError):
    """Another write came first, and together with it this one would break a rule of the schema."""

    code = "constraint_conflict"

    def __init__(self, message: str, *, type_key: str) -> None:
        super().__init__(message, hint="read the branch again and repeat the write if it still makes sense")
        self.type_key = type_key


class EndpointConflict(ConflictError):
    """A node that this write needs was removed, or a node it removes got a new edge, before it could publish."""

    code = "endpoint_conflict"

    def __init__(self, message: str, *, type_key: str, entity_id: str) -> None:
        super().__init__(message, hint="read the branch again and repeat the write if it still makes sense")
        self.type_key = type_key
        self.entity_id = entity_id


class PreconditionFailed(ConflictError):
    """The branch head is not the commit that the caller demanded. Never retried."""

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
    """The retry budget or the deadline of a publish ran out."""

    code = "publish_contention"


class NameTaken(ConflictError):
    """A graph, branch or tag of that name exists."""

    code = "name_taken"
    retryable = False


class BranchGone(ConflictError):
    """The branch that this write was prepared on was deleted, perhaps recreated under the same name."""

    code = "branch_gone"
    retryable = False


class BranchInUse(ConflictError):
    """The branch cannot be deleted: something still needs it."""

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


# --- fix the name -----------------------------------------------------------------------------------------------


class NotFound(OmnigraphError):
    """The thing named does not exist."""

    code = "not_found"


class GraphNotFound(NotFound):
    """There is no graph at that URI."""

    code = "graph_not_found"


class BranchNotFound(NotFound):
    """There is no branch of that name."""

    code = "branch_not_found"


class CommitNotFound(NotFound):
    """No commit has that id."""

    code = "commit_not_found"


class TagNotFound(NotFound):
    """There is no tag of that name."""

    code = "tag_not_found"


class TypeNotFound(NotFound):
    """The schema has no such node or edge type."""

    code = "type_not_found"


class VersionNotFound(NotFound):
    """The branch never had that manifest version."""

    code = "version_not_found"


class HistoricalVersionReclaimed(NotFound):
    """The version existed and cleanup has reclaimed it."""

    code = "historical_version_reclaimed"


class ChangeFeedGap(NotFound):
    """The feed cannot tell what a commit changed: its version, or the one before it, has been reclaimed."""

    code = "change_feed_gap"

    def __init__(self, commit_id: str) -> None:
        super().__init__(
            f"the changes of commit {commit_id} cannot be told any more: cleanup has reclaimed them",
            hint="take a baseline (`omnigraph changes baseline`) and go on with its cursor",
        )
        self.commit_id = commit_id

    def details(self) -> dict[str, Any]:
        """The commit at which the feed breaks off."""
        return {"graph_commit_id": self.commit_id}


# --- look at the store ------------------------------------------------------------------------------------------


class StorageError(OmnigraphError):
    """The store failed or holds something unexpected. Always raised from the cause."""

    code = "storage_error"


class StoreUnavailable(StorageError):
    """The store cannot be reached or refuses access."""

    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    """The disk, a quota or a limit on file sizes leaves no room."""

    code = "store_full"


class CorruptGraph(StorageError):
    """A durable object cannot be read as what it should be."""

    code = "corrupt_graph"


class MissingData(StorageError):
    """A file that a live version needs is gone."""

    code = "missing_data"


class CommitLost(StorageError):
    """A compare-and-swap found its slot taken. Internal: the publisher answers it by reading again."""

    code = "commit_lost"
    retryable = True


class FormatUnsupported(StorageError):
    """The graph was written by an older or a newer storage format."""

    code = "format_unsupported"


class OutcomeUnknown(StorageError):
    """The store failed at the one moment when the write may or may not have become visible."""

    code = "outcome_unknown"

    def __init__(self, commit_id: str) -> None:
        super().__init__(
            f"the store failed while commit {commit_id} was being published; it may or may not be visible",
            hint=f"`omnigraph commit show {commit_id}` tells; do not repeat the write before you know",
        )
        self.commit_id = commit_id

    def details(self) -> dict[str, Any]:
        """The commit to ask for."""
        return {"graph_commit_id": self.commit_id}


# --- the rest ---------------------------------------------------------------------------------------------------


class LimitExceeded(OmnigraphError):
    """A configured limit was reached."""

    code = "limit_exceeded"


class Unsupported(OmnigraphError):
    """Valid, but not something this engine can do."""

    code = "unsupported"


class SchemaChangeRefused(Unsupported):
    """A schema change has a step that this engine does not take. Nothing was changed."""

    code = "schema_change_refused"

    def __init__(self, message: str, steps: tuple[Any, ...], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.steps = steps

    def details(self) -> dict[str, Any]:
        """Every step of the plan."""
        return {"supported": False, "steps": [step.as_dict() for step in self.steps]}


class EmbeddingFailed(OmnigraphError):
    """The embedding service could not be reached, refused, or answered with something that is no embedding."""

    code = "embedding_failed"


class PermissionDenied(OmnigraphError):
    """The caller may not do this."""

    code = "permission_denied"


class ReadOnlyGraph(PermissionDenied):
    """A write on a graph that was opened read-only."""

    code = "read_only_graph"
