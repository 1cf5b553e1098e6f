"""Mutations: the statements of one query, in order, as one commit.    (MutationIR -> overlay -> validate -> publish)"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from omnigraph.api.results import MutationResult
from omnigraph.datatypes import Scalar, canonical_text
from omnigraph.errors import SchemaMoved
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.index_choice import by_index, is_text_key
from omnigraph.query import ir
from omnigraph.query.plan.pushdown import NEVER, all_of, fold_constants, is_pushable, sql
from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.storage.effects import Effect
from omnigraph.storage.tables import Table
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.write.delete import removals
from omnigraph.write.embed import with_vectors
from omnigraph.write.frames import property_values
from omnigraph.write.overlay import Condition, Overlay
from omnigraph.write.retries import serialize_preparation
from omnigraph.write.rows import ENDPOINTS, batch_from_rows
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import NOWHERE, Findings, TableDelta, raise_first, validate


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRequest:
    """One mutation with all its arguments."""

    query: ir.MutationIR
    schema_hash: str
    params: Mapping[str, Any]
    branch: str
    actor: str | None = None
    message: str | None = None
    expect_head: str | None = None
    idempotency_key: str | None = None
    max_entities: int | None = None
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    @property
    def only_inserts(self) -> bool:
        """Whether it has the same result on a branch that moved."""
        return all(isinstance(each, ir.Insert) for each in self.query.statements)


def mutate(repository: Repository, request: MutationRequest, *, fresh: bool = True) -> MutationResult:
    """Run the statements over one state, validate their combined result, and publish it as one commit."""
    txn = WriteTxn(
        repository, request.branch, kind="mutate", actor=request.actor, message=request.message,
        expect_head=request.expect_head, idempotency_key=request.idempotency_key,
        fresh=fresh or request.expect_head is not None,
    )  # fmt: skip
    if txn.base.schema_hash != request.schema_hash:
        raise SchemaMoved(expected=request.schema_hash, actual=txn.base.schema_hash)
    done = txn.earlier_commit()
    if done is not None:
        return MutationResult(request.query.name, request.branch, 0, 0, done, replayed=True)
    txn.require_expected_head()
    with txn.announce_write(request.only_inserts):
        return _mutate(txn, request)


def _mutate(txn: WriteTxn, request: MutationRequest) -> MutationResult:
    name = request.query.name
    with serialize_preparation(txn.store, request.only_inserts):
        run = _Run(txn, request)
        for statement in request.query.statements:
            run.step(statement)
        deltas, nodes, edges = run.outcome()
        if not deltas:
            return MutationResult(name, request.branch, 0, 0, None)
        requirements = (*validate(txn, deltas).accepted(), *run.read_requirements())
    commit = txn.commit(_effects(txn, deltas), requirements, rebase_updates=True)
    if request.idempotency_key is not None and commit.graph_commit_id != txn.commit_id:
        return MutationResult(name, request.branch, 0, 0, commit, replayed=True)  # another sender was faster
    return MutationResult(name, request.branch, nodes, edges, commit)


class _Run:
    """The statements of one mutation over one state."""

    def __init__(self, txn: WriteTxn, request: MutationRequest) -> None:
        self._txn = txn
        self._request = request
        self._overlays: dict[str, Overlay] = {}
        self._affected = {"node": 0, "edge": 0}
        self._scanned: set[str] = set()

    def step(self, statement: ir.Statement) -> None:
        entity = self._entity(statement)
        match statement:
            case ir.Insert():
                self._insert(statement, entity)
            case ir.Update():
                self._update(statement, entity)
            case ir.Delete():
                condition = self._condition(entity, statement.where)
                self._note_absence(entity, condition, self._overlay(entity).remove(condition))

    def outcome(self) -> tuple[dict[str, TableDelta], int, int]:
        """Deltas that change something, and how many nodes and edges are affected."""
        removed = {key: o.removed_ids for key, o in self._overlays.items() if o.removed}
        if removed:
            deltas = removals(self._txn, removed)
            nodes = sum(len(d.removed) for d in deltas.values() if d.entity.kind == "node")
            return deltas, nodes, sum(len(d.removed) for d in deltas.values()) - nodes
        deltas = {key: overlay.delta() for key, overlay in self._overlays.items()}
        deltas = {key: delta for key, delta in deltas.items() if delta.written.num_rows}
        return deltas, self._affected["node"], self._affected["edge"]

    def read_requirements(self) -> list[Requirement]:
        """Requirements for conditions that read the whole table: any row added to it could have matched."""
        return [Unmoved(key) for key in sorted(self._scanned)]

    def _entity(self, statement: ir.Statement) -> EntityType:
        catalog = self._txn.catalog
        return catalog.node(statement.type_name) if statement.type_kind == "node" else catalog.edge(statement.type_name)

    def _overlay(self, entity: EntityType) -> Overlay:
        key = entity.table_key
        if key not in self._overlays:
            self._overlays[key] = Overlay(self._txn, entity, self._request.max_entities)
        return self._overlays[key]

    def _insert(self, statement: ir.Insert, entity: EntityType) -> None:
        row = {ENDPOINTS.get(name, name): self._value(expr) for name, expr in statement.assignments}
        found = Findings()
        batch = batch_from_rows(entity, [row], NOWHERE, found)
        raise_first(tuple(found))
        self._overlay(entity).put(with_vectors(entity, batch.table), fresh=batch.fresh_ids)
        self._affected[entity.kind] += 1

    def _update(self, statement: ir.Update, entity: EntityType) -> None:
        condition = self._condition(entity, statement.where)
        exprs = [expr for _, expr in statement.assignments]
        assigned = {_column(entity, name) for name, _ in statement.assignments}
        used = {_column(entity, p.name) for expr in exprs for p in ir.walk(expr) if isinstance(p, ir.Prop)}
        columns = [field.name for field in entity.arrow_schema]
        rows = self._overlay(entity).matching(condition, [c for c in columns if c not in assigned or c in used])
        self._note_absence(entity, condition, rows.num_rows)
        if not rows.num_rows:
            return
        evaluator = self._evaluator(entity, rows, exprs)
        found = Findings()
        values = {name: rows[name] for name in rows.column_names}
        for name, expr in statement.assignments:
            given = self._assigned(evaluator, expr, rows.num_rows)
            values[_column(entity, name)] = property_values(entity, entity.property(name), given, NOWHERE, found)
        raise_first(tuple(found))
        self._overlay(entity).put(pa.Table.from_arrays([values[c] for c in columns], schema=entity.arrow_schema))
        self._affected[entity.kind] += rows.num_rows

    def _assigned(self, evaluator: Evaluator, expr: ir.Expr, count: int) -> pa.Array:
        if isinstance(expr, (ir.Const, ir.Param)):
            value = self._value(expr)
            # An array of the value's own type: whether it fits the property is checked with all other columns.
            return pa.array([list(value) if isinstance(value, tuple) else value] * count)
        return evaluator.array(expr)

    def _value(self, expr: ir.Expr) -> Any:
        match expr:
            case ir.Const(value):
                return value
            case ir.Param(name):
                return self._request.params[name]
            case _:
                return self._evaluator(None, None, [expr]).scalar(expr).as_py()

    def _condition(self, entity: EntityType, where: ir.Expr) -> Condition:
        def test(rows: pa.Table) -> Any:
            return self._evaluator(entity, rows, [where]).mask(where)

        columns = tuple(_column(entity, each.name) for each in ir.walk(where) if isinstance(each, ir.Prop))
        pinned = self._pinned(entity, where)
        narrow = partial(self._narrow, entity, where)
        return Condition(test, columns, narrow, pinned, is_exact=pinned is not None and isinstance(where, ir.Compare))

    def _narrow(self, entity: EntityType, where: ir.Expr, table: Table) -> str | None:
        """The predicate for storage: parts of a condition for which an index is cheaper than reading the columns."""
        parts = where.operands if isinstance(where, ir.And) else (where,)

        def column(name: str) -> str:
            return "id" if is_text_key(entity, name) else _column(entity, name)

        said = [fold_constants(each, self._request.params, column) for each in parts if is_pushable(each)]
        known = [each for each in said if each is not None]
        if NEVER in known:
            return sql(NEVER)
        chosen = by_index(table, known)
        return sql(all_of(known[i] for i in chosen)) if chosen else None

    def _note_absence(self, entity: EntityType, condition: Condition, found: int) -> None:
        """Note that a condition that found fewer rows than it could relies on their absence from the table."""
        if condition.pinned is None or found < len(condition.pinned):
            self._scanned.add(entity.table_key)

    def _pinned(self, entity: EntityType, where: ir.Expr) -> tuple[str, ...] | None:
        """The only id that can match, when the condition fixes the key; None when it does not."""
        operands: Sequence[ir.Expr] = where.operands if isinstance(where, ir.And) else (where,)
        fixed: dict[str, Any] = {}
        for each in operands:
            match each:
                case ir.Compare("=", ir.Prop(_, name), (ir.Const() | ir.Param()) as right):
                    fixed[name] = self._value(right)
                case ir.Compare("=", (ir.Const() | ir.Param()) as left, ir.Prop(_, name)):
                    fixed[name] = self._value(left)
        if len(entity.key) != 1 or isinstance(entity, EdgeType) or entity.key[0] not in fixed:
            return None
        value, prop = fixed[entity.key[0]], entity.property(entity.key[0])
        # Only text is compared literally; equal numbers and dates may have different types.
        if prop.type.scalar is not Scalar.STRING or not isinstance(value, str):
            return None
        return (canonical_text(value, prop.type.scalar),)

    def _evaluator(self, entity: EntityType | None, rows: pa.Table | None, exprs: Sequence[ir.Expr]) -> Evaluator:
        known: dict[ir.Expr, pa.Array] = {}
        if entity is not None and rows is not None:
            props = {each for expr in exprs for each in ir.walk(expr) if isinstance(each, ir.Prop)}
            known = {each: rows[_column(entity, each.name)].combine_chunks() for each in props}
        request = Request(self._request.params, self._request.now)
        length = 1 if rows is None else rows.num_rows
        return Evaluator(None, Scope({}, {}), request, Frame(length), known)  # type: ignore[arg-type]


def _column(entity: EntityType, name: str) -> str:
    ends = {"src": "src", "dst": "dst", "from": "src", "to": "dst"}
    return ends[name] if isinstance(entity, EdgeType) and name in ends else entity.property(name).column


def _effects(txn: WriteTxn, deltas: Mapping[str, TableDelta]) -> dict[str, Effect]:
    return {key: txn.effect(key, delta.written, delta.gone) for key, delta in deltas.items()}
