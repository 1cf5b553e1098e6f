"""Asking: compiled queries, the states they are asked of, and where their texts come from."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraph import query as language
from omnigraph.api.explanation import Explanation, Operator
from omnigraph.api.query_result import Result, ResultStream
from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument
from omnigraph.execution.arrow.engine import ArrowExecutor, Run
from omnigraph.handles.engines import find_engine
from omnigraph.query import bind_params
from omnigraph.query.ir import MutationIR, QueryIR
from omnigraph.query.ir_text import explain_ir
from omnigraph.query.plan import QueryPlan
from omnigraph.query.plan.describe import describe
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.names import suggest
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.repository import Repository
from omnigraph.write.user_files import read_text

_MAX_QUERIES = 512


class Queries:
    """Reads of one graph."""

    def __init__(self, repository: Repository, executor: ArrowExecutor) -> None:
        self._repository = repository
        self._executor = executor
        self._known: dict[tuple[str, str, str | None], QueryIR | MutationIR] = {}

    def ask(
        self, query: str | os.PathLike[str], name: str | None, params: Mapping[str, Any], branch: str | None,
        snapshot: Target, at: Target, engine: str = "arrow",
    ) -> Result:  # fmt: skip
        """Answer one query from one snapshot."""
        state, compiled, catalog = self._prepared(query, name, branch, snapshot, at)
        bound = bind_params(compiled, params)
        with self._repository.reading(state):
            if engine in ("auto", "arrow"):
                table = self._executor.run(compiled, state.snapshot, catalog, bound).table
            else:
                plan = self._executor.plan(compiled, state.snapshot, catalog)
                table = find_engine(engine).answer(self._repository.store, plan, state.snapshot, catalog, bound)
        is_head = snapshot is None and (at is None or at == state.branch)
        return Result(table, compiled.name, state.head, (branch or state.branch) if is_head else None, state.head)

    def stream(
        self, query: str | os.PathLike[str], name: str | None, params: Mapping[str, Any], branch: str | None,
        snapshot: Target, at: Target, max_rows: int,
    ) -> ResultStream:  # fmt: skip
        """Answer one query from one snapshot, batch by batch."""
        if max_rows < 1:
            raise InvalidArgument(f"a batch has at least one row, got max_rows={max_rows}")
        state, compiled, catalog = self._prepared(query, name, branch, snapshot, at)
        bound = bind_params(compiled, params)
        with self._repository.reading(state):
            found = self._executor.stream(compiled, state.snapshot, catalog, bound, max_rows)
        batches = self._repository.read_through(found.batches, state)
        shown = (branch or state.branch) if snapshot is None and (at is None or at == state.branch) else None
        return ResultStream(found.schema, found.row_count, batches, compiled.name, state.head, shown)

    def explain(
        self, query: str | os.PathLike[str], name: str | None, params: Mapping[str, Any] | None, branch: str | None,
        snapshot: Target, at: Target, *, analyze: bool,
    ) -> Explanation:  # fmt: skip
        """What a query will do; with `analyze` it is run, and measured."""
        state, compiled, catalog = self._prepared(query, name, branch, snapshot, at)
        text = explain_ir(compiled)
        if not analyze:
            plan = self._executor.plan(compiled, state.snapshot, catalog)
            return Explanation(compiled.name, text, _operators(plan, None))
        run = self._executor.run(compiled, state.snapshot, catalog, bind_params(compiled, params or {}))
        return Explanation(compiled.name, text, _operators(run.plan, run), True, run.table.num_rows, run.seconds * 1000)

    def _prepared(
        self, query: str | os.PathLike[str], name: str | None, branch: str | None, snapshot: Target,
        at: Target,
    ) -> tuple[ManifestState, QueryIR, Catalog]:  # fmt: skip
        state = self._state(branch, snapshot, at)
        catalog = self._repository.store.catalog(state.schema_hash)
        text, path = source_of(query, name)
        compiled = self.compiled(text, catalog, state.schema_hash, name, path)
        if isinstance(compiled, MutationIR):
            raise InvalidArgument(
                f"{compiled.name} is a mutation, not a read", hint="mutations change a branch: use a read query here"
            )
        return state, compiled, catalog

    def _state(self, branch: str | None, snapshot: Target, at: Target) -> ManifestState:
        """The state that `at` names. `branch` and `snapshot` name one too; a moment may be that of a branch."""
        if isinstance(at, dt.datetime) and snapshot is None:
            return self._repository.at_time(at, branch or "main")
        given = [each for each in (branch, snapshot, at) if each is not None]
        if len(given) > 1:
            raise InvalidArgument("a query reads one state, and several are named", hint="give `at` alone")
        return self._repository.resolve(given[0] if given else None)

    def compiled(
        self, text: str, catalog: Catalog, schema_hash: str, name: str | None, path: str | None
    ) -> QueryIR | MutationIR:
        """A query compiled once for each schema it is asked under."""
        key = (text, schema_hash, name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = language.compile_query(text, catalog, name=name, path=path)
            while len(self._known) > _MAX_QUERIES:
                self._known.pop(next(iter(self._known)), None)
        return found


def _operators(plan: QueryPlan, run: Run | None) -> tuple[Operator, ...]:
    found = []
    for line in describe(plan, counted=run.counted if run is not None else None):
        measured = run.measured.get(id(line.step)) if run is not None else None
        rows = round(line.rows)
        if measured is None:
            found.append(Operator(line.operator, line.detail, line.depth, rows))
        else:
            notes = measured.told()
            ms = measured.seconds * 1000
            found.append(Operator(line.operator, line.detail, line.depth, rows, measured.rows, ms, notes))
    return tuple(found)


def source_of(query: str | os.PathLike[str], name: str | None) -> tuple[str, str | None]:
    """The text that holds a query, and its path when it came from a file. A directory is searched for the name."""
    if name is not None and not isinstance(name, str):  # parameters in its place, most likely
        raise InvalidArgument(
            f"the name of a query is a text, got {name!r}", hint="parameters have a name of their own: params={...}"
        )
    text = os.fspath(query)
    if not _is_text(query) and Path(text).is_dir():
        return _stored(Path(text), name)
    return text_of(query, "query", ".gq")


def _stored(directory: Path, name: str | None) -> tuple[str, str]:
    """The file of a directory, or of directories below it, that holds a query of that name."""
    holders = _holders(directory)
    if name is None:
        raise InvalidArgument(
            f"{directory} holds stored queries: {', '.join(sorted(holders)) or 'none'}", hint="name one of them"
        )
    found = holders.get(name, [])
    if not found:
        fallback = f"it holds: {', '.join(sorted(holders)) or 'none'}"
        raise InvalidArgument(f"{directory} holds no query `{name}`", hint=suggest(name, holders, fallback))
    if len(found) > 1:
        raise InvalidArgument(
            f"`{name}` is stored twice: in {found[0][1]} and in {found[1][1]}", hint="rename or remove one of them"
        )
    return found[0]


def stored_queries(path: str) -> list[str]:
    """The names of the queries of a `.gq` file, or of those in and below a directory."""
    return sorted(_holders(path if "://" in path else Path(path)))


def _holders(where: str | Path) -> dict[str, list[tuple[str, str]]]:
    """Query names of a file or directory, each with the texts that hold it and their paths."""
    holders: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(where.rglob("*.gq")) if isinstance(where, Path) and where.is_dir() else [where]:
        source, _ = text_of(path, "query", ".gq")
        for query in language.parse_queries(source, str(path)).queries:
            holders.setdefault(query.name.text, []).append((source, str(path)))
    return holders


def text_of(source: str | os.PathLike[str], noun: str, suffix: str) -> tuple[str, str | None]:
    """Text and, when it came from a file, its path."""
    text = os.fspath(source)
    if _is_text(source):
        return text, None
    hint = f"pass the path of a {suffix} file, or {noun} text"
    return read_text(text, missing=InvalidArgument(f"there is no {noun} file {text!r}", hint=hint)), text


def _is_text(source: str | os.PathLike[str]) -> bool:
    text = os.fspath(source)
    return isinstance(source, str) and (not text.strip() or any(mark in text for mark in ("{", "->", "\n")))
