"""`pipeline`: load jobs on Spark, described by a job file; and a PySpark shell on a graph."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.api.json_shapes import commit_json
from omnigraph.cli import interrupts, options
from omnigraph.cli.commands.load import DedupeEdges, IfCommit, IgnoreUnknown, Key
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import count_text, note, print_json, print_line
from omnigraph.cli.progress import shown_progress
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.api.results import LoadResult
    from omnigraph.graph import Graph
    from omnigraph.pipeline.job_model import Job

app = typer.Typer(help="Load jobs on Spark.", no_args_is_help=True)
JobFile = Annotated[str, typer.Argument(metavar="[JOB]", help="The job file.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="The Spark master; local[*] by default.", show_default=False),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of the Spark session; may be repeated.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, write nothing.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Files changed at this time or later.", show_default=False),
]
_DEFAULT = "pipeline.yaml"


@app.command("init")
def init(
    job: JobFile = _DEFAULT, *, store: options.Store = None, uri: options.Uri = None, json: options.Json = False
) -> None:
    """Write a job file to start from: one source for each type of the graph."""
    from omnigraph.write.user_files import exists, write_file

    graph = options.open_to_read(uri, store)
    if exists(job):
        raise InvalidArgument(f"{job} exists", hint="choose another name, or remove it first")
    write_file(job, _example(graph).encode())
    print_json({"job": job}) if json else print_line(f"wrote {job}: name your files in it, then `pipeline run`")


@app.command("validate")
def validate(job: JobFile = _DEFAULT, *, store: options.Store = None, json: options.Json = False) -> int:
    """Check a job file against the graph, and that its files can be read. Starts no Spark."""
    from omnigraph.pipeline.job_checks import validate as check

    parsed, graph = _opened(job, store)
    found = check(parsed, graph)
    if json:
        print_json({"job": job, "problems": found})
    else:
        for problem in found:
            print_line(f"ERROR {problem}")
        print_line(
            f"{job}: {count_text(len(parsed.nodes) + len(parsed.edges), 'source')}, {count_text(len(found), 'problem')}"
        )
    return FAILED if found else 0


@app.command("run")
def run(
    job: JobFile = _DEFAULT,
    *,
    master: Master = None,
    conf: Conf = None,
    dry_run: DryRun = False,
    if_commit: IfCommit = None,
    key: Key = None,
    ignore_unknown: IgnoreUnknown = False,
    dedupe_edges: DedupeEdges = False,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Run a job: everything it loads becomes one commit."""
    from dataclasses import replace

    from omnigraph.pipeline.api import run as run_job
    from omnigraph.pipeline.job_checks import validate as check
    from omnigraph.pipeline.spark_session import plain_session

    parsed, graph = _opened(job, store, quiet=quiet)
    problems = check(parsed, graph, with_s3=False)
    if problems:
        raise InvalidArgument(f"{job}: {problems[0]}", hint="`omnigraph pipeline validate` lists everything")
    asked = replace(
        parsed, dry_run=dry_run, expect_head=if_commit or parsed.expect_head,
        idempotency_key=_key_of(parsed, key), ignore_unknown=ignore_unknown or parsed.ignore_unknown,
        dedupe_edges=dedupe_edges or parsed.dedupe_edges,
    )  # fmt: skip
    begun = time.perf_counter()
    with shown_progress(show=not quiet) as progress:
        spark = plain_session(master, config=_settings(conf or []), progress=progress)
        result = run_job(spark, asked, graph, progress)
    _report(graph, result, time.perf_counter() - begun, json=json)


@app.command("status")
def status(job: JobFile = _DEFAULT, *, store: options.Store = None, json: options.Json = False) -> None:
    """Show which files of a job were loaded, and which the next run of an incremental job will load."""
    from omnigraph.pipeline.incremental import job_status

    parsed, graph = _opened(job, store)
    found = job_status(graph, parsed)
    if json:
        files = [each.as_dict() for each in found]
        print_json({"job": parsed.name, "branch": parsed.branch, "incremental": parsed.incremental, "files": files})
        return
    for each in found:
        print_line(f"{each.state:8} {each.type_name:16} {each.path}")
    counts = {state: sum(each.state == state for each in found) for state in ("loaded", "pending", "changed")}
    print_line(f"{parsed.name}: " + ", ".join(f"{count} {state}" for state, count in counts.items()))


@app.command("graph")
def graph_of(job: JobFile = _DEFAULT, *, json: options.Json = False) -> None:
    """Print a job as a Mermaid flowchart: its sources, what happens to their rows, the types that they become."""
    from omnigraph.pipeline.job import read_job
    from omnigraph.pipeline.job_graph import job_mermaid

    text = job_mermaid(read_job(job))
    print_json({"job": job, "mermaid": text}) if json else print_line(text)


@app.command("backfill")
def backfill(
    job: JobFile = _DEFAULT,
    *,
    since: Since = None,
    master: Master = None,
    conf: Conf = None,
    dry_run: DryRun = False,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Load the files of an incremental job again, all or those changed since a moment."""
    from dataclasses import replace

    from omnigraph.pipeline.api import backfill as run_backfill
    from omnigraph.pipeline.spark_session import plain_session

    parsed, graph = _opened(job, store, quiet=quiet)
    begun = time.perf_counter()
    with shown_progress(show=not quiet) as progress:
        spark = plain_session(master, config=_settings(conf or []), progress=progress)
        asked = replace(parsed, dry_run=dry_run)
        result = run_backfill(spark, asked, graph, since=_moment(since), progress=progress)
    _report(graph, result, time.perf_counter() - begun, json=json)


def _moment(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        options.usage(f"--since {text}: write a date or a time, such as 2024-05-01 or 2024-05-01T12:00:00Z")
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def _key_of(job: Job, key: str | None) -> str | None:
    if key is not None and job.incremental:
        raise InvalidArgument("an incremental job makes its own keys", hint="leave --idempotency-key out")
    return key or job.idempotency_key


def _remarks(result: LoadResult) -> Iterator[str]:
    """Yield the remarks of a run besides its rows."""
    for name, kind in result.added.items():
        yield f"{'would add' if result.dry_run else 'added'} the property {name}: {kind}"
    if result.summary is not None and result.summary.lineage_error is not None:
        yield f"lineage: {result.summary.lineage_error}"
    if result.rejected:
        yield f"{count_text(len(result.rejected), 'row')} left out"
    for source in result.sources:
        for what, counts in (("dropped", source.dropped), ("loaded with a warning", source.warned)):
            for rule, count in counts.items():
                yield f"{source.name}: {count_text(count, 'row')} {what}: {rule}"
    if any(result.duplicates.values()):
        yield f"{count_text(sum(result.duplicates.values()), 'edge')} skipped: equal ones are there"
    if any(result.deleted.values()):
        yield f"{count_text(sum(result.deleted.values()), 'row')} deleted"
    if any(result.late.values()):
        yield f"{count_text(sum(result.late.values()), 'event')} ignored: later ones were applied before"


def _report(graph: Graph, result: LoadResult, seconds: float, *, json: bool) -> None:
    """Print the outcome of a run."""
    if json:
        print_json(
            {
                "uri": graph.uri, "branch": result.branch, "mode": result.mode, "nodes": dict(result.nodes),
                "edges": dict(result.edges), "total_entities": result.total_entities, "dry_run": result.dry_run,
                "rejected": [each.as_dict() for each in result.rejected],
                "quarantined": [each.as_dict() for each in result.quarantined],
                "sources": [each.as_dict() for each in result.sources],
                "duplicates": dict(result.duplicates), "deleted": dict(result.deleted), "late": dict(result.late),
                "added": dict(result.added), "seconds": round(seconds, 3),
                "commit": None if result.commit is None else commit_json(result.commit),
                "run": None if result.summary is None else result.summary.as_dict(),
            }
        )  # fmt: skip
        return
    for name, count in (*result.nodes.items(), *result.edges.items()):
        print_line(f"{name:24} {count:>12,}")
    for text in _remarks(result):
        note(text)
    outcome = "nothing was written" if result.commit is None else f"commit {result.commit.graph_commit_id}"
    print_line(f"{count_text(result.total_entities, 'entity')} in {seconds:.1f} s, {outcome}")


def spark_shell(
    uri: options.Uri = None,
    *,
    master: Master = None,
    conf: Conf = None,
    at: options.At = None,
    store: options.Store = None,
) -> None:
    """A Python shell with `spark`, `graph` and one SQL view per type."""
    import code

    from omnigraph.pipeline.spark_session import plain_session, with_source
    from omnigraph.pipeline.views import register_views

    graph = options.open_to_read(uri, store)
    target = None if at is None else options.snapshot_of(graph, None, at).commit_id
    with shown_progress() as progress:
        spark = with_source(plain_session(master, config=_settings(conf or []), progress=progress))
    views = register_views(spark, graph, target)
    hint = f"spark.sql('select count(*) from {views[0]}').show()" if views else "graph.schema.show()"
    banner = f"spark, graph and the views {', '.join(views)} are ready. Try: {hint}"
    code.interact(banner=banner, local={"spark": spark, "graph": graph}, exitmsg="")


def _settings(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not (key and equals):
            options.usage(f"--conf {each}: write --conf KEY=VALUE")
        found[key] = value
    return found


def _opened(job: str, store: str | None, *, quiet: bool = True) -> tuple[Job, Graph]:
    from omnigraph.graph import Graph
    from omnigraph.pipeline.api import open_target
    from omnigraph.pipeline.job import read_job

    parsed = read_job(job)
    graph = Graph.open(options.location(None, store)) if store is not None else open_target(parsed)
    interrupts.begin_write(quiet=quiet)
    interrupts.watch(graph, forked=parsed.branch if parsed.from_branch is not None else None)
    return parsed, graph


def _example(graph: Graph) -> str:
    catalog = graph.catalog()
    lines = [f"graph: {graph.uri}", "mode: append        # or merge, overwrite", "on_error: fail      # or reject", ""]
    sections: list[tuple[str, dict[str, Any]]] = [("nodes", dict(catalog.nodes)), ("edges", dict(catalog.edges))]
    for section, types in sections:
        if types:
            lines.append(f"{section}:")
        for name, entity in sorted(types.items()):
            ends = [] if section == "nodes" else ["from", "to"]
            names = ", ".join(f"{n}: {n}" for n in [*ends, *(p.name for p in entity.properties)])
            lines += [f"  {name}:", f"    - path: {name.lower()}.parquet", f"      columns: {{{names}}}"]
    return "\n".join(lines) + "\n"
