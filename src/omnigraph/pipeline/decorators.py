"""Jobs in Python: decorated functions become the same `Job` as a job file, and run in the same way.

p = pipeline.Pipeline(graph="shop.omni")

@p.step
def totals(orders): ...
"""

from __future__ import annotations

import difflib
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from omnigraph.api.options import MODES
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.errors import InvalidArgument
from omnigraph.graph import Graph
from omnigraph.pipeline.job_graph import job_mermaid
from omnigraph.pipeline.job_model import Job, JobSource, NamedSource, Origin, Reference, Sql, Step
from omnigraph.pipeline.job_sections import FILE_OPTIONS, ROW_OPTIONS, sql_inputs
from omnigraph.pipeline.sql_names import is_query
from omnigraph.pipeline.step_graph import require_sound
from omnigraph.write.inputs.expectations import DROP, FAIL, WARN, Expectation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Made = TypeVar("Made", bound=Callable[..., Any])
_SESSION = "spark"
_EXPECT, _REGISTERED = "__omnigraph_expect__", "__omnigraph_registered__"


def expect(name: str, rule: str) -> Callable[[Made], Made]:
    """Count the rows of a source, a step or a type that do not meet a condition of Spark SQL."""
    return _expecting(Expectation(rule, WARN, name))


def expect_or_drop(name: str, rule: str) -> Callable[[Made], Made]:
    """Leave out and describe the rows that do not meet a condition."""
    return _expecting(Expectation(rule, DROP, name))


def expect_or_fail(name: str, rule: str) -> Callable[[Made], Made]:
    """Refuse the load for a row that does not meet a condition."""
    return _expecting(Expectation(rule, FAIL, name))


def _expecting(rule: Expectation) -> Callable[[Made], Made]:
    def mark(function: Made) -> Made:
        if getattr(function, _REGISTERED, False):
            raise InvalidArgument(
                f"{function.__name__} is a part of the pipeline already, without {rule.name!r}",
                hint="write expectations below @p.source, @p.step, @p.node and @p.edge",
            )
        setattr(function, _EXPECT, (rule, *getattr(function, _EXPECT, ())))
        return function

    return mark


class Pipeline:
    """A job in Python. Functions name what they read by their parameters; sources are given the session, `spark`.

    The terms are the keys of a job file, with `from_branch` for `from`. Paths are relative to `directory`, by
    default that of the file that makes the pipeline.

    Args:
        graph: an open graph, or where it lies.
        directory: where relative paths begin.
        terms: mode, branch, from_branch, actor, message, on_error, max_errors, rejects, name, expect_head,
            idempotency_key, ignore_unknown, dedupe_edges, lineage.

    """

    def __init__(
        self, graph: Graph | str | Path | None = None, *, directory: str | Path | None = None, **terms: Any
    ) -> None:
        file = sys._getframe(1).f_globals.get("__file__")
        self._directory = str(directory if directory is not None else Path(file).parent if file else Path.cwd())
        self._graph = graph if isinstance(graph, Graph) else None
        self._uri = None if graph is None else graph.uri if isinstance(graph, Graph) else str(graph)
        self._terms = _known_terms(terms)
        self._sources: list[NamedSource] = []
        self._steps: list[Step] = []
        self._types: dict[str, list[JobSource]] = {"nodes": [], "edges": []}

    # --- parts ----------------------------------------------------------------------------------------------------

    def files(self, name: str, path: str | Sequence[str], *, format: str | None = None, **options: Any) -> None:
        """Name files, as `sources` of a job file does; options are those of a source."""
        _require_options(options, (*FILE_OPTIONS, *ROW_OPTIONS))
        origin = _caller(sys._getframe(1))
        self._sources.append(
            NamedSource(name=name, origin=origin, paths=_paths(path), format=format, options=_frozen(options))
        )

    @overload
    def source(self, function: Made) -> Made: ...
    @overload
    def source(self, *, name: str | None = None, **options: Any) -> Callable[[Made], Made]: ...
    def source(self, function: Any = None, *, name: str | None = None, **options: Any) -> Any:
        """Make rows by a function of the session: `@p.source`, or `@p.source(cast={"age": "int"})`."""
        _require_options(options, ROW_OPTIONS)

        def register(made: Made) -> Made:
            self._add_source(made, name or made.__name__, options)
            return made

        return register if function is None else register(function)

    @overload
    def step(self, function: Made) -> Made: ...
    @overload
    def step(self, *, name: str | None = None, inputs: Sequence[str] | None = None) -> Callable[[Made], Made]: ...
    def step(self, function: Any = None, *, name: str | None = None, inputs: Sequence[str] | None = None) -> Any:
        """Compute rows from sources and steps, which the parameters name unless `inputs` does."""

        def register(made: Made) -> Made:
            self._add_step(made, name or made.__name__, inputs)
            return made

        return register if function is None else register(function)

    def sql(self, name: str, query: str, *, expect: Sequence[Expectation] = ()) -> None:
        """Compute rows by a query over sources and steps."""
        origin = _caller(sys._getframe(1))
        if not is_query(query):
            raise origin.error("a step is one query of Spark SQL", "it begins with select, with, from, values or table")
        sql = Sql(query, origin)
        self._steps.append(Step(name=name, origin=origin, inputs=sql_inputs(sql), sql=sql, expect=tuple(expect)))

    def node(self, type_name: str, *, input: str | None = None, path: Any = None, **options: Any) -> Any:
        """Load a node type from what the function below makes, from `input`, or from files (`path`)."""
        return self._type("nodes", type_name, input, path, options, _caller(sys._getframe(1)))

    def edge(self, type_name: str, *, input: str | None = None, path: Any = None, **options: Any) -> Any:
        """Load an edge type, as `node` does a node type."""
        return self._type("edges", type_name, input, path, options, _caller(sys._getframe(1)))

    # --- the whole ------------------------------------------------------------------------------------------------

    @property
    def job(self) -> Job:
        """Return the job of all registered parts, checked like a job file."""
        if not any(self._types.values()):
            raise InvalidArgument("the pipeline loads nothing", hint="name a type: @p.node, @p.edge")
        job = Job(
            graph=self._uri, directory=self._directory, sources=tuple(self._sources), steps=tuple(self._steps),
            nodes=tuple(self._types["nodes"]), edges=tuple(self._types["edges"]), **self._terms,
        )  # fmt: skip
        require_sound(job)
        return job

    def run(self, spark: SparkSession | None = None, *, progress: Listener | None = None) -> LoadResult:
        """Run the job on a session, by default the one that is running or a new one."""
        from omnigraph.pipeline.api import run
        from omnigraph.pipeline.spark_session import plain_session

        return run(spark or plain_session(), self.job, self._graph, progress)

    def graph(self) -> str:
        """The job as a Mermaid flowchart."""
        return job_mermaid(self.job)

    # --- registering ----------------------------------------------------------------------------------------------

    def _type(
        self, section: str, type_name: str, input: str | None, path: Any, options: dict[str, Any], origin: Origin
    ) -> Any:
        if input is not None and path is not None:
            raise InvalidArgument(f"{type_name} has an input and a path", hint="give it one of them")
        _require_options(options, (*ROW_OPTIONS, "cdc", "unknown", *(() if path is None else FILE_OPTIONS)))
        if path is not None:
            known = options.pop("format", None)
            self._types[section].append(JobSource(type_name, _paths(path), known, _frozen(options), origin=origin))
            return None
        if input is not None:
            self._types[section].append(JobSource(type_name, options=_frozen(options), input=input, origin=origin))
            return None

        def register(function: Made) -> Made:
            name = function.__name__
            if list(inspect.signature(function).parameters) == [_SESSION]:
                self._add_source(function, name, {})
            else:
                self._add_step(function, name, None)
            source = JobSource(type_name, options=_frozen(options), input=name, origin=_origin(function))
            self._types[section].append(source)
            return function

        return register

    def _add_source(self, function: Callable[..., Any], name: str, options: Mapping[str, Any]) -> None:
        origin = _origin(function)
        if len(inspect.signature(function).parameters) != 1:
            raise origin.error(f"the source {name!r} takes one parameter, the session", f"def {name}({_SESSION}): ...")
        options = {**options, "expect": (*options.get("expect", ()), *_expectations(function))}
        self._sources.append(NamedSource(name=name, origin=origin, function=function, options=_frozen(options)))

    def _add_step(self, function: Callable[..., Any], name: str, inputs: Sequence[str] | None) -> None:
        origin = _origin(function)
        names = list(inspect.signature(function).parameters) if inputs is None else list(inputs)
        if not names:
            raise origin.error(f"the step {name!r} reads nothing", "its parameters name sources and steps")
        references = tuple(Reference(each, origin) for each in names)
        rules = _expectations(function)
        self._steps.append(Step(name=name, origin=origin, inputs=references, function=function, expect=rules))


def _known_terms(terms: dict[str, Any]) -> dict[str, Any]:
    names = (
        "mode", "branch", "from_branch", "actor", "message", "on_error", "max_errors", "rejects", "name", "expect_head",
        "idempotency_key", "ignore_unknown", "dedupe_edges", "dry_run", "lineage",
    )  # fmt: skip
    _require_options(terms, names)
    for name, allowed in (("mode", MODES), ("on_error", ("fail", "reject"))):
        if terms.get(name, allowed[0]) not in allowed:
            raise InvalidArgument(f"{name} {terms[name]!r} is unknown", hint=f"use one of {', '.join(allowed)}")
    return terms


def _require_options(options: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for name in options:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(allowed)}"
            raise InvalidArgument(f"the option {name!r} is unknown here", hint=hint)


def _frozen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the types of the model: lists become tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def _paths(path: str | Path | Sequence[str]) -> tuple[str, ...]:
    return (str(path),) if isinstance(path, (str, Path)) else tuple(map(str, path))


def _expectations(function: Callable[..., Any]) -> tuple[Expectation, ...]:
    """Return the expectations that decorators added to a function, and mark it as registered."""
    found: tuple[Expectation, ...] = getattr(function, _EXPECT, ())
    setattr(function, _REGISTERED, True)
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise InvalidArgument(f"two expectations of {function.__name__} have one name", hint="give each its own")
    return found


def _origin(function: Callable[..., Any]) -> Origin:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        raise InvalidArgument(f"{function!r} is no function", hint="decorate a function")
    return _written(code.co_filename, code.co_firstlineno)


def _caller(frame: FrameType) -> Origin:
    return _written(frame.f_code.co_filename, frame.f_lineno)


def _written(path: str, line: int) -> Origin:
    lines = linecache.getlines(path)
    return Origin(path, line, 1, "".join(lines) or None)
