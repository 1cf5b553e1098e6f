"""Sources and steps of a job as DataFrames of one session, from which the types of the graph are loaded.

    sources -> their DataFrames -> steps, each after those that it reads -> rows of types

Nothing is computed before it is needed. A frame that is used more than once is computed once and kept by Spark until
the load ends, so that nodes and edges made from the same rows fit together whatever the rows are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import DataError, JobError
from omnigraph.execution.spark import versions
from omnigraph.execution.spark.job_scope import job_scope
from omnigraph.execution.spark.task_errors import reason_in, refusal_in
from omnigraph.execution.spark.versions import is_connect
from omnigraph.pipeline.cdc_frames import Changes
from omnigraph.pipeline.frame_rows import Rows, local_frame, number_rows
from omnigraph.pipeline.job_model import Job, JobSource, NamedSource, Origin, Sql, Step
from omnigraph.pipeline.job_sources import named_files
from omnigraph.pipeline.phases import Phases
from omnigraph.pipeline.row_schema import require_mapped_members, row_schema, spark_fields
from omnigraph.pipeline.row_selection import PLACE, Selection, compute_columns, raw_rows, require_known
from omnigraph.pipeline.source_checks import MAX_PARTITIONS, CheckedRows, CheckScratch, RowChecks
from omnigraph.pipeline.sources import plan_splits
from omnigraph.pipeline.spark_session import work_session
from omnigraph.pipeline.step_graph import ordered_steps, uses
from omnigraph.pipeline.user_functions import call, load_function
from omnigraph.write.inputs.expectations import Expectation
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.tables import JSON, JSONL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POSITION = re.compile(r";?\s*\(?line (\d+), ?pos (\d+)\)?;?|; line (\d+) pos (\d+);?")
_ROW_OPTIONS = ("columns", "where", "cast", "expect")


@dataclass(frozen=True, slots=True)
class _NamedFrame:
    """Rows of a source or a step. `text` are columns that are text of files."""

    frame: DataFrame
    text: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Selected:
    """The options of a source, or of a step, as `computed` reads them."""

    where: str | None
    cast: Mapping[str, str]
    expect: tuple[Expectation, ...]


class StepFrames:
    """The sources and steps of one job for one load."""

    def __init__(
        self, spark: SparkSession, job: Job, scratch: CheckScratch, access: S3Access | None, phases: Phases
    ) -> None:
        self._spark = work_session(spark)
        self._job = job
        self.scratch = scratch
        self._access = access
        self._phases = phases
        self._uses = uses(job)
        self._sources = {source.name: source for source in job.sources}
        self._frames: dict[str, _NamedFrame] = {}
        self.checked: list[CheckedRows] = []

    @property
    def numbers(self) -> int:
        """Return how many task numbers are used."""
        return MAX_PARTITIONS * len(self.checked)

    def make(self) -> None:
        """Make the DataFrames of all sources and steps that types do not read as files themselves."""
        direct = {name for name in map(self._direct, (*self._job.nodes, *self._job.edges)) if name is not None}
        for source in self._job.sources:
            if source.name not in direct:
                self._keep(source.name, self._source(source))
        for step in ordered_steps(self._job):
            self._keep(step.name, self._step(step))

    def rows_of(self, source: JobSource) -> Files | Rows | Changes:
        """Return the rows of a type: files that no other part reads, or rows of a DataFrame."""
        assert source.input is not None, f"{source.type_name} has files of its own"
        options = dict(source.options)
        if self._direct(source) is not None:
            files = named_files(self._job, self._sources[source.input], self._access, source.type_name)
            written = self._sources[source.input].options
            return Files(source.type_name, files.paths, files.format, **{**written, **_given(options)})
        found = self._frames[source.input]
        name = f"{source.type_name} from {source.input}"
        if options.get("cdc") is not None:
            return Changes(found.frame, text=found.text, name=name, **options)
        options.pop("cdc", None)
        return Rows(found.frame, text=found.text, name=name, **options)

    def _direct(self, source: JobSource) -> str | None:
        """Return the name of the source of files that a type alone reads, unchanged."""
        named = self._sources.get(source.input or "")
        if named is None or not named.paths or self._uses[named.name] > 1:
            return None
        return None if any(named.options.get(option) for option in _ROW_OPTIONS) else named.name

    def _keep(self, name: str, found: _NamedFrame) -> None:
        frame = found.frame
        is_checked_once = any(rows.name == name for rows in self.checked) and not self._has_files(name)
        if self._uses[name] > 1 or is_checked_once:
            scope = job_scope(self._spark, f"omnigraph: compute {name}", self._phases.progress)
            with self._phases.phase(f"compute {name}", "compute"), _computing(name), scope:
                frame = versions.local_checkpoint(frame, eager=True)
        frame.createOrReplaceTempView(name)
        self._frames[name] = _NamedFrame(frame, found.text)

    def _has_files(self, name: str) -> bool:
        """Return whether the tasks that check rows read files, which give the same rows in every attempt."""
        return name in self._sources and bool(self._sources[name].paths)

    # --- sources --------------------------------------------------------------------------------------------------

    def _source(self, source: NamedSource) -> _NamedFrame:
        with _naming(f"the source {source.name!r}", source.origin):
            if source.paths:
                return self._files(source)
            options = source.options
            selected = _Selected(options.get("where"), options.get("cast") or {}, options.get("expect") or ())
            frame = self._rows(source)
            mapping = dict(options.get("columns") or {}) or {name: name for name in frame.columns}
            return _NamedFrame(self._checked(source.name, frame, selected, mapping))

    def _rows(self, source: NamedSource) -> DataFrame:
        if source.table is not None:
            return self._spark.table(source.table)
        if source.reader is not None:
            return self._spark.read.format(source.reader).options(**source.reader_options).load()
        assert source.function is not None, f"{source.name} has one of all kinds"
        function = load_function(source.function, self._job.directory, source.origin)
        made = call(function, (self._spark,), f"the source {source.name!r}", source.origin)
        return self._frame(made, f"the source {source.name!r}", source.origin)

    def _checked(self, name: str, frame: DataFrame, source: _Selected, mapping: Mapping[str, str]) -> DataFrame:
        """Return the rows that pass, with their columns renamed and cast; unchanged if the source has no options."""
        require_known(source, mapping, frame.columns, name)
        if source.where is None and not source.cast and not source.expect:
            return frame if all(a == b for a, b in mapping.items()) else _renamed(frame, mapping)
        rows = compute_columns(number_rows(frame), source, mapping, is_json=False)
        selection = Selection((), tuple(source.cast.items()), frozenset(), frozenset(), name, source.expect)
        return self._checks(name, selection, tuple(mapping)).of(rows)

    def _checks(self, name: str, selection: Selection, names: tuple[str, ...]) -> RowChecks:
        rows = CheckedRows(name, self.numbers)
        self.checked.append(rows)
        return RowChecks(rows, self.scratch, selection, names)

    def _files(self, source: NamedSource) -> _NamedFrame:
        files = named_files(self._job, source, self._access)
        splits = tuple(plan_splits([files], 0, self._access))
        require_mapped_members(self._spark, list(splits))
        found = row_schema(self._spark, splits)
        if not found.names:
            raise source.origin.error(f"the files of the source {source.name!r} have no columns")
        fields = spark_fields(found)
        columns = dict(files.columns) or {name: name for name in fields.names}
        require_known(files, columns, found.names, source.name)
        raw = raw_rows(self._spark, splits, pa.schema([*PLACE, *fields]))(0, len(splits))
        rows = compute_columns(raw, files, columns, is_json=False)
        selection = Selection(splits, tuple(files.cast.items()), frozenset(), frozenset(), expect=files.expect)
        frame = self._checks(source.name, selection, tuple(columns)).of(rows)
        kept = [name for name in columns if name not in files.cast]
        text = {name for split in splits for name in split.text_columns(kept)}
        if files.format in (JSON, JSONL):  # texts may be dates, as in every load of JSON
            text |= {name for name in kept if pa.types.is_string(fields.field(columns[name]).type)}
        return _NamedFrame(frame, frozenset(text))

    # --- steps ----------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> _NamedFrame:
        what = f"the step {step.name!r}"
        if step.sql is not None:
            with _naming(what, step.sql):
                frame = self._spark.sql(step.sql.text)
                _ = frame.schema  # Spark Connect analyses the query only here
        else:
            assert step.function is not None, f"{step.name} is SQL or a function"
            function = load_function(step.function, self._job.directory, step.origin)
            given = tuple(self._frames[reference.name].frame for reference in step.inputs)
            frame = self._frame(call(function, given, what, step.origin), what, step.origin)
        with _naming(what, step.origin):
            if len(set(frame.columns)) < len(frame.columns):
                twice = next(name for name in frame.columns if frame.columns.count(name) > 1)
                raise step.origin.error(f"{what} gives two columns {twice!r}", "name one of them otherwise")
            mapping = {name: name for name in frame.columns}
            return _NamedFrame(self._checked(step.name, frame, _Selected(None, {}, step.expect), mapping))

    def _frame(self, made: Any, what: str, origin: Origin) -> DataFrame:
        """Return a function's result as a DataFrame of the work session."""
        if hasattr(made, "mapInArrow"):
            if made.isStreaming:
                raise origin.error(f"{what} gives a stream", "write streams by `pipeline.write_batch`")
            if not is_connect(self._spark):
                return versions.frame_on(self._spark, made)
            if made.sparkSession.session_id != self._spark.session_id:
                raise origin.error(f"{what} gives rows of another session", "make them of the session that it is given")
            frame: DataFrame = made
            return frame
        found = local_frame(self._spark, made, what)
        if found is not None:
            return found
        raise origin.error(f"{what} gives {type(made).__name__}", "return a DataFrame of Spark, pandas or polars")


def _renamed(frame: DataFrame, mapping: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select(*(F.col(f"`{column.replace('`', '``')}`").alias(name) for name, column in mapping.items()))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


@contextmanager
def _computing(name: str) -> Iterator[None]:
    """Report a failure of Spark in a computation as an error with its purpose."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise refusal_in(str(error)) or DataError(f"{name} cannot be computed: {reason_in(str(error))}") from error


@contextmanager
def _naming(what: str, written: Origin | Sql) -> Iterator[None]:
    """Report SQL errors of a source or a step as errors of the job, at their place in the SQL."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        refusal = refusal_in(text)
        if refusal is not None:
            raise refusal from error
        reason = reason_in(text)
        message = f"{what}: {_POSITION.sub('', reason).strip()}"
        if isinstance(written, Sql):
            found = _POSITION.search(text)
            line, column = (int(each) for each in found.groups() if each is not None) if found else (1, 0)
            raise written.place(line, column).error(message) from error
        raise written.error(message) from error
    except JobError as error:
        if error.span is not None or not isinstance(written, Origin):
            raise
        raise written.error(f"{what}: {error.message}", error.hint) from error
