"""`analytics`: an algorithm over the whole of one snapshot, its result as rows."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import completion, options
from omnigraph.cli.commands.query import All, Format, chosen_format, start_spark, stopped_at_once
from omnigraph.cli.progress import spinner

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.graph import Graph


class Algorithm(StrEnum):
    """The values that can be computed of every node."""

    degrees = "degrees"
    pagerank = "pagerank"
    components = "components"
    communities = "communities"
    triangles = "triangles"
    shortest_paths = "shortest-paths"


_TAKES = {
    Algorithm.degrees: ("weight",),
    Algorithm.pagerank: ("weight", "source", "type", "damping", "iterations", "tolerance"),
    Algorithm.communities: ("weight", "iterations"),
    Algorithm.shortest_paths: ("weight", "source", "type", "max_hops"),
}
"""The options of an algorithm beside those of all."""

Edges = Annotated[
    list[str],
    typer.Option(
        "--edge",
        metavar="TYPE",
        help="An edge type to follow. May be repeated.",
        show_default=False,
        autocompletion=completion.edge_types,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight", metavar="PROPERTY", help="A numeric property that weighs edges.", show_default=False),
]
Source = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="ID", help="A node to start from. May be repeated.", show_default=False),
]
SourceType = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="TYPE", help="The type of the sources.", show_default=False, autocompletion=completion.types
    ),
]
Damping = Annotated[
    float | None, typer.Option("--damping", metavar="P", help="How likely a walk goes on; 0.85.", show_default=False)
]
Iterations = Annotated[
    int | None,
    typer.Option("--iterations", min=1, metavar="N", help="Rounds at most; 20, communities 10.", show_default=False),
]
Tolerance = Annotated[
    float | None, typer.Option("--tolerance", metavar="X", help="Stop when ranks move by less.", show_default=False)
]
MaxHops = Annotated[
    int | None, typer.Option("--max-hops", min=0, metavar="N", help="Edges of a path at most.", show_default=False)
]
Top = Annotated[
    int | None,
    typer.Option("--top", min=1, metavar="N", help="Only the N rows of the highest value.", show_default=False),
]


def analytics(
    algorithm: Annotated[Algorithm, typer.Argument(metavar="ALGORITHM", help=", ".join(Algorithm), show_default=False)],
    *,
    edges: Edges,
    weight: Weight = None,
    source: Source = None,
    type: SourceType = None,
    damping: Damping = None,
    iterations: Iterations = None,
    tolerance: Tolerance = None,
    max_hops: MaxHops = None,
    top: Top = None,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    format: Format = "table",
    all_rows: All = False,
    engine: options.Workers = options.Engine.auto,
    json: options.Json = False,
) -> None:
    """Compute a value of every node at the ends of some edge types, from one snapshot of the graph."""
    from omnigraph.api.query_result import Result
    from omnigraph.cli.formats import part_shown, print_result

    shape = chosen_format(format, None, all_rows=all_rows, json=json)
    given = {
        "weight": weight, "source": source or None, "type": type, "damping": damping, "iterations": iterations,
        "tolerance": tolerance, "max_hops": max_hops,
    }  # fmt: skip
    asked = {name: value for name, value in given.items() if value is not None}
    for name in asked:
        if name not in _TAKES.get(algorithm, ()):
            options.usage(f"--{name.replace('_', '-')} is no option of {algorithm.value}")
    if algorithm is Algorithm.shortest_paths and "source" not in asked:
        options.usage("shortest-paths needs --source ID")
    if "source" in asked:
        asked["sources"] = asked.pop("source")
    graph = options.open_to_read(None, store)
    target = options.snapshot_of(graph, branch, at).commit_id
    with stopped_at_once(), spinner("running", show=not json) as progress:
        start_spark(engine, progress)
        table = _computed(graph, algorithm, edges, target, asked, on_spark=engine is options.Engine.spark)
    if top is not None:
        last = "degree" if algorithm is Algorithm.degrees else table.column_names[-1]
        table = table.sort_by([(last, "descending"), ("type", "ascending"), ("id", "ascending")]).slice(0, top)
    shown = None if at is not None else branch or "main"
    result = Result(table, algorithm.value, target, shown, target if shown is None else None)
    print_result(result, shape, part_shown(top, "--all shows them", all_rows=all_rows))


def _computed(
    graph: Graph, algorithm: Algorithm, edges: list[str], target: str, asked: dict[str, Any], *, on_spark: bool
) -> pa.Table:
    runs = graph.spark.analytics if on_spark else graph.analytics
    found = getattr(runs, algorithm.value.replace("-", "_"))(edges, at=target, **asked)
    return found.toArrow() if on_spark else found
