"""Every error the library raises on purpose, grouped by the caller's next action.

::

    OmnigraphError
     +- LanguageError        fix the text        ParseError SchemaError TypeCheckError JobError   (span, excerpt, hint)
     +- DataError            fix the rows        InvalidValue MissingValue UnknownField DuplicateKey MissingEndpoint
     |                                           CardinalityViolation ConstraintViolated   (.violations)
     +- InvalidArgument      fix the call        (also a ValueError) ArgumentRefused CursorInvalid
     +- ConflictError        refresh and decide  ExpectedVersionMismatch SchemaMoved KeyConflict EndpointConflict
     |                                           ConstraintConflict PreconditionFailed PublishContention NameTaken
     |                                           BranchGone BranchInUse PlanExpired PlanMoved
     |                                           ChangeFeedSchemaChanged
     +- MergeConflict        decide              .conflicts
     +- NotFound             fix the name        GraphNotFound BranchNotFound CommitNotFound TagNotFound TypeNotFound
     |                                           VersionNotFound HistoricalVersionReclaimed ChangeFeedGap
     +- StorageError         look at the store   StoreUnavailable (StoreFull) StoreReplaced CorruptGraph MissingData
                                                CommitLost
     |                                           FormatUnsupported OutcomeUnknown
     +- Unsupported          do it another way   SchemaChangeRefused DropNotAllowed ForkUnsupported
     +- LimitExceeded, EmbeddingFailed, PermissionDenied (ReadOnlyGraph)

`code` is stable and documented. `retryable` means: nothing was published, take a fresh snapshot and try again.
"""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError
from omnigraph.errors.conflicts import (
    BranchGone,
    BranchInUse,
    ChangeFeedSchemaChanged,
    ConflictError,
    ConstraintConflict,
    EndpointConflict,
    ExpectedVersionMismatch,
    KeyConflict,
    MergeConflict,
    NameTaken,
    PlanExpired,
    PlanMoved,
    PreconditionFailed,
    PublishContention,
    SchemaMoved,
    taken_text,
)
from omnigraph.errors.data import (
    ArgumentRefused,
    CardinalityViolation,
    ConstraintViolated,
    CursorInvalid,
    DataError,
    DuplicateKey,
    InvalidArgument,
    InvalidValue,
    MissingEndpoint,
    MissingValue,
    UnknownField,
    Violation,
)
from omnigraph.errors.language import JobError, LanguageError, ParseError, SchemaError, Span, TypeCheckError
from omnigraph.errors.lookup import (
    BranchNotFound,
    ChangeFeedGap,
    CommitNotFound,
    GraphNotFound,
    HistoricalVersionReclaimed,
    NotFound,
    TagNotFound,
    TypeNotFound,
    VersionNotFound,
)
from omnigraph.errors.refusals import (
    DropNotAllowed,
    EmbeddingFailed,
    ForkUnsupported,
    LimitExceeded,
    PermissionDenied,
    ReadOnlyGraph,
    SchemaChangeRefused,
    Unsupported,
)
from omnigraph.errors.store import (
    CommitLost,
    CorruptGraph,
    FormatUnsupported,
    MissingData,
    OutcomeUnknown,
    StagedDataGone,
    StorageError,
    StoreFull,
    StoreReplaced,
    StoreUnavailable,
)

__all__ = [
    "ArgumentRefused",
    "BranchGone",
    "BranchInUse",
    "BranchNotFound",
    "CardinalityViolation",
    "ChangeFeedGap",
    "ChangeFeedSchemaChanged",
    "CommitLost",
    "CommitNotFound",
    "ConflictError",
    "ConstraintConflict",
    "ConstraintViolated",
    "CorruptGraph",
    "CursorInvalid",
    "DataError",
    "DropNotAllowed",
    "DuplicateKey",
    "EmbeddingFailed",
    "EndpointConflict",
    "ExpectedVersionMismatch",
    "ForkUnsupported",
    "FormatUnsupported",
    "GraphNotFound",
    "HistoricalVersionReclaimed",
    "InvalidArgument",
    "InvalidValue",
    "JobError",
    "KeyConflict",
    "LanguageError",
    "LimitExceeded",
    "MergeConflict",
    "MissingData",
    "MissingEndpoint",
    "MissingValue",
    "NameTaken",
    "NotFound",
    "OmnigraphError",
    "OutcomeUnknown",
    "ParseError",
    "PermissionDenied",
    "PlanExpired",
    "PlanMoved",
    "PreconditionFailed",
    "PublishContention",
    "ReadOnlyGraph",
    "SchemaChangeRefused",
    "SchemaError",
    "SchemaMoved",
    "Span",
    "StagedDataGone",
    "StorageError",
    "StoreFull",
    "StoreReplaced",
    "StoreUnavailable",
    "TagNotFound",
    "TypeCheckError",
    "TypeNotFound",
    "UnknownField",
    "Unsupported",
    "VersionNotFound",
    "Violation",
    "taken_text",
]
