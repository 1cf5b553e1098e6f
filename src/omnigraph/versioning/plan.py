"""The changes that a write wants to make visible, as data. (rows -> validate -> stage -> PLAN -> publish -> commit)

A `PublishPlan` is built once, never edited, and holds everything the publisher needs: the staged versions that become
visible, and the requirements on the branch under which they may. Serialised, it is the recovery intent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from omnigraph.api.commits import LOGICAL, MAINTENANCE
from omnigraph.errors import FormatUnsupported
from omnigraph.storage.decode import (
    Malformed,
    as_commit_id,
    as_data_object,
    as_flag,
    as_integer,
    as_list,
    as_name,
    as_native_branch,
    as_number,
    as_object,
    as_optional_commit_id,
    as_optional_text,
    as_schema_hash,
    as_table_key,
    as_table_location,
    as_text,
    as_texts,
    decoding,
)
from omnigraph.storage.digests import NO_DIGESTS, Digests
from omnigraph.storage.effects import Effect, effect_from_json, effect_to_json
from omnigraph.storage.tail import EMPTY_TAIL, Tail
from omnigraph.versioning.adopted_state import NO_GRAFT, Graft, graft_from_json, graft_to_json
from omnigraph.versioning.snapshot import TableEntry, parse_changes

PLAN_FORMAT = 2
MAX_SERIALISED_IDS = 10_000
UNSTAGED = 0
"""The staged version of a change that the publisher stages itself, once its group is known."""


@dataclass(frozen=True, slots=True)
class KeysAbsent:
    """None of these ids may exist in the table."""

    table_key: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeysPresent:
    """All of these ids must exist in the table."""

    table_key: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoIncident:
    """No edge of the table, apart from those excepted, may have one of these ids at the given ends."""

    table_key: str
    columns: tuple[str, ...]
    ids: tuple[str, ...]
    except_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValuesAbsent:
    """No row, apart from those excepted, may hold one of these tuples of canonical texts in the given columns."""

    table_key: str
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    except_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardinalityWithin:
    """With the edges that are added, and without those excepted, each source has from `min` to `max` edges."""

    table_key: str
    min: int
    max: int | None
    added: tuple[tuple[str, int], ...]
    except_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The table's rows must be exactly those that were read."""

    table_key: str


Requirement = KeysAbsent | KeysPresent | NoIncident | ValuesAbsent | CardinalityWithin | Unmoved


@dataclass(frozen=True, slots=True)
class Pin:
    """The version of a table that the write read."""

    table_version: int
    staged_version: int
    content_version: str

    @classmethod
    def of(cls, entry: TableEntry) -> Pin:
        """The pin of a snapshot's entry."""
        return cls(entry.table_version, entry.staged_version, entry.content_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """One table's staged effect. `effect` can be applied to another pin; all fields after it belong to this pin."""

    table_key: str
    location: str
    effect: Effect
    base_version: int
    staged_version: int
    row_count: int
    high_water: int
    changes: Mapping[str, Any] = field(default_factory=dict)
    tail: Tail = EMPTY_TAIL
    files: tuple[str, ...] = ()
    digests: Digests = NO_DIGESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPlan:
    """One graph commit to be. `rebase_updates` allows replaced rows to follow a table that moved."""

    commit_id: str
    branch: str
    native_branch: str | None
    base_version: int
    base_head: str
    kind: str
    schema_hash: str
    changes: tuple[TableChange, ...]
    pins: Mapping[str, Pin]
    requirements: tuple[Requirement, ...] = ()
    op_class: str = LOGICAL
    actor: str | None = None
    message: str | None = None
    expect_head: str | None = None
    idempotency_key: str | None = None
    rebase_updates: bool = False
    recovery_for_actor: str | None = None
    staged_at: float = 0.0
    has_intent: bool = False
    graft: Graft = NO_GRAFT

    @property
    def writes(self) -> frozenset[str]:
        """Tables in which the plan changes rows itself."""
        return frozenset(change.table_key for change in self.changes)


def plan_to_json(plan: PublishPlan) -> dict[str, Any]:
    """The recovery intent. A very long id list becomes the stricter requirement that its table has not moved."""
    return {
        "format": PLAN_FORMAT,
        "operation_id": plan.commit_id,
        "writer_kind": plan.kind,
        "actor": plan.actor,
        "branch": plan.branch,
        "native_branch": plan.native_branch,
        "base_version": plan.base_version,
        "base_head": plan.base_head,
        "schema_hash": plan.schema_hash,
        "op_class": plan.op_class,
        "message": plan.message,
        "expect_head": plan.expect_head,
        "idempotency_key": plan.idempotency_key,
        "rebase_updates": plan.rebase_updates,
        "staged_at": plan.staged_at,
        "pins": {k: [p.table_version, str(p.staged_version), p.content_version] for k, p in plan.pins.items()},
        "requirements": [_requirement_to_json(r) for r in plan.requirements],
        "tables": [_change_to_json(c, plan.pins[c.table_key]) for c in plan.changes],
        "graft": graft_to_json(plan.graft),
    }


def plan_from_json(value: Any, what: str = "a publish plan") -> PublishPlan:
    """The inverse of `plan_to_json`. A value of another shape raises `CorruptGraph` about `what`."""
    with decoding(what):
        value = as_object(value, "a publish plan")
        if as_integer(value["format"], "a format") > PLAN_FORMAT:
            raise FormatUnsupported(
                f"intent format {value['format']} is newer than this omnigraph", hint="upgrade omnigraph"
            )
        op_class = value["op_class"]
        if op_class not in (LOGICAL, MAINTENANCE):
            raise Malformed(f"{op_class!r} is no class of commits")
        return PublishPlan(
            commit_id=as_commit_id(value["operation_id"]),
            branch=as_name(value["branch"]),
            native_branch=as_native_branch(value["native_branch"]),
            base_version=as_integer(value["base_version"], "a manifest version"),
            base_head=as_commit_id(value["base_head"]),
            kind=as_text(value["writer_kind"], "a kind of commit"),
            schema_hash=as_schema_hash(value["schema_hash"]),
            changes=tuple(_change_from_json(c) for c in as_list(value["tables"], "a list of tables")),
            pins={as_table_key(k): _pin_from_json(p) for k, p in as_object(value["pins"], "pins").items()},
            requirements=tuple(
                _requirement_from_json(r) for r in as_list(value["requirements"], "a list of requirements")
            ),
            op_class=op_class,
            actor=as_optional_text(value["actor"], "an actor"),
            message=as_optional_text(value["message"], "a message"),
            expect_head=as_optional_commit_id(value.get("expect_head")),  # format 1 had none
            idempotency_key=as_optional_text(value["idempotency_key"], "an idempotency key"),
            rebase_updates=as_flag(value["rebase_updates"], "a flag"),
            staged_at=as_number(value["staged_at"], "a time"),
            has_intent=True,
            graft=graft_from_json(value["graft"]) if "graft" in value else NO_GRAFT,
        )


_KINDS: dict[str, type[Requirement]] = {
    "unmoved": Unmoved,
    "absent": KeysAbsent,
    "present": KeysPresent,
    "no_incident": NoIncident,
    "values_absent": ValuesAbsent,
    "cardinality": CardinalityWithin,
}


def _requirement_to_json(requirement: Requirement) -> dict[str, Any]:
    values = {each.name: getattr(requirement, each.name) for each in fields(requirement)}
    if any(isinstance(value, tuple) and len(value) > MAX_SERIALISED_IDS for value in values.values()):
        return {"kind": "unmoved", "table_key": requirement.table_key}
    kind = next(name for name, each in _KINDS.items() if each is type(requirement))
    return {"kind": kind, **values}


def _pin_from_json(value: Any) -> Pin:
    table_version, staged_version, content_version = as_list(value, "a pin")
    return Pin(
        as_integer(table_version, "a table version"),
        as_integer(staged_version, "a staged version"),
        as_commit_id(content_version),
    )


def _requirement_from_json(value: Any) -> Requirement:
    given = as_object(value, "a requirement")
    kind = _KINDS.get(as_text(given["kind"], "a kind of requirement"))
    if kind is None:
        raise Malformed(f"unknown requirement {given['kind']!r}")
    return kind(**{each.name: _requirement_field(each.name, given[each.name]) for each in fields(kind)})


def _requirement_field(name: str, value: Any) -> Any:
    """Turn JSON lists into the tuples that requirements hold, inner ones too."""
    match name:
        case "table_key":
            return as_table_key(value)
        case "min":
            return as_integer(value, "a number of edges")
        case "max":
            return None if value is None else as_integer(value, "a number of edges")
        case "values":
            return tuple(as_texts(each, "a tuple of values") for each in as_list(value, "a list of values"))
        case "added":
            pairs = (as_list(each, "a source and its edges") for each in as_list(value, "a list of sources"))
            return tuple((as_text(i, "an id"), as_integer(n, "a number of edges")) for i, n in pairs)
        case _:
            return as_texts(value, "a list of ids")


def _change_to_json(change: TableChange, pin: Pin) -> dict[str, Any]:
    return {
        "table_key": change.table_key,
        "table_path": change.location,
        "expected_version": pin.table_version,
        "base_version": str(change.base_version),
        "staged_version": str(change.staged_version),
        "row_count": change.row_count,
        "high_water": change.high_water,
        "effect": effect_to_json(change.effect),
        "changes": dict(change.changes),
        "tail": change.tail.to_json(),
        "files": list(change.files),
        "digests": change.digests.to_json(),
    }


def _change_from_json(given: Any) -> TableChange:
    value = as_object(given, "a change of a table")
    return TableChange(
        table_key=as_table_key(value["table_key"]),
        location=as_table_location(value["table_path"]),
        effect=effect_from_json(as_object(value["effect"], "an effect")),
        base_version=as_integer(value["base_version"], "a version"),
        staged_version=as_integer(value["staged_version"], "a version"),
        row_count=as_integer(value["row_count"], "a number of rows"),
        high_water=as_integer(value["high_water"], "a high-water mark"),
        changes=parse_changes(value["changes"]),
        tail=Tail.from_json(value["tail"]),
        files=tuple(as_data_object(each) for each in as_list(value["files"], "a list of files")),
        digests=Digests.from_json(value["digests"]),
    )
