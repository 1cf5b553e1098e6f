"""Handle requests that run or explain one query.              (text -> compiled -> plan -> rows of one snapshot)"""

from __future__ import annotations

from omnigraph.api.explanation import Explanation, Operator
from omnigraph.api.progress import Listener
from omnigraph.api.query_result import Result, ResultStream
from omnigraph.api.requests import ExplainQuery, RunQuery, StreamQuery
from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument
from omnigraph.execution.arrow.engine import Run
from omnigraph.local.engines import find_engine
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.query import bind_params
from omnigraph.query.ir import MutationIR, QueryIR
from omnigraph.query.ir_text import explain_ir
from omnigraph.query.plan import QueryPlan
from omnigraph.query.plan.describe import describe
from omnigraph.schema.catalog import Catalog
from omnigraph.versioning.manifest import ManifestState


def run_query(graph: LocalGraph, request: RunQuery, _: Listener | None) -> Result:
    """Answer one query from one snapshot."""
    state, compiled, catalog = _compile_read(graph, request)
    params = bind_params(compiled, request.params)
    with graph.repository.reading(state):
        if request.engine in ("auto", "arrow"):
            table = graph.executor.run(compiled, state.snapshot, catalog, params).table
        else:
            plan = graph.executor.plan(compiled, state.snapshot, catalog)
            engine = find_engine(request.engine)
            table = engine.execute(graph.store, plan, state.snapshot, catalog, params)
    return Result(table, compiled.name, state.head, _branch_read(request.at, state), state.head)


def stream_query(graph: LocalGraph, request: StreamQuery, _: Listener | None) -> ResultStream:
    """Answer one query from one snapshot, batch by batch."""
    state, compiled, catalog = _compile_read(graph, request)
    params = bind_params(compiled, request.params)
    with graph.repository.reading(state):
        found = graph.executor.stream(compiled, state.snapshot, catalog, params, request.max_rows)
    batches = graph.repository.read_through(found.batches, state)
    branch = _branch_read(request.at, state)
    return ResultStream(found.schema, found.row_count, batches, compiled.name, state.head, branch)


def explain_query(graph: LocalGraph, request: ExplainQuery, _: Listener | None) -> Explanation:
    """Return the plan of a query; with `analyze` run it, and measure each operator."""
    state, compiled, catalog = _compile_read(graph, request)
    text = explain_ir(compiled)
    if not request.analyze:
        plan = graph.executor.plan(compiled, state.snapshot, catalog)
        return Explanation(compiled.name, text, _operators(plan, None))
    run = graph.executor.run(compiled, state.snapshot, catalog, bind_params(compiled, request.params or {}))
    return Explanation(compiled.name, text, _operators(run.plan, run), True, run.table.num_rows, run.seconds * 1000)


def _compile_read(
    graph: LocalGraph, request: RunQuery | StreamQuery | ExplainQuery
) -> tuple[ManifestState, QueryIR, Catalog]:
    state = graph.repository.resolve(request.at)
    catalog = graph.store.catalog(state.schema_hash)
    compiled = graph.queries.get(request.query, catalog, state.schema_hash, request.name, request.path)
    if isinstance(compiled, MutationIR):
        raise InvalidArgument(
            f"{compiled.name} is a mutation, not a read", hint="mutations change a branch: use a read query here"
        )
    return state, compiled, catalog


def _branch_read(at: Target, state: ManifestState) -> str | None:
    """Return the branch whose head was read; None where an older state was read."""
    return state.branch if at is None or at == state.branch else None


def _operators(plan: QueryPlan, run: Run | None) -> tuple[Operator, ...]:
    found = []
    for line in describe(plan, counted=run.counted if run is not None else None):
        measured = run.measured.get(id(line.step)) if run is not None else None
        rows = round(line.rows)
        if measured is None:
            found.append(Operator(line.operator, line.detail, line.depth, rows))
        else:
            ms = measured.seconds * 1000
            found.append(
                Operator(line.operator, line.detail, line.depth, rows, measured.rows, ms, measured.operator_notes())
            )
    return tuple(found)


HANDLERS: Handlers = {RunQuery: run_query, StreamQuery: stream_query, ExplainQuery: explain_query}
