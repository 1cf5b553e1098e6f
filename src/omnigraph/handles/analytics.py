"""`graph.analytics`: algorithms over the whole of one snapshot, and their results as properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.arguments import AtLeast, Count, EntityId, checked
from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument, UnknownField
from omnigraph.execution.analytics import algorithms, paths
from omnigraph.execution.analytics.algorithms import IN, OUT, PageRankOptions
from omnigraph.execution.analytics.blocks import Runner, Values
from omnigraph.execution.analytics.triangles import triangles
from omnigraph.execution.analytics.view import GraphView
from omnigraph.execution.arrow.data import GraphData
from omnigraph.versioning.refs import MAIN

Edges = str | Sequence[str]


@checked
class Analytics:
    """Each method answers with a table of `type`, `id` and a value for every node at the ends of some edge types.

    `edges` names the edge types; `at` is a branch, tag, commit or manifest version, main's head by default.
    """

    def __init__(
        self, data: Callable[[Target], GraphData], load: Callable[..., Any],
        runner: Callable[[GraphView], Runner] = GraphView.local,
    ) -> None:  # fmt: skip
        self._data = data
        self._load = load
        self._runner = runner

    def on(self, runner: Callable[[GraphView], Runner]) -> Analytics:
        """The same with kernels run elsewhere."""
        return Analytics(self._data, self._load, runner)

    def degrees(self, edges: Edges, at: Target = None, *, weight: str | None = None) -> pa.Table:
        """Edges out of, into and at each node: columns `out_degree`, `in_degree` and `degree`.

        With the name of a numeric property also the weights of edges added up: `out_weight`, `in_weight`, `weight`.
        """
        view, runner = self._view(edges, at, weight)
        found = {"degree": (algorithms.degrees(runner, OUT), algorithms.degrees(runner, IN))}
        if weight is not None:
            found["weight"] = algorithms.strengths(runner, OUT), algorithms.strengths(runner, IN)
        columns = {
            name: values
            for what, (out, into) in found.items()
            for name, values in ((f"out_{what}", out), (f"in_{what}", into), (what, out + into))
        }
        return view.table(columns)

    def pagerank(
        self, edges: Edges, at: Target = None, *, damping: float = 0.85, iterations: Count = 20,
        tolerance: float | None = None, weight: str | None = None, sources: Sequence[EntityId] | None = None,
        type: str | None = None,
    ) -> pa.Table:  # fmt: skip
        """The PageRank of each node: column `pagerank`, adding up to 1.

        `weight` names a numeric property by which edges are followed. With `sources`, ids of nodes (of a `type`, where
        ids are shared), walks start again there and nowhere else: personalised PageRank.
        """
        options = PageRankOptions(damping, iterations, tolerance)
        view, runner = self._view(edges, at, weight)
        starts = None
        if sources is not None:
            if not len(sources):
                raise InvalidArgument("sources is empty", hint="name at least one node by its id")
            starts = np.unique(_numbers(view, type, sources))
        ranks = algorithms.pagerank(runner, view.node_count, options, starts, weighted=weight is not None)
        return view.table({"pagerank": ranks})

    def components(self, edges: Edges, at: Target = None) -> pa.Table:
        """Weakly connected components: column `component`, a number that members of one component share."""
        view, runner = self._view(edges, at)
        return view.table({"component": algorithms.components(runner, view.node_count)})

    def communities(
        self, edges: Edges, at: Target = None, *, iterations: Count = 10, weight: str | None = None
    ) -> pa.Table:
        """Communities by label propagation: column `community`. Edges vote by the property `weight`."""
        view, runner = self._view(edges, at, weight)
        return view.table({"community": algorithms.label_propagation(runner, view.node_count, iterations)})

    def triangles(self, edges: Edges, at: Target = None) -> pa.Table:
        """Triangles that each node is a corner of, directions and parallel edges ignored: column `triangles`."""
        view, runner = self._view(edges, at)
        return view.table({"triangles": triangles(runner, view.node_count)})

    def shortest_paths(
        self, edges: Edges, sources: Sequence[EntityId], at: Target = None, *, type: str | None = None,
        max_hops: Annotated[int, AtLeast(0)] | None = None, weight: str | None = None,
    ) -> pa.Table:  # fmt: skip
        """Hops from each source to every node it reaches: columns `type`, `id`, `source`, `distance`.

        With the name of a numeric property of the edges: the least sum of it along a path.
        """
        if max_hops is not None and weight is not None:
            raise InvalidArgument("max_hops counts edges and weight adds them up", hint="pass one of the two")
        view, runner = self._view(edges, at, weight)
        tables = []
        for source, number in zip(sources, _numbers(view, type, sources), strict=True):
            found: Values
            if weight is None:
                found = paths.distances(runner, view.node_count, number, max_hops)
            else:
                found = paths.weighted_distances(runner, view.node_count, number)
            reached = pa.array(np.isfinite(found) & (found >= 0))
            table = view.table({"distance": found})
            named = table.add_column(2, "source", pa.array([str(source)] * table.num_rows, pa.string()))
            tables.append(named.filter(reached))
        return pa.concat_tables(tables) if tables else _no_paths(view, weight)

    def write(
        self, result: pa.Table, column: str, property: str | None = None, branch: str = MAIN,
        actor: str | None = None, message: str | None = None,
    ) -> Any:  # fmt: skip
        """Keep a column of a result as a property of its nodes, in one commit. Types without the property are left out.

        Nodes that were removed or changed since the result was computed: the property of those that are still there is
        set, everything else of them stays as the branch has it.
        """
        name = property or column
        for each in ("type", "id", column):
            if result.column_names.count(each) != 1:
                raise InvalidArgument(
                    f"the result needs one column {each!r}", hint=f"it has {', '.join(result.column_names)}"
                )
        data = self._data(branch)
        frames: dict[str, pa.Table] = {}
        for type_name in pc.unique(result["type"]).to_pylist():
            entity = data.catalog.node(type_name)
            if not any(p.name == name for p in entity.properties):
                continue
            values = result.filter(pc.equal(result["type"], type_name))
            frames[type_name] = _with_property(data, type_name, values, column, name)
        if not frames:
            raise UnknownField(f"no type of this result has a property {name!r}", hint="add it to the schema first")
        return self._load(frames, mode="merge", branch=branch, actor=actor, message=message or f"analytics: {name}")

    def _view(self, edges: Edges, at: Target, weight: str | None = None) -> tuple[GraphView, Runner]:
        names = (edges,) if isinstance(edges, str) else tuple(edges)
        if not names:
            raise InvalidArgument("name at least one edge type")
        view = GraphView(self._data(at), names, weight)
        return view, self._runner(view)


def _no_paths(view: GraphView, weight: str | None) -> pa.Table:
    distance = np.zeros(view.node_count, np.int64 if weight is None else np.float64)
    table = view.table({"distance": distance}).slice(0, 0)
    return table.add_column(2, "source", pa.array([], pa.string()))


def _numbers(view: GraphView, type_name: str | None, sources: Sequence[EntityId]) -> list[int]:
    """The numbers of some nodes, given by their ids."""
    return [view.number_of(type_name, source) for source in sources]


def _with_property(data: GraphData, type_name: str, values: pa.Table, column: str, name: str) -> pa.Table:
    """All rows of a type with one property replaced where the result has a value for it."""
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
