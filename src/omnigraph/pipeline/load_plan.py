"""Plan a load as splits of files and DataFrames; refuse known errors before any task starts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InvalidArgument, JobError, UnknownField
from omnigraph.execution.spark.task_errors import reason_in, refusal_in
from omnigraph.graph import Graph
from omnigraph.pipeline.added_properties import add_properties
from omnigraph.pipeline.bulk_load import BulkLoad, FrameSource
from omnigraph.pipeline.cdc_frames import ChangeFrame, Changes, file_changes, frame_changes
from omnigraph.pipeline.frame_rows import Rows, local_frame, row_frame
from omnigraph.pipeline.job_model import Job, JobSource
from omnigraph.pipeline.load_commit import LoadTerms
from omnigraph.pipeline.phases import Phases
from omnigraph.pipeline.reading import lines_begun
from omnigraph.pipeline.row_schema import require_mapped_members
from omnigraph.pipeline.row_selection import selected_frame
from omnigraph.pipeline.s3_settings import s3_access
from omnigraph.pipeline.source_checks import MAX_PARTITIONS, CheckScratch
from omnigraph.pipeline.sources import Split, plan_splits
from omnigraph.pipeline.spark_session import work_session
from omnigraph.pipeline.step_frames import StepFrames
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.versioning.store import mint
from omnigraph.write.files import Sniffed
from omnigraph.write.inputs.change_events import Cdc
from omnigraph.write.inputs.file_options import FileOptions
from omnigraph.write.inputs.locations import expand_paths
from omnigraph.write.inputs.partition_folders import folders_of
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.suffixes import kind_of
from omnigraph.write.inputs.tables import JSON, JSONL
from omnigraph.write.load import MERGE
from omnigraph.write.rows import known_fields
from omnigraph.write.sources import require_one_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Any
"""A path, a list of paths, `Files`, a Spark DataFrame, a pyarrow, pandas or polars table, `Rows` or `Changes`."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a load: by type, and files of envelope rows. `job` has the steps that types name."""

    nodes: Mapping[str, Source]
    edges: Mapping[str, Source]
    data: Source = None
    job: Job | None = None


def planned_load(spark: SparkSession, graph: Graph, given: Sources, terms: LoadTerms, phases: Phases) -> BulkLoad:
    """Return the splits and DataFrames of a load; refuse errors that are known beforehand."""
    catalog, access = graph.catalog(terms.branch), s3_access(spark)
    steps: StepFrames | None = None
    if given.job is not None and given.job.sources + given.job.steps:
        scratch = CheckScratch(graph.repository.store.root.uri, mint(), terms.limit)
        steps = StepFrames(spark, given.job, scratch, access, phases)
        steps.make()
    named = [(given.nodes, "node"), (given.edges, "edge")]
    sources = [each for types, kind in named for each in _typed(types, kind, catalog, access, steps)]
    sources += _envelopes(given.data, access)
    sources, added = add_properties(spark, graph, terms, sources, access)
    catalog = graph.catalog(terms.branch) if added else catalog
    planned = _Planned(spark, catalog, access, terms, 0 if steps is None else steps.numbers)
    for source in sources:
        if isinstance(source, Files):
            check_columns(source, catalog)
    _require_change_terms(sources, terms.mode)
    for source in sources:
        planned.add(source)
    if not planned.splits and not planned.frames:
        raise InvalidArgument("there is nothing to load", hint="name files or DataFrames in `nodes` or `edges`")
    return BulkLoad(
        splits=tuple(planned.splits), frames=tuple(planned.frames), table_keys=_table_keys(sources, catalog),
        terms=terms, checked=() if steps is None else tuple(steps.checked),
        scratch=None if steps is None else steps.scratch, added=added,
        sniffed=planned.sniffed,
    )  # fmt: skip


def _typed(
    given: Mapping[str, Source], kind: str, catalog: Catalog, access: S3Access | None, steps: StepFrames | None
) -> list[Any]:
    found: list[Any] = []
    for name, value in given.items():
        type_named(name, kind, catalog)
        for each in value if isinstance(value, list) and not _all_paths(value) else [value]:
            item = steps.rows_of(each) if steps is not None and isinstance(each, JobSource) else each
            if isinstance(item, Files):
                if item.type_name != name:
                    raise InvalidArgument(f"{name}: these files are those of {item.type_name}")
                found.append(replace(item, paths=expand_paths(item.paths, access)))
            elif isinstance(item, (str, os.PathLike)) or (isinstance(item, (list, tuple)) and _all_paths(item)):
                found += _by_format(name, expand_paths(item, access))
            else:
                found.append((name, item))
    return found


def type_named(name: str, kind: str, catalog: Catalog) -> EntityType:
    """Return a node or edge type."""
    return catalog.node(name) if kind == "node" else catalog.edge(name)


def _by_format(name: str | None, paths: Sequence[str]) -> list[Files]:
    """Group adjacent sources of one format. The order is kept: where rows clash, it decides which one is refused."""
    return [Files(name, tuple(mine), kind) for kind, mine in itertools.groupby(paths, kind_of)]


def with_options(data: Any, options: FileOptions, access: S3Access | None) -> Any:
    """Return sources whose files have the format options of a load."""
    if not isinstance(data, Mapping):
        for path in expand_paths(data, access):
            options.require_format(path, kind_of(path))
        return data
    require_one_type(data, options)
    return {name: _optioned(str(name), value, options, access) for name, value in data.items()}


def _optioned(name: str, value: Any, options: FileOptions, access: S3Access | None) -> Any:
    if not (isinstance(value, (str, os.PathLike)) or (isinstance(value, (list, tuple)) and _all_paths(value))):
        return value
    found = _by_format(name.rpartition(":")[2], expand_paths(value, access))
    for each in found:
        options.require_format(each.paths[0], each.format)
    return [replace(each, **options.as_dict()) for each in found]


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
    found = local_frame(spark, value, "the frame")
    if found is not None:
        return found
    raise InvalidArgument(
        f"cannot load {type(value).__name__}",
        hint="pass paths, a Spark DataFrame, or a pyarrow, pandas or polars table",
    )


class _Planned:
    """Numbers splits and frames in the given order, in which violations are reported, as in one process."""

    def __init__(
        self, spark: SparkSession, catalog: Catalog, access: S3Access | None, terms: LoadTerms, taken: int
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._access = access
        self._ignore_unknown = terms.ignore_unknown
        self._taken = taken
        self.splits: list[Split] = []
        self.frames: list[FrameSource] = []
        self.sniffed: Sniffed = {}

    @property
    def _first(self) -> int:
        return self._taken + len(self.splits) + MAX_PARTITIONS * len(self.frames)

    def add(self, source: Any) -> None:
        """Add one more source: files, or the name of a type and rows of it."""
        if not isinstance(source, Files):
            before = sum(frame.type_name == source[0] for frame in self.frames)
            name = (source[1].name if isinstance(source[1], (Rows, Changes)) else "") or (
                f"{source[0]} {before + 1}" if before else source[0]
            )
            if isinstance(source[1], Changes):
                self._add_changes(source[0], source[1], name)
            elif isinstance(source[1], Rows):
                self._add_rows(source[0], source[1], name)
            else:
                self.frames.append(FrameSource(source[0], _frame(self._spark, source[1]), self._first, name))
            return
        splits = _numbered(self._spark, plan_splits([source], self._first, self._access, self.sniffed))
        require_mapped_members(self._spark, splits)
        if source.is_selected and self._select(source, splits):
            return
        self.splits += splits

    def _add_rows(self, type_name: str, source: Rows, name: str) -> None:
        with _naming_mistakes(name):
            entity = self._catalog.entity(type_name)
            frame = _frame(self._spark, source.rows)
            frame, selection = row_frame(source, frame, entity, name, ignore_unknown=self._ignore_unknown)
            self.frames.append(FrameSource(type_name, frame, self._first, name, selection))

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
    """Report SQL errors of a source as errors of the job."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise refusal_in(str(error)) or JobError(f"{place}: {reason_in(str(error))}") from error


def _require_change_terms(sources: Sequence[Any], mode: str) -> None:
    """Refuse events in a load that does not merge, and other sources beside events of a type."""
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
    """Return line numbers of files that are cut at byte ranges: tasks count the lines of each range."""
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


def check_columns(source: Files, catalog: Catalog) -> None:
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
    """Return the tables that the load may write: those of the types named, or all where rows name their type."""
    names = [s.type_name if isinstance(s, Files) else s[0] for s in sources]
    if None in names:
        return tuple(entity.table_key for entity in catalog.entity_types)
    keys = {catalog.entity(str(name)).table_key for name in names}
    nodes = {catalog.entity(str(n)).name for n, s in zip(names, sources, strict=True) if _cdc_of(s) is not None}
    keys |= {edge.table_key for edge in catalog.edges.values() if nodes & {edge.source, edge.target}}
    return tuple(sorted(keys))
