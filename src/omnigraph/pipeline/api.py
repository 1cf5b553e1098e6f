"""What users of the pipeline call: `load`, `run`, `export`, on a session and an open graph."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument, JobError, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.pipeline.bulk_load import MAX_PARTITIONS, BulkLoad, FrameSource, reason_in, run_load
from omnigraph.pipeline.job import Job, JobSource
from omnigraph.pipeline.reading import lines_begun
from omnigraph.pipeline.settle import LoadTerms, earlier_load
from omnigraph.pipeline.sources import CSV, JSONL, ORC, Files, Split, expand_paths, format_of, plan_splits
from omnigraph.pipeline.spark_session import frame_of, require_tasks, work_session
from omnigraph.pipeline.standing import Progress
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.versioning.refs import MAIN
from omnigraph.write.load import MODES, LoadResult
from omnigraph.write.rows import known_fields
from omnigraph.write.sources import entity_named, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Any
"""A path, a list of paths, `Files`, a Spark DataFrame, or a pyarrow, pandas or polars table."""


def load(
    spark: SparkSession, graph: Graph, nodes: Mapping[str, Source] | None = None,
    edges: Mapping[str, Source] | None = None, mode: str = "append", branch: str = MAIN, *, data: Source = None,
    from_branch: str | None = None, actor: str | None = None, message: str | None = None,
    max_errors: int | None = None, dry_run: bool = False, progress: Progress | None = None,
    expect_head: str | None = None, idempotency_key: str | None = None, ignore_unknown: bool = False,
    dedupe_edges: bool = False,
) -> LoadResult:  # fmt: skip
    """Load files and DataFrames of any size in one commit, checked like every other load.

    `nodes` and `edges` map type names to sources; `data` names files of envelope rows. `max_errors` None refuses the
    whole load for one bad row; a number lets so many rows be left out, and the result lists them. The branch
    refuses a load that expects another head, and applies one with an `idempotency_key` once. `ignore_unknown`
    skips columns that a type does not have; `dedupe_edges` skips edges without a key that are there already, or came
    earlier in the load, with the same ends and property values.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode {mode!r} is unknown", hint=f"use one of {', '.join(MODES)}")
    require_tasks(spark)
    created = graph.fork_if_missing(branch, from_branch)
    result: LoadResult | None = None
    try:
        terms = LoadTerms(
            mode=mode, branch=branch, actor=actor, message=message, max_errors=max_errors, dry_run=dry_run,
            expect_head=expect_head, idempotency_key=idempotency_key, ignore_unknown=ignore_unknown,
            dedupe_edges=dedupe_edges,
        )  # fmt: skip
        result = earlier_load(graph.repository, terms)
        if result is not None:
            return replace(result, base_branch=from_branch, branch_created=created)
        catalog = graph.catalog(branch)
        sources = [*_typed(nodes or {}, "node", catalog), *_typed(edges or {}, "edge", catalog), *_envelopes(data)]
        files = [source for source in sources if isinstance(source, Files)]
        splits, frames = _in_order(spark, sources)
        if not splits and not frames:
            raise InvalidArgument("there is nothing to load", hint="name files or DataFrames in `nodes` or `edges`")
        for source in files:
            _check_columns(source, catalog)
        keys = _table_keys(sources, catalog)
        request = BulkLoad(splits=tuple(_numbered(spark, splits)), frames=tuple(frames), table_keys=keys, terms=terms)
        result = run_load(spark, graph.repository, request, progress)
    finally:
        if created and (result is None or dry_run):  # a load that wrote nothing leaves no branch behind
            graph.branches.delete(branch)
    return replace(result, base_branch=from_branch, branch_created=created)


def run(spark: SparkSession, job: Job, graph: Graph | None = None, progress: Progress | None = None) -> LoadResult:
    """Run a job file."""
    target = graph or open_target(job)
    given: dict[str, dict[str, list[Source]]] = {"nodes": {}, "edges": {}}
    selecting = work_session(spark)
    for section, sources in (("nodes", job.nodes), ("edges", job.edges)):
        for source in sources:
            given[section].setdefault(source.type_name, []).append(_job_source(selecting, job, source))
    return load(
        spark, target, given["nodes"], given["edges"], job.mode, job.branch, from_branch=job.from_branch,
        actor=job.actor, message=job.message, max_errors=_max_errors(job), dry_run=job.dry_run, progress=progress,
        expect_head=job.expect_head, idempotency_key=job.idempotency_key, ignore_unknown=job.ignore_unknown,
        dedupe_edges=job.dedupe_edges,
    )  # fmt: skip


def open_target(job: Job) -> Graph:
    """The graph that a job names."""
    if job.graph is None:
        raise JobError("the job names no graph", hint="add `graph: path`, or give --store")
    location = job.graph if "://" in job.graph else str(job.directory / job.graph)
    return Graph.open(location)


def validate(job: Job, graph: Graph) -> list[str]:
    """Everything that can be known to be wrong with a job before it runs."""
    found: list[str] = []
    catalog = graph.catalog(job.branch if job.from_branch is None else job.from_branch)
    for kind, sources in (("node", job.nodes), ("edge", job.edges)):
        for source in sources:
            try:
                entity = _entity(source.type_name, kind, catalog)
                files = _files(source.type_name, job_paths(job, source), source)
                for name in source.columns:
                    if name not in known_fields(entity):
                        entity.property(name)
                plan_splits([files])
                if not source.where and not source.cast:
                    _check_columns(files, catalog)
            except OmnigraphError as error:
                found.append(error.message if error.hint is None else f"{error.message} ({error.hint})")
    return found


def job_paths(job: Job, source: JobSource) -> tuple[str, ...]:
    """The files of a source; paths are relative to the job file."""
    located = [p if "://" in p or os.path.isabs(p) else str(job.directory / p) for p in source.paths]
    return expand_paths(located)


def _max_errors(job: Job) -> int | None:
    if job.on_error == "fail":
        return None
    return 1_000_000 if job.max_errors is None else job.max_errors


def _job_source(spark: SparkSession, job: Job, source: JobSource) -> Source:
    paths = job_paths(job, source)
    if not source.where and not source.cast:
        return _files(source.type_name, paths, source)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _selected(_read_frame(spark, paths, source.format or format_of(paths[0]), source.delimiter), source)
    except (PySparkException, Py4JError) as error:
        raise JobError(f"{source.type_name} from {source.paths[0]}: {reason_in(str(error))}") from error


def _selected(frame: DataFrame, source: JobSource) -> DataFrame:
    if source.where:
        frame = frame.where(source.where)
    columns = dict(source.columns) or {name: name for name in frame.columns}
    unknown = sorted(set(source.cast) - set(columns))
    if unknown:
        raise JobError(
            f"{source.type_name} from {source.paths[0]}: cast names {unknown[0]!r}, which is no column",
            hint=f"the file has {', '.join(columns)}",
        )
    chosen = []
    for name, column in columns.items():
        kind = source.cast.get(name)
        chosen.append(f"CAST(`{column}` AS {kind}) AS `{name}`" if kind else f"`{column}` AS `{name}`")
    return frame.selectExpr(*chosen)


def _read_frame(spark: SparkSession, paths: Sequence[str], kind: str, delimiter: str) -> DataFrame:
    reader = spark.read
    if kind == CSV:
        return reader.option("header", "true").option("sep", delimiter).csv(list(paths))
    if kind == JSONL:
        return reader.json(list(paths))
    return reader.format({ORC: "orc"}.get(kind, "parquet")).load(list(paths))


def _typed(given: Mapping[str, Source], kind: str, catalog: Catalog) -> list[Any]:
    found: list[Any] = []
    for name, value in given.items():
        _entity(name, kind, catalog)
        for item in value if isinstance(value, list) and not _all_paths(value) else [value]:
            if isinstance(item, Files):
                found.append(item)
            elif isinstance(item, (str, os.PathLike)) or (isinstance(item, (list, tuple)) and _all_paths(item)):
                found += _by_format(name, expand_paths(item))
            else:
                found.append((name, item))
    return found


def _entity(name: str, kind: str, catalog: Catalog) -> EntityType:
    return catalog.node(name) if kind == "node" else catalog.edge(name)


def _by_format(name: str | None, paths: Sequence[str]) -> list[Files]:
    """Neighbours of one format together. The order stays: where rows clash, it decides which one is refused."""
    return [Files(name, tuple(mine), kind) for kind, mine in itertools.groupby(paths, format_of)]


def _files(name: str, paths: tuple[str, ...], source: JobSource) -> Files:
    return Files(name, paths, source.format or format_of(paths[0]), dict(source.columns), source.delimiter)


def _envelopes(data: Source) -> list[Files]:
    if data is None:
        return []
    found = _by_format(None, expand_paths(data))
    for source in found:
        if source.format != JSONL:
            raise InvalidArgument(
                f"{source.paths[0]}: {source.format} files hold one type", hint="name it in `nodes` or `edges`"
            )
    return found


def _all_paths(value: Sequence[Any]) -> bool:
    return bool(value) and all(isinstance(item, (str, os.PathLike)) for item in value)


def _frame(spark: SparkSession, value: Any) -> DataFrame:
    if hasattr(value, "mapInArrow"):
        frame: DataFrame = value
        return frame
    if isinstance(value, pa.Table) or hasattr(value, "__arrow_c_stream__"):
        return frame_of(spark, pa.table(value))
    if type(value).__module__.partition(".")[0] == "pandas":
        return frame_of(spark, table_of("the frame", value))
    raise InvalidArgument(
        f"cannot load {type(value).__name__}",
        hint="pass paths, a Spark DataFrame, or a pyarrow, pandas or polars table",
    )


def _in_order(spark: SparkSession, sources: Sequence[Any]) -> tuple[list[Split], list[FrameSource]]:
    """Splits and frames, numbered in the order given: what is wrong is reported in it, as in one process."""
    splits: list[Split] = []
    frames: list[FrameSource] = []
    for source in sources:
        first = len(splits) + MAX_PARTITIONS * len(frames)
        if isinstance(source, Files):
            splits += plan_splits([source], first)
        else:
            before = sum(frame.type_name == source[0] for frame in frames)
            name = f"{source[0]} {before + 1}" if before else source[0]
            frames.append(FrameSource(source[0], _frame(spark, source[1]), first, name))
    return splits, frames


def _numbered(spark: SparkSession, splits: list[Split]) -> list[Split]:
    """Line numbers of files that are cut at byte ranges: tasks count the lines of each range."""
    ranged = [s for s in splits if s.format == JSONL and s.end >= 0]
    several = {s.path for s in ranged if s.begin > 0}
    counted = [s for s in ranged if s.path in several]
    if not counted:
        return splits
    counts = spark.sparkContext.parallelize(counted, len(counted)).map(lines_begun).collect()
    first: dict[int, int] = {}
    seen: dict[str, int] = {}
    for split, count in zip(counted, counts, strict=True):
        first[split.number] = seen.get(split.path, 0) + 1
        seen[split.path] = seen.get(split.path, 0) + count
    return [replace(s, first_row=first.get(s.number, s.first_row)) for s in splits]


def _check_columns(source: Files, catalog: Catalog) -> None:
    """Refuse a mapping to a property that does not exist before any task starts."""
    if source.type_name is None:
        return
    entity = entity_named(source.type_name, catalog)
    for name in source.columns:
        if name not in known_fields(entity):
            entity.property(name)


def _table_keys(sources: Sequence[Any], catalog: Catalog) -> tuple[str, ...]:
    """Tables that the load may write: those of the types named, all where rows name their own."""
    names = [s.type_name if isinstance(s, Files) else s[0] for s in sources]
    if None in names:
        return tuple(entity.table_key for entity in catalog.entity_types)
    return tuple(sorted({entity_named(str(name), catalog).table_key for name in names}))
