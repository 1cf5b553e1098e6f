"""Handle requests for algorithms over one snapshot, with kernels in this process or on a given runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.analytics_requests import (
    Algorithm,
    Communities,
    Components,
    Degrees,
    PageRank,
    ShortestPaths,
    Triangles,
    WriteColumn,
)
from omnigraph.api.arguments import EntityId
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.api.write_requests import LoadRows
from omnigraph.errors import InvalidArgument, UnknownField, Unsupported
from omnigraph.execution.analytics import algorithms, paths
from omnigraph.execution.analytics.algorithms import IN, OUT, PageRankOptions
from omnigraph.execution.analytics.blocks import Runner, Values
from omnigraph.execution.analytics.triangles import triangles
from omnigraph.execution.analytics.view import GraphView
from omnigraph.execution.arrow.data import GraphData
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.local.writes import load

MakeRunner = Callable[[GraphView], Runner]


def run_locally(graph: LocalGraph, request: Algorithm, _: Listener | None) -> pa.Table:
    """Run an algorithm in this process."""
    return run_algorithm(graph, request, GraphView.local)


def run_algorithm(graph: LocalGraph, request: Algorithm, make_runner: MakeRunner) -> pa.Table:
    """Run an algorithm with the kernels of a runner."""
    names = tuple(request.edges)
    if not names:
        raise InvalidArgument("name at least one edge type")
    view = GraphView(graph.data(request.at), names, getattr(request, "weight", None))
    runner = make_runner(view)
    match request:
        case Degrees():
            return _degrees(view, runner, request)
        case PageRank():
            return _pagerank(view, runner, request)
        case Components():
            return view.table({"component": algorithms.components(runner, view.node_count)})
        case Communities():
            found = algorithms.label_propagation(runner, view.node_count, request.iterations)
            return view.table({"community": found})
        case Triangles():
            return view.table({"triangles": triangles(runner, view.node_count)})
        case ShortestPaths():
            return _shortest_paths(view, runner, request)
    raise Unsupported(f"there is no algorithm {type(request).__name__}")


def _degrees(view: GraphView, runner: Runner, request: Degrees) -> pa.Table:
    found = {"degree": (algorithms.degrees(runner, OUT), algorithms.degrees(runner, IN))}
    if request.weight is not None:
        found["weight"] = algorithms.strengths(runner, OUT), algorithms.strengths(runner, IN)
    columns = {
        name: values
        for what, (out, into) in found.items()
        for name, values in ((f"out_{what}", out), (f"in_{what}", into), (what, out + into))
    }
    return view.table(columns)


def _pagerank(view: GraphView, runner: Runner, request: PageRank) -> pa.Table:
    options = PageRankOptions(request.damping, request.iterations, request.tolerance)
    starts = None
    if request.sources is not None:
        if not len(request.sources):
            raise InvalidArgument("sources is empty", hint="name at least one node by its id")
        starts = np.unique(_numbers(view, request.type, request.sources))
    ranks = algorithms.pagerank(runner, view.node_count, options, starts, weighted=request.weight is not None)
    return view.table({"pagerank": ranks})


def _shortest_paths(view: GraphView, runner: Runner, request: ShortestPaths) -> pa.Table:
    if request.max_hops is not None and request.weight is not None:
        raise InvalidArgument("max_hops counts edges and weight adds them up", hint="pass one of the two")
    tables = []
    for source, number in zip(request.sources, _numbers(view, request.type, request.sources), strict=True):
        found: Values
        if request.weight is None:
            found = paths.distances(runner, view.node_count, number, request.max_hops)
        else:
            found = paths.weighted_distances(runner, view.node_count, number)
        reached = pa.array(np.isfinite(found) & (found >= 0))
        table = view.table({"distance": found})
        named = table.add_column(2, "source", pa.array([str(source)] * table.num_rows, pa.string()))
        tables.append(named.filter(reached))
    return pa.concat_tables(tables) if tables else _no_paths(view, request.weight)


def _no_paths(view: GraphView, weight: str | None) -> pa.Table:
    distance = np.zeros(view.node_count, np.int64 if weight is None else np.float64)
    table = view.table({"distance": distance}).slice(0, 0)
    return table.add_column(2, "source", pa.array([], pa.string()))


def _numbers(view: GraphView, type_name: str | None, sources: Sequence[EntityId]) -> list[int]:
    """Return the numbers of some nodes by their ids."""
    return [view.number_of(type_name, source) for source in sources]


def write_column(graph: LocalGraph, request: WriteColumn, progress: Listener | None) -> LoadResult:
    """Set one property of the nodes of a result that still exist, and leave all their other properties unchanged."""
    result, column = request.result, request.column
    name = request.property or column
    for each in ("type", "id", column):
        if result.column_names.count(each) != 1:
            raise InvalidArgument(
                f"the result needs one column {each!r}", hint=f"it has {', '.join(result.column_names)}"
            )
    data = graph.data(request.branch)
    frames: dict[str, pa.Table] = {}
    for type_name in pc.unique(result["type"]).to_pylist():
        entity = data.catalog.node(type_name)
        if not any(p.name == name for p in entity.properties):
            continue
        values = result.filter(pc.equal(result["type"], type_name))
        frames[type_name] = _with_property(data, type_name, values, column, name)
    if not frames:
        raise UnknownField(f"no type of this result has a property {name!r}", hint="add it to the schema first")
    rows = LoadRows(
        data=frames, mode="merge", branch=request.branch, actor=request.actor,
        message=request.message or f"analytics: {name}",
    )  # fmt: skip
    return load(graph, rows, progress)


def _with_property(data: GraphData, type_name: str, values: pa.Table, column: str, name: str) -> pa.Table:
    """Return all rows of a type, with one property replaced where the result has a value for it."""
    entity = data.catalog.node(type_name)
    prop = entity.property(name)
    rows = {p.name: data.property_column(entity, p.name) for p in entity.properties}
    ids = data.property_column(entity, "id")
    try:
        found = values[column].combine_chunks().take(pc.index_in(ids, value_set=values["id"].combine_chunks()))
        kept = pc.is_valid(found)
        rows[name] = pc.if_else(kept, found.cast(prop.type.to_arrow()), rows[name])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"column {column!r} does not fit {type_name}.{name}, which is {prop.type}: {str(error).splitlines()[0]}",
            hint="cast the column, or declare another type",
        ) from error
    table = pa.table(rows if entity.key else {"id": ids, **rows})
    return table.filter(kept)


HANDLERS: Handlers = {
    **dict.fromkeys((Degrees, PageRank, Components, Communities, Triangles, ShortestPaths), run_locally),
    WriteColumn: write_column,
}
