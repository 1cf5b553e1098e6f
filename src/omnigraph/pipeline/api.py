"""What users of the pipeline call: `load`, `run`, `export`, on a session and an open graph."""

from __future__ import annotations

import datetime as dt
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument, JobError, OmnigraphError, UnknownField
from omnigraph.execution.spark.job_scope import Progress
from omnigraph.execution.spark.refusals import refusal_in
from omnigraph.graph import Graph
from omnigraph.handles.arguments import AtLeast, checked_call
from omnigraph.pipeline.bulk_load import MAX_PARTITIONS, BulkLoad, FrameSource, reason_in, run_load
from omnigraph.pipeline.cdc_frames import ChangeFrame, Changes, file_changes, frame_changes
from omnigraph.pipeline.incremental import load_again, load_new_files
from omnigraph.pipeline.job import Job
from omnigraph.pipeline.job_sources import Listed, job_files, listed_sources
from omnigraph.pipeline.reading import lines_begun
from omnigraph.pipeline.row_schema import require_mapped_members
from omnigraph.pipeline.s3_settings import s3_access
from omnigraph.pipeline.selection import selected_frame
from omnigraph.pipeline.settle import LoadTerms, earlier_load
from omnigraph.pipeline.sources import Split, plan_splits
from omnigraph.pipeline.spark_session import frame_of, work_session
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.versioning.load_lists import LoadList
from omnigraph.versioning.refs import MAIN
from omnigraph.write.inputs.change_events import Cdc
from omnigraph.write.inputs.locations import expand_paths, is_on_s3
from omnigraph.write.inputs.partition_folders import folders_of
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.suffixes import kind_of
from omnigraph.write.inputs.tables import JSON, JSONL
from omnigraph.write.load import MERGE, LoadResult, Mode
from omnigraph.write.rejects import write_rejects
from omnigraph.write.rows import known_fields
from omnigraph.write.sources import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Any
"""A path, a list of paths, `Files`, a Spark DataFrame, a pyarrow, pandas or polars table, or `Changes`."""


@checked_call
def load(
    spark: SparkSession, graph: Graph, nodes: Mapping[str, Source] | None = None,
    edges: Mapping[str, Source] | None = None, mode: Mode = "append", branch: str = MAIN, *, data: Source = None,
    from_branch: str | None = None, actor: str | None = None, message: str | None = None,
    max_errors: Annotated[int, AtLeast(0)] | None = None, dry_run: bool = False, progress: Progress | None = None,
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
    terms = LoadTerms(
        mode=mode, branch=branch, actor=actor, message=message, max_errors=max_errors, dry_run=dry_run,
        expect_head=expect_head, idempotency_key=idempotency_key, ignore_unknown=ignore_unknown,
        dedupe_edges=dedupe_edges,
    )  # fmt: skip
    return load_sources(spark, graph, Sources(nodes or {}, edges or {}, data), terms, from_branch, progress)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a load reads: sources by type, and files of envelope rows."""

    nodes: Mapping[str, Source]
    edges: Mapping[str, Source]
    data: Source = None


def load_sources(
    spark: SparkSession, graph: Graph, given: Sources, terms: LoadTerms, from_branch: str | None,
    progress: Progress | None,
) -> LoadResult:  # fmt: skip
    """Load sources on the terms given. A branch that was forked for a load which writes nothing goes again."""
    created = graph.fork_if_missing(terms.branch, from_branch)
    result: LoadResult | None = None
    try:
        result = earlier_load(graph.repository, terms)
        if result is None:
            result = run_load(spark, graph.repository, _planned(spark, graph, given, terms), progress)
    finally:
        if created and (result is None or terms.dry_run):
            graph.branches.delete(terms.branch)
    return replace(result, base_branch=from_branch, branch_created=created)


def _planned(spark: SparkSession, graph: Graph, given: Sources, terms: LoadTerms) -> BulkLoad:
    """The splits and DataFrames of a load; what can be known to be wrong is refused."""
    catalog, access = graph.catalog(terms.branch), s3_access(spark)
    named = [(given.nodes, "node"), (given.edges, "edge")]
    sources = [each for types, kind in named for each in _typed(types, kind, catalog, access)]
    sources += _envelopes(given.data, access)
    planned = _Planned(spark, catalog, access)
    for source in sources:
        if isinstance(source, Files):
            _check_columns(source, catalog)
    _require_change_terms(sources, terms.mode)
    for source in sources:
        planned.add(source)
    if not planned.splits and not planned.frames:
        raise InvalidArgument("there is nothing to load", hint="name files or DataFrames in `nodes` or `edges`")
    keys = _table_keys(sources, catalog)
    return BulkLoad(splits=tuple(planned.splits), frames=tuple(planned.frames), table_keys=keys, terms=terms)


def run(spark: SparkSession, job: Job, graph: Graph | None = None, progress: Progress | None = None) -> LoadResult:
    """Run a job, and describe the rows that it left out where the job says so."""
    target, access = graph or open_target(job), s3_access(spark)
    if job.incremental:
        result = load_new_files(target, job, access, partial(_run_once, spark, target, progress=progress))
    else:
        result = _run_once(spark, target, job, listed_sources(job, access), progress=progress)
    return _with_rejects_written(job, result, access)


def backfill(
    spark: SparkSession, job: Job, graph: Graph | None = None, *, since: dt.datetime | None = None,
    progress: Progress | None = None,
) -> LoadResult:  # fmt: skip
    """Load the files of an incremental job again: all of them, or those that have changed since a moment."""
    target, access = graph or open_target(job), s3_access(spark)
    once = partial(_run_once, spark, target, progress=progress)
    return _with_rejects_written(job, load_again(target, job, access, once, since), access)


def _with_rejects_written(job: Job, result: LoadResult, access: S3Access | None) -> LoadResult:
    if job.rejects is not None:
        write_rejects(job.located(job.rejects), (*result.rejected, *result.quarantined), access)
    return result


def _run_once(
    spark: SparkSession, graph: Graph, job: Job, given: Listed, load_list: LoadList | None = None,
    *, progress: Progress | None,
) -> LoadResult:  # fmt: skip
    terms = LoadTerms(
        mode=job.mode, branch=job.branch, actor=job.actor, message=job.message, max_errors=_max_errors(job),
        dry_run=job.dry_run, expect_head=job.expect_head, idempotency_key=job.idempotency_key,
        ignore_unknown=job.ignore_unknown, dedupe_edges=job.dedupe_edges, load_list=load_list,
    )  # fmt: skip
    return load_sources(spark, graph, Sources(given["nodes"], given["edges"]), terms, job.from_branch, progress)


def open_target(job: Job) -> Graph:
    """The graph that a job names."""
    if job.graph is None:
        raise JobError("the job names no graph", hint="add `graph: path`, or give --store")
    return Graph.open(job.located(job.graph))


def validate(job: Job, graph: Graph, *, with_s3: bool = True) -> list[str]:
    """Everything that can be known to be wrong with a job before it runs.

    Without `with_s3`, files on S3 are not looked at: what they are read with may be known to the session only.
    """
    found: list[str] = []
    catalog = graph.catalog(job.branch if job.from_branch is None else job.from_branch)
    for kind, sources in (("node", job.nodes), ("edge", job.edges)):
        for source in sources:
            try:
                entity = _entity(source.type_name, kind, catalog)
                for name in source.options.get("columns", ()):
                    if name not in known_fields(entity):
                        entity.property(name)
                if with_s3 or not any(map(is_on_s3, source.paths)):
                    files = job_files(job, source)
                    plan_splits([files])
                    _check_columns(files, catalog)
            except OmnigraphError as error:
                found.append(error.message if error.hint is None else f"{error.message} ({error.hint})")
    return found


def _max_errors(job: Job) -> int | None:
    if job.on_error == "fail":
        return None
    return 1_000_000 if job.max_errors is None else job.max_errors


def _typed(given: Mapping[str, Source], kind: str, catalog: Catalog, access: S3Access | None) -> list[Any]:
    found: list[Any] = []
    for name, value in given.items():
        _entity(name, kind, catalog)
        for item in value if isinstance(value, list) and not _all_paths(value) else [value]:
            if isinstance(item, Files):
                if item.type_name != name:
                    raise InvalidArgument(f"{name}: these files are those of {item.type_name}")
                found.append(replace(item, paths=expand_paths(item.paths, access)))
            elif isinstance(item, (str, os.PathLike)) or (isinstance(item, (list, tuple)) and _all_paths(item)):
                found += _by_format(name, expand_paths(item, access))
            else:
                found.append((name, item))
    return found


def _entity(name: str, kind: str, catalog: Catalog) -> EntityType:
    return catalog.node(name) if kind == "node" else catalog.edge(name)


def _by_format(name: str | None, paths: Sequence[str]) -> list[Files]:
    """Neighbours of one format together. The order stays: where rows clash, it decides which one is refused."""
    return [Files(name, tuple(mine), kind) for kind, mine in itertools.groupby(paths, kind_of)]


def _envelopes(data: Source, access: S3Access | None) -> list[Files]:
    if data is None:
        return []
    if isinstance(data, Files):
        found = [replace(data, type_name=None, paths=expand_paths(data.paths, access))]
    else:
        found = _by_format(None, expand_paths(data, access))
    for source in found:
        if source.format not in (JSONL, JSON):
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


class _Planned:
    """Splits and frames, numbered in the order given: what is wrong is reported in it, as in one process."""

    def __init__(self, spark: SparkSession, catalog: Catalog, access: S3Access | None) -> None:
        self._spark = spark
        self._catalog = catalog
        self._access = access
        self.splits: list[Split] = []
        self.frames: list[FrameSource] = []

    @property
    def _first(self) -> int:
        return len(self.splits) + MAX_PARTITIONS * len(self.frames)

    def add(self, source: Any) -> None:
        """One more source: files, or the name of a type and rows of it."""
        if not isinstance(source, Files):
            before = sum(frame.type_name == source[0] for frame in self.frames)
            name = f"{source[0]} {before + 1}" if before else source[0]
            if isinstance(source[1], Changes):
                self._add_changes(source[0], source[1], name)
            else:
                self.frames.append(FrameSource(source[0], _frame(self._spark, source[1]), self._first, name))
            return
        splits = _numbered(self._spark, plan_splits([source], self._first, self._access))
        require_mapped_members(self._spark, splits)
        if source.is_selected and self._select(source, splits):
            return
        self.splits += splits

    def _add_changes(self, type_name: str, source: Changes, name: str) -> None:
        with _naming_mistakes(name):
            frame = _frame(self._spark, source.rows)
            found = frame_changes(source, frame, self._catalog.entity(type_name), name)
            self.frames.append(self._change_source(type_name, found, name))

    def _change_source(self, type_name: str, found: ChangeFrame, name: str) -> FrameSource:
        selection = found.rows.selection
        return FrameSource(type_name, found.frame, self._first, name, selection, found.failed_place, found.rows)

    def _select(self, source: Files, splits: list[Split]) -> bool:
        place, type_name = source.place, str(source.type_name)
        spark = work_session(self._spark)
        with _naming_mistakes(place):
            if source.cdc is not None:
                changes = file_changes(spark, source, self._catalog.entity(type_name), splits, place)
                if changes is not None:
                    self.frames.append(self._change_source(type_name, changes, place))
                return changes is not None
            found = selected_frame(spark, source, splits, place)
            if found is not None:
                self.frames.append(FrameSource(type_name, found[0], self._first, place, found[1], found[2]))
            return found is not None


@contextmanager
def _naming_mistakes(place: str) -> Iterator[None]:
    """What Spark does not understand of a source, as a mistake of the job."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise refusal_in(str(error)) or JobError(f"{place}: {reason_in(str(error))}") from error


def _require_change_terms(sources: Sequence[Any], mode: str) -> None:
    """Refuse events in a load that does not merge, and a type with events and anything beside them."""
    names = [s.type_name if isinstance(s, Files) else s[0] for s in sources]
    changed = [n for n, s in zip(names, sources, strict=True) if _cdc_of(s) is not None]
    if changed and mode != MERGE:
        raise InvalidArgument(f"{changed[0]}: change events need mode 'merge', not {mode!r}", hint="set mode to merge")
    for name in changed:
        if names.count(name) > 1 or None in names:
            hint = "name all files of the type in one source, or load in two steps"
            raise InvalidArgument(f"{name}: change events are the only source of their type", hint=hint)


def _cdc_of(source: Any) -> Cdc | None:
    if isinstance(source, Files):
        return source.cdc
    return source[1].cdc if isinstance(source[1], Changes) else None


def _numbered(spark: SparkSession, splits: list[Split]) -> list[Split]:
    """Line numbers of files that are cut at byte ranges: tasks count the lines of each range."""
    ranged = [s for s in splits if s.format == JSONL and s.end >= 0]
    several = {s.path for s in ranged if s.begin > 0}
    counted = [s for s in ranged if s.path in several]
    if not counted:
        return splits
    counts = TaskRunner(spark, "count the lines of files").map(lines_begun, counted, "count lines")
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
    entity = catalog.entity(source.type_name)
    for name in source.columns:
        if name not in known_fields(entity):
            entity.property(name)
    for path in source.paths if source.partitions and not source.columns else ():
        for name, _ in folders_of(path):
            if name not in known_fields(entity):
                hint = "`partitions: false` takes no columns from folders; `columns` names those to take"
                raise UnknownField(f"{path}: {entity.name} has no property {name!r}, a folder of it", hint=hint)


def _table_keys(sources: Sequence[Any], catalog: Catalog) -> tuple[str, ...]:
    """Tables that the load may write: those of the types named, all where rows name their own."""
    names = [s.type_name if isinstance(s, Files) else s[0] for s in sources]
    if None in names:
        return tuple(entity.table_key for entity in catalog.entity_types)
    keys = {catalog.entity(str(name)).table_key for name in names}
    nodes = {catalog.entity(str(n)).name for n, s in zip(names, sources, strict=True) if _cdc_of(s) is not None}
    keys |= {edge.table_key for edge in catalog.edges.values() if nodes & {edge.source, edge.target}}
    return tuple(sorted(keys))
