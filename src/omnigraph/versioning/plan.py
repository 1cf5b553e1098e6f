"""What a write wants to make visible, as plain data.      (rows -> validate -> stage -> PLAN -> publish -> commit)

A `PublishPlan` is built once, never edited, and says everything the publisher needs: which staged versions become
visible, and what must still be true of the branch for that to be allowed. Serialised, it is the recovery intent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from omnigraph.errors import CorruptGraph, FormatUnsupported
from omnigraph.storage.effects import Effect, effect_from_json, effect_to_json
from omnigraph.storage.tail import EMPTY_TAIL, Tail
from omnigraph.versioning.commits import LOGICAL
from omnigraph.versioning.graft import NO_GRAFT, Graft, graft_from_json, graft_to_json
from omnigraph.versioning.snapshot import TableEntry

PLAN_FORMAT = 1
MAX_SERIALISED_IDS = 10_000
UNSTAGED = 0
"""The staged version of a change that the publisher stages itself, once it knows what it is published with."""


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
    """One table's staged effect. `effect` can be applied to another pin; everything below it belongs to this pin."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPlan:
    """One graph commit to be. `rebase_updates` lets replaced rows follow a table that moved elsewhere."""

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
        """Tables that the plan changes by rows of its own."""
        return frozenset(change.table_key for change in self.changes)


def plan_to_json(plan: PublishPlan) -> dict[str, Any]:
    """The recovery intent. Very long id lists become the stricter demand that their table has not moved at all."""
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
        "idempotency_key": plan.idempotency_key,
        "rebase_updates": plan.rebase_updates,
        "staged_at": plan.staged_at,
        "pins": {k: [p.table_version, str(p.staged_version), p.content_version] for k, p in plan.pins.items()},
        "requirements": [_requirement_to_json(r) for r in plan.requirements],
        "tables": [_change_to_json(c, plan.pins[c.table_key]) for c in plan.changes],
        "graft": graft_to_json(plan.graft),
    }


def plan_from_json(value: Mapping[str, Any]) -> PublishPlan:
    """The inverse of `plan_to_json`."""
    if not isinstance(value, Mapping):
        raise CorruptGraph("the intent is not a publish plan")
    if value.get("format", 0) > PLAN_FORMAT:
        raise FormatUnsupported(
            f"intent format {value['format']} is newer than this omnigraph", hint="upgrade omnigraph"
        )
    try:
        return PublishPlan(
            commit_id=value["operation_id"],
            branch=value["branch"],
            native_branch=value["native_branch"],
            base_version=value["base_version"],
            base_head=value["base_head"],
            kind=value["writer_kind"],
            schema_hash=value["schema_hash"],
            changes=tuple(_change_from_json(c) for c in value["tables"]),
            pins={k: Pin(p[0], int(p[1]), p[2]) for k, p in value["pins"].items()},
            requirements=tuple(_requirement_from_json(r) for r in value["requirements"]),
            op_class=value["op_class"],
            actor=value["actor"],
            message=value["message"],
            idempotency_key=value["idempotency_key"],
            rebase_updates=value["rebase_updates"],
            staged_at=value["staged_at"],
            has_intent=True,
            graft=graft_from_json(value["graft"]) if "graft" in value else NO_GRAFT,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptGraph(f"the intent is not a publish plan: {error!r}") from error


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


def _requirement_from_json(value: Mapping[str, Any]) -> Requirement:
    kind = _KINDS.get(value["kind"])
    if kind is None:
        raise CorruptGraph(f"unknown requirement {value['kind']!r} in an intent")
    return kind(**{name: _as_tuple(item) for name, item in value.items() if name != "kind"})


def _as_tuple(value: Any) -> Any:
    """JSON knows lists only; requirements hold tuples, inner ones too."""
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


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
    }


def _change_from_json(value: Mapping[str, Any]) -> TableChange:
    return TableChange(
        table_key=value["table_key"],
        location=value["table_path"],
        effect=effect_from_json(value["effect"]),
        base_version=int(value["base_version"]),
        staged_version=int(value["staged_version"]),
        row_count=value["row_count"],
        high_water=value["high_water"],
        changes=value["changes"],
        tail=Tail.from_json(value["tail"]),
        files=tuple(value["files"]),
    )
