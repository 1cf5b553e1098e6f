"""`load`: rows of files into a branch, in one commit."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.api.json_shapes import load_json
from omnigraph.cli import completion, interrupts, options
from omnigraph.cli import file_options as files
from omnigraph.cli.failures import MAX_SHOWN, listing
from omnigraph.cli.output import count_text, note, print_json, print_line
from omnigraph.cli.progress import shown_progress

if TYPE_CHECKING:
    from omnigraph.api.results import LoadResult
    from omnigraph.graph import Graph


class Mode(StrEnum):
    """How loaded rows combine with existing rows."""

    append = "append"
    merge = "merge"
    overwrite = "overwrite"


def _option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, show_default=False, **more)


Files = Annotated[
    list[str] | None,
    _option("--data", metavar="FILE", help="JSON lines, or files named after their type; - reads stdin."),
]
NodeFiles = Annotated[
    list[str] | None,
    _option("--node", metavar="TYPE=FILE", help="A file of one node type; may be repeated."),
]
EdgeFiles = Annotated[
    list[str] | None,
    _option("--edge", metavar="TYPE=FILE", help="A file of one edge type; FILE:FROM,TO names its ends."),
]
HowToMeet = Annotated[
    Mode,
    _option("--mode", help="append refuses ids that exist, merge replaces them, overwrite replaces whole types."),
]
Where = Annotated[
    str, typer.Option("--branch", metavar="BRANCH", help="Where to commit.", autocompletion=completion.branches)
]
From = Annotated[
    str | None,
    _option(
        "--from",
        metavar="BASE",
        help="Fork the branch from here when it does not exist.",
        autocompletion=completion.targets,
    ),
]
Message = Annotated[str | None, _option("--message", metavar="TEXT", help="Says why, in the history.")]
IfCommit = Annotated[
    str | None, _option("--if-commit", metavar="ID", help="Only if this is still the head of the branch.")
]
DryRun = Annotated[bool, _option("--dry-run", help="Check everything, write nothing.")]
Rejects = Annotated[str | None, _option("--rejects", metavar="FILE", help="Leave bad rows out and report them here.")]
MaxErrors = Annotated[
    int | None, _option("--max-errors", min=0, metavar="N", help="With --rejects: give up after N bad rows.")
]
MaxShown = Annotated[
    int, typer.Option("--max-shown", min=1, metavar="N", help="List at most N problems of a load that is refused.")
]
IgnoreUnknown = Annotated[
    bool, _option("--ignore-unknown", help="Skip columns that a type does not have (CSV, Parquet, Arrow).")
]
Key = Annotated[
    str | None,
    _option("--idempotency-key", metavar="KEY", help="Not applied again when the branch has seen the key."),
]
DedupeEdges = Annotated[
    bool, _option("--dedupe-edges", help="Skip edges without a key that are there, or came earlier, with equal values.")
]

Choice = Annotated[
    options.Engine,
    _option("--engine", help="arrow: this process; spark: tasks of a Spark session; auto: arrow."),
]


def load(
    uri: options.Uri = None,
    *,
    data: Files = None,
    node: NodeFiles = None,
    edge: EdgeFiles = None,
    mode: HowToMeet,
    branch: Where = "main",
    base: From = None,
    message: Message = None,
    if_commit: IfCommit = None,
    dry_run: DryRun = False,
    rejects: Rejects = None,
    max_errors: MaxErrors = None,
    max_shown: MaxShown = MAX_SHOWN,
    ignore_unknown: IgnoreUnknown = False,
    key: Key = None,
    dedupe_edges: DedupeEdges = False,
    engine: Choice = options.Engine.auto,
    delimiter: files.Delimiter = None, quote: files.Quote = None, escape: files.Escape = None,
    no_header: files.NoHeader = False, names: files.Names = None, null: files.Null = None,
    encoding: files.Encoding = None, column: files.Columns = None, date_format: files.DateFormat = None,
    datetime_format: files.DateTimeFormat = None,
    store: options.Store = None,
    actor: options.Actor = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Write the nodes and edges of files in one commit."""
    if max_errors is not None and rejects is None:
        options.usage("--max-errors needs --rejects")
    source = _source(data or [], node or [], edge or [])
    written = files.read_options(
        delimiter, quote, escape, no_header, names, null, encoding, column, date_format, datetime_format
    )
    where = options.location(uri, store)
    if mode is Mode.overwrite:
        options.require_consent(where, "load --mode overwrite", yes=yes, json=json)
    if rejects is not None:
        from omnigraph.write.user_files import require_writable

        require_writable(rejects)
    graph = options.open_to_write("load", where, quiet=quiet)
    interrupts.watch(graph, forked=branch if base is not None else None)
    with listing(max_shown, json=json), shown_progress(show=not quiet) as progress:
        result = graph.load(
            source, mode=mode.value, branch=branch, from_branch=base, actor=actor, message=message,
            engine=engine.value, expect_head=if_commit, progress=progress, dry_run=dry_run,
            ignore_unknown=ignore_unknown, idempotency_key=key, max_errors=_allowed(rejects, max_errors),
            dedupe_edges=dedupe_edges, options=written,
        )  # fmt: skip
    if rejects is not None:
        from omnigraph.write.rejects import write_rejects

        write_rejects(rejects, result.rejected)
    if json:
        print_json(load_json(graph.uri, result, actor))
    else:
        _print_load(graph, result)


def _allowed(rejects: str | None, max_errors: int | None) -> int | None:
    if rejects is None:
        return None
    return 1000 if max_errors is None else max_errors


def _source(data: list[str], node: list[str], edge: list[str]) -> Any:
    """Return the data to load: stdin, files of envelopes, or files by type."""
    if bool(data) == bool(node or edge):
        options.usage("give --data FILE, or --node TYPE=FILE and --edge TYPE=FILE")
    if data == ["-"]:
        return sys.stdin.buffer
    if data:
        return data
    source: dict[str, list[Any]] = {}
    for kind, given in (("node", node), ("edge", edge)):
        for each in given:
            name, _, path = each.partition("=")
            if not path:
                options.usage(f"--{kind} {each}: write --{kind} TYPE=FILE")
            source.setdefault(f"{kind}:{name}", []).append(_edge_file(path) if kind == "edge" else path)
    return source


def _edge_file(text: str) -> Any:
    """Parse `FILE`, or `FILE:FROM,TO` where the ends are in columns of other names."""
    from omnigraph.write.sources import EdgeFile

    path, colon, columns = text.rpartition(":")
    source, comma, target = columns.partition(",")
    if not (colon and comma and source and target) or "/" in columns:
        return text
    return EdgeFile(path, source, target)


def _print_load(graph: Graph, result: LoadResult) -> None:
    if result.branch_created:
        print_line(f"created branch {result.branch} from {result.base_branch}")
    for path, found in result.sniffed.items():
        note(f"{path}: read with {', '.join(f'{name} {value!r}' for name, value in found.items())}, which was sniffed")
    types = f"{count_text(len(result.nodes), 'node type')}, {count_text(len(result.edges), 'edge type')}"
    if result.rejected:
        note(f"{count_text(len(result.rejected), 'row')} left out")
    if any(result.duplicates.values()):
        note(f"{count_text(sum(result.duplicates.values()), 'edge')} skipped: equal ones are there")
    if result.dry_run:
        print_line(
            f"checked {count_text(result.total_entities, 'entity')} ({types}): nothing is wrong, nothing was written"
        )
        return
    commit = "nothing to commit" if result.commit is None else f"commit {result.commit.graph_commit_id}"
    total = count_text(result.total_entities, "entity")
    print_line(f"loaded {graph.uri} branch {result.branch} mode {result.mode}: {total} ({types}), {commit}")
