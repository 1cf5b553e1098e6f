"""The job file of a load, `pipeline.yaml`: what to read, where it goes, and what to do with rows that are wrong.

    graph: graph.omni
    mode: append
    nodes:
      Person:
        - path: people/*.parquet
          columns: {name: full_name, age: years}
    edges:
      Knows:
        - {path: knows.csv, columns: {from: a, to: b}, where: "strength > 0.5"}

Every complaint names the line and the column of the file.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from omnigraph.errors import InvalidArgument, JobError, Span
from omnigraph.write.inputs.change_events import Cdc
from omnigraph.write.inputs.csv_files import CsvDialect
from omnigraph.write.inputs.expectations import FAIL, ON_FAIL, UNKNOWN, Expectation
from omnigraph.write.inputs.locations import is_absolute
from omnigraph.write.inputs.tables import CSV, FORMATS
from omnigraph.write.user_files import joined, read_text

MODES = ("append", "merge", "overwrite")
INCREMENTAL_FILES = "files"
MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 16
_ROOT = (
    "graph", "branch", "from", "mode", "actor", "message", "on_error", "max_errors", "rejects", "nodes", "edges",
    "expect_head", "idempotency_key", "ignore_unknown", "dedupe_edges",
    "name", "incremental",
)  # fmt: skip
_SOURCE = (
    "path", "format", "columns", "cast", "where", "delimiter", "quote", "escape", "header", "names", "null_values",
    "encoding", "partitions", "cdc", "expect", "unknown",
)  # fmt: skip
_CDC = ("op", "delete", "upsert", "ignore", "sequence", "partial", "preset")
_CSV_TEXTS = ("delimiter", "quote", "escape", "encoding")
_CSV_ONLY = (*_CSV_TEXTS, "names", "null_values", "header")


@dataclass(frozen=True, slots=True)
class JobSource:
    """Files of one type. `options` are those of `Files`, by name."""

    type_name: str
    paths: tuple[str, ...]
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A load, as written. Paths are relative to the job file's directory.

    `incremental`: only files that the job, known by its `name`, has not loaded on its branch.
    """

    graph: str | None
    branch: str
    from_branch: str | None
    mode: str
    actor: str | None
    message: str | None
    on_error: str
    max_errors: int | None
    rejects: str | None
    nodes: tuple[JobSource, ...]
    edges: tuple[JobSource, ...]
    directory: str
    dry_run: bool = False
    expect_head: str | None = None
    idempotency_key: str | None = None
    ignore_unknown: bool = False
    dedupe_edges: bool = False
    name: str = "pipeline"
    incremental: bool = False

    def located(self, path: str) -> str:
        """A path of the job file, or a URI, as it is found from anywhere."""
        return path if is_absolute(path) else joined(self.directory, path)


def read_job(path: str | Path) -> Job:
    """Read and check a job file."""
    name = os.fspath(path)
    missing = JobError(f"there is no job file {name!r}", hint="`omnigraph pipeline init` writes one")
    try:
        text = read_text(name, missing=missing)
    except InvalidArgument as error:
        raise JobError(error.message, hint=error.hint) from error
    return parse_job(text, name)


def parse_job(text: str, path: str | Path) -> Job:
    """A job from its text."""
    name = os.fspath(path)
    reader = _Reader(text, name)
    if len(text) > MAX_CHARACTERS:
        raise JobError(f"{name} has {len(text)} characters, the limit is {MAX_CHARACTERS}", hint="split the job")
    try:
        _require_shallow(reader, text)
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line, column = (error.problem_mark.line, error.problem_mark.column) if error.problem_mark else (0, 0)
        raise reader.error(f"this is not YAML: {error.problem}", line, column) from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, yaml.YAMLError) else "it is nested too deeply"
        raise reader.error(f"this is not YAML: {reason}", 0, 0) from error
    if document is None:
        raise reader.error("the job file is empty", 0, 0, hint="`omnigraph pipeline init` writes an example")
    root = reader.mapping(document, "the job", _ROOT)
    job = Job(
        graph=reader.optional(root, "graph", reader.text),
        branch=reader.optional(root, "branch", reader.text) or "main",
        from_branch=reader.optional(root, "from", reader.text),
        mode=reader.choice(root, "mode", MODES, "append"),
        actor=reader.optional(root, "actor", reader.text),
        message=reader.optional(root, "message", reader.text),
        on_error=reader.choice(root, "on_error", ("fail", "reject"), "fail"),
        max_errors=reader.optional(root, "max_errors", reader.count),
        rejects=reader.optional(root, "rejects", reader.text),
        nodes=reader.sources(root, "nodes"),
        edges=reader.sources(root, "edges"),
        directory=os.path.dirname(name),
        expect_head=reader.optional(root, "expect_head", reader.text),
        idempotency_key=reader.optional(root, "idempotency_key", reader.text),
        ignore_unknown=reader.choice(root, "ignore_unknown", ("true", "false"), "false") == "true",
        dedupe_edges=reader.choice(root, "dedupe_edges", ("true", "false"), "false") == "true",
        name=reader.optional(root, "name", reader.text) or os.path.splitext(os.path.basename(name))[0],
        incremental=reader.choice(root, "incremental", (INCREMENTAL_FILES,), "") == INCREMENTAL_FILES,
    )
    if job.incremental:
        _require_incremental_terms(reader, root, job)
    if job.mode != "merge" and any("cdc" in source.options for source in (*job.nodes, *job.edges)):
        where = root.get("mode", document)
        raise reader.at(where, f"a source has `cdc`, and the mode is {job.mode}", "use `mode: merge`")
    if not job.nodes and not job.edges:
        raise reader.error("the job loads nothing", 0, 0, hint="name files under `nodes` or `edges`")
    return job


def _require_incremental_terms(reader: _Reader, root: Mapping[str, Any], job: Job) -> None:
    """Refuse what a job that loads new files only cannot have."""
    if job.mode == "overwrite":
        raise reader.at(root["mode"], "a load of new files cannot overwrite the old ones", "use append or merge")
    if job.idempotency_key is not None:
        raise reader.at(root["idempotency_key"], "a job with `incremental` makes its own keys", "leave it out")
    if ":" in job.name:
        raise reader.at(root.get("name", root["incremental"]), f"the name of a job has no colon: {job.name!r}")


def _require_shallow(reader: _Reader, text: str) -> None:
    """Refuse nesting that no job has. Events come as they are read, so what lies deeper costs nothing."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            mark = event.start_mark
            raise reader.error("this is nested too deeply", mark.line, mark.column, hint="a job has four levels")


class _Reader:
    """Typed access to YAML nodes that knows where each one stands."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path

    def error(self, message: str, line: int, column: int, hint: str | None = None) -> JobError:
        return JobError(message, source=self._text, path=self._path, span=Span(line + 1, column + 1), hint=hint)

    def at(self, node: Any, message: str, hint: str | None = None) -> JobError:
        return self.error(message, node.start_mark.line, node.start_mark.column, hint)

    def mapping(self, node: Any, what: str, allowed: tuple[str, ...] | None = None) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self.at(node, f"{what} must be a mapping of names to values")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self.text(key)
            if allowed is not None and name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(allowed)}"
                raise self.at(key, f"{name!r} is unknown in {what}", hint)
            if name in found:
                raise self.at(key, f"{name!r} appears twice in {what}")
            found[name] = value
        return found

    def text(self, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
            raise self.at(node, "a text is expected here")
        if not node.value.isprintable() and "\0" in node.value:
            raise self.at(node, "a text cannot hold NUL")
        return str(node.value)

    def count(self, node: Any) -> int:
        text = self.text(node)
        if not text.isdecimal() or len(text) > 18:
            raise self.at(node, f"a whole number is expected here, not {text!r}")
        return int(text)

    def optional(self, root: Mapping[str, Any], name: str, read: Callable[[Any], Any]) -> Any:
        return read(root[name]) if name in root else None

    def choice(self, root: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
        if name not in root:
            return default
        value = self.text(root[name])
        if value not in allowed:
            raise self.at(root[name], f"{name} {value!r} is unknown", f"use {' or '.join(allowed)}")
        return value

    def sources(self, root: Mapping[str, Any], section: str) -> tuple[JobSource, ...]:
        if section not in root:
            return ()
        found: list[JobSource] = []
        for type_name, node in self.mapping(root[section], section).items():
            items = node.value if isinstance(node, yaml.SequenceNode) else [node]
            if not items:
                raise self.at(node, f"{type_name} names no source")
            found += [self.source(type_name, item) for item in items]
        return tuple(found)

    def source(self, type_name: str, node: Any) -> JobSource:
        if isinstance(node, yaml.ScalarNode):
            return JobSource(type_name, (self.text(node),))
        given = self.mapping(node, f"a source of {type_name}", _SOURCE)
        if "path" not in given:
            raise self.at(node, f"a source of {type_name} needs a path")
        paths = given["path"].value if isinstance(given["path"], yaml.SequenceNode) else [given["path"]]
        if not paths:
            raise self.at(given["path"], f"a source of {type_name} needs a path")
        known = self.choice(given, "format", FORMATS, "") or None
        options = {**self._sql_options(given), **self._csv_options(given, known)}
        if "partitions" in given:
            options["partitions"] = self.switch(given["partitions"])
        if "cdc" in given:
            options["cdc"] = self._cdc(given["cdc"])
        if "expect" in given:
            options["expect"] = self._expectations(given["expect"])
        if "unknown" in given:
            options["unknown"] = self.choice(given, "unknown", UNKNOWN, "")
        return JobSource(type_name, tuple(self.text(p) for p in paths), known, options)

    def _expectations(self, node: Any) -> tuple[Expectation, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise self.at(node, "expect must be a list", "write `expect: [{rule: age >= 0, on_fail: drop}]`")
        found: dict[str, Expectation] = {}
        for item in node.value:
            given = self.mapping(item, "an expectation", ("rule", "on_fail", "name"))
            if "rule" not in given:
                raise self.at(item, "an expectation needs a rule", "a condition in Spark SQL, such as age >= 0")
            with self._refusing(given["rule"]):
                on_fail = self.choice(given, "on_fail", ON_FAIL, FAIL)
                each = Expectation(self.text(given["rule"]), on_fail, self.optional(given, "name", self.text) or "")
            if each.name in found:
                raise self.at(item, f"the expectation {each.name!r} appears twice", "give each rule a name of its own")
            found[each.name] = each
        return tuple(found.values())

    def _cdc(self, node: Any) -> Cdc:
        """The name of a preset, or how events are written."""
        if isinstance(node, yaml.ScalarNode):
            with self._refusing(node):
                return Cdc(preset=self.text(node))
        given = self.mapping(node, "cdc", _CDC)
        names: dict[str, Any] = {name: self.text(given[name]) for name in ("op", "sequence", "preset") if name in given}
        values: dict[str, Any] = {
            name: self.words(given[name]) for name in ("delete", "upsert", "ignore") if name in given
        }
        options = {**names, **values}
        if "preset" in given:
            with self._refusing(given["preset"]):
                Cdc(preset=names["preset"])
            for name in values:
                raise self.at(given[name], f"{name} is known to the preset {names['preset']}", "leave one of them out")
        if "partial" in given:
            options["partial"] = self.switch(given["partial"])
        with self._refusing(node):
            return Cdc(**options)

    def _sql_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        columns, cast = self._names(given, "columns"), self._names(given, "cast")
        for name in cast if columns else ():
            if name not in columns:
                raise self.at(given["cast"], f"cast names {name!r}, which `columns` leaves out")
        return {"columns": columns, "cast": cast, "where": self.optional(given, "where", self.text)}

    def _csv_options(self, given: Mapping[str, Any], known: str | None) -> dict[str, Any]:
        """How CSV is written. Each value is checked where it stands, and then all of them together."""
        read: dict[str, Callable[[Any], Any]] = dict.fromkeys(_CSV_TEXTS, self.text)
        read |= {"names": self.texts, "null_values": self.words, "header": self.switch}
        found: dict[str, Any] = {}
        for name in [name for name in _CSV_ONLY if name in given]:
            if known not in (None, CSV):
                raise self.at(given[name], f"{name} is for CSV, the format is {known}")
            found[name] = read[name](given[name])
            with self._refusing(given[name]):
                CsvDialect(**({"header": False} if name == "names" else {}) | {name: found[name]})
        with self._refusing(given[next(iter(found), "path")]):
            CsvDialect(**found)
        return found

    @contextmanager
    def _refusing(self, node: Any) -> Iterator[None]:
        try:
            yield
        except InvalidArgument as error:
            raise self.at(node, error.message, error.hint) from error

    def switch(self, node: Any) -> bool:
        text = self.text(node).lower()
        if text not in ("true", "false"):
            raise self.at(node, f"true or false is expected here, not {text!r}")
        return text == "true"

    def texts(self, node: Any) -> tuple[str, ...]:
        return tuple(self.text(each) for each in (node.value if isinstance(node, yaml.SequenceNode) else [node]))

    def words(self, node: Any) -> tuple[str, ...]:
        """Texts as they stand: `NULL` is a word here, which it is nowhere else in YAML."""
        found = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(each.value if isinstance(each, yaml.ScalarNode) else self.text(each) for each in found)

    def _names(self, given: Mapping[str, Any], name: str) -> dict[str, str]:
        if name not in given:
            return {}
        return {key: self.text(value) for key, value in self.mapping(given[name], name).items()}
