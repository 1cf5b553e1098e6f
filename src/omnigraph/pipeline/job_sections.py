"""Parse the sections of a job file: named sources, steps, and the sources of types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from omnigraph.pipeline.job_model import JobSource, Lineage, NamedSource, Reference, Sql, Step
from omnigraph.pipeline.sql_names import is_query, table_names
from omnigraph.pipeline.yaml_reader import YamlReader
from omnigraph.write.inputs.change_events import Cdc
from omnigraph.write.inputs.csv_dialect import CsvDialect
from omnigraph.write.inputs.expectations import FAIL, ON_FAIL, UNKNOWN, Expectation
from omnigraph.write.inputs.tables import CSV, FORMATS

_CSV_TEXTS = ("delimiter", "quote", "escape", "encoding", "date_format", "datetime_format")
_CSV_ONLY = (*_CSV_TEXTS, "names", "null_values", "header")
FILE_OPTIONS = ("format", "partitions", *_CSV_ONLY)
_FILES = ("path", *FILE_OPTIONS)
ROW_OPTIONS = ("columns", "cast", "where", "expect")
SOURCE = (*_FILES, *ROW_OPTIONS, "cdc", "unknown", "input")
"""The keys of the source of a type."""
_INPUT = ("input", *ROW_OPTIONS, "cdc", "unknown")
NAMED = (*_FILES, *ROW_OPTIONS, "table", "reader", "options", "python")
LINEAGE = ("url", "file", "namespace")
STEP = ("sql", "python", "inputs", "expect")
_CDC = ("op", "delete", "upsert", "ignore", "sequence", "partial", "preset")
_FUNCTION = re.compile(r"[\w.]+:\w+")


class SectionReader(YamlReader):
    """Parses the sections of a job."""

    def types(self, root: Mapping[str, Any], section: str) -> tuple[JobSource, ...]:
        """Return the sources of all types of `nodes` or `edges`."""
        if section not in root:
            return ()
        found: list[JobSource] = []
        for type_name, node in self.mapping(root[section], section).items():
            items = node.value if isinstance(node, yaml.SequenceNode) else [node]
            if not items:
                raise self.at(node, f"{type_name} names no source")
            found += [self._source(type_name, item) for item in items]
        return tuple(found)

    def named_sources(self, root: Mapping[str, Any]) -> tuple[NamedSource, ...]:
        """The section `sources`."""
        if "sources" not in root:
            return ()
        return tuple(self._named(key, node) for key, node in self._named_nodes(root["sources"], "sources"))

    def steps(self, root: Mapping[str, Any]) -> tuple[Step, ...]:
        """The section `steps`."""
        if "steps" not in root:
            return ()
        return tuple(self._step(key, node) for key, node in self._named_nodes(root["steps"], "steps"))

    def lineage(self, root: Mapping[str, Any]) -> Lineage | None:
        """Return the target of OpenLineage events: a URL, a path, or either with a namespace."""
        node = root.get("lineage")
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode):
            text = self.text(node)
            with self.refusing(node):
                return Lineage(url=text) if "://" in text else Lineage(file=text)
        given = self.mapping(node, "lineage", LINEAGE)
        with self.refusing(node):
            return Lineage(**{name: self.text(value) for name, value in given.items()})

    def _named_nodes(self, section: Any, what: str) -> list[tuple[Any, Any]]:
        self.mapping(section, what)
        return [(key, node) for key, node in section.value]

    def _source(self, type_name: str, node: Any) -> JobSource:
        if isinstance(node, yaml.ScalarNode):
            return JobSource(type_name, (self.text(node),))
        given = self.mapping(node, f"a source of {type_name}", SOURCE)
        if "input" in given:
            return self._input(type_name, given, node)
        if "path" not in given:
            raise self.at(node, f"a source of {type_name} needs a path", "or `input`, the name of a source or a step")
        paths, known, options = self._files(given, f"a source of {type_name}")
        return JobSource(type_name, paths, known, {**options, **self._row_options(given), **self._type_options(given)})

    def _input(self, type_name: str, given: Mapping[str, Any], node: Any) -> JobSource:
        for name in given:
            if name not in _INPUT:
                raise self.at(given[name], f"{name} is for files, and `input` names a source or a step")
        options = {**self._row_options(given), **self._type_options(given)}
        name = self.text(given["input"])
        return JobSource(type_name, options=options, input=name, origin=self.origin(given["input"]))

    def _type_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if "cdc" in given:
            options["cdc"] = self._cdc(given["cdc"])
        if "unknown" in given:
            options["unknown"] = self.choice(given, "unknown", UNKNOWN, "")
        return options

    def _row_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        expect = {"expect": self.expectations(given["expect"])} if "expect" in given else {}
        return {**self._sql_options(given), **expect}

    def _files(self, given: Mapping[str, Any], what: str) -> tuple[tuple[str, ...], str | None, dict[str, Any]]:
        """Return paths, format, and file options."""
        paths = given["path"].value if isinstance(given["path"], yaml.SequenceNode) else [given["path"]]
        if not paths:
            raise self.at(given["path"], f"{what} needs a path")
        known = self.choice(given, "format", FORMATS, "") or None
        options = self._csv_options(given, known)
        if "partitions" in given:
            options["partitions"] = self.switch(given["partitions"])
        return tuple(self.text(path) for path in paths), known, options

    def _named(self, key: Any, node: Any) -> NamedSource:
        origin, name = self.origin(key), key.value
        if isinstance(node, yaml.ScalarNode):
            return NamedSource(name=name, origin=origin, paths=(self.text(node),))
        what = f"the source {name!r}"
        given = self.mapping(node, what, NAMED)
        kinds = [kind for kind in ("path", "table", "reader", "python") if kind in given]
        if len(kinds) != 1:
            raise self.at(node, f"{what} needs one of path, table, reader and python")
        for option in given:
            is_of_files = option in _FILES and kinds != ["path"]
            if is_of_files or (option == "options" and kinds != ["reader"]):
                raise self.at(given[option], f"{option} is not for a source with {kinds[0]}")
        options = self._row_options(given)
        if kinds == ["path"]:
            paths, known, written = self._files(given, what)
            return NamedSource(name=name, origin=origin, paths=paths, format=known, options={**written, **options})
        return NamedSource(
            name=name, origin=origin, table=self.optional(given, "table", self.text),
            reader=self.optional(given, "reader", self.text), reader_options=self.names(given, "options"),
            function=self.optional(given, "python", self._function), options=options,
        )  # fmt: skip

    def _step(self, key: Any, node: Any) -> Step:
        origin, name = self.origin(key), key.value
        if isinstance(node, yaml.ScalarNode):
            sql = self._query(node)
            return Step(name=name, origin=origin, inputs=sql_inputs(sql), sql=sql)
        given = self.mapping(node, f"the step {name!r}", STEP)
        if ("sql" in given) == ("python" in given):
            raise self.at(node, f"the step {name!r} needs sql or python, one of them")
        expect = self.expectations(given["expect"]) if "expect" in given else ()
        if "sql" in given:
            if "inputs" in given:
                raise self.at(given["inputs"], "inputs are for python: SQL names what it reads")
            sql = self._query(given["sql"])
            return Step(name=name, origin=origin, inputs=sql_inputs(sql), sql=sql, expect=expect)
        if "inputs" not in given:
            raise self.at(node, f"the step {name!r} needs inputs", "the names of the DataFrames that it is given")
        nodes = given["inputs"].value if isinstance(given["inputs"], yaml.SequenceNode) else [given["inputs"]]
        if not nodes:
            raise self.at(given["inputs"], f"the step {name!r} reads nothing", "a function of a session is a source")
        inputs = tuple(Reference(self.text(each), self.origin(each)) for each in nodes)
        return Step(name=name, origin=origin, inputs=inputs, function=self._function(given["python"]), expect=expect)

    def _query(self, node: Any) -> Sql:
        sql = self.sql(node)
        if not is_query(sql.text):
            raise self.at(
                node, "a step is one query of Spark SQL", "it begins with select, with, from, values or table"
            )
        return sql

    def _function(self, node: Any) -> str:
        text = self.text(node)
        if not _FUNCTION.fullmatch(text):
            raise self.at(node, f"{text!r} names no function", "write module:function")
        return text

    def expectations(self, node: Any) -> tuple[Expectation, ...]:
        """Return the expectations of a source or a step."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.at(node, "expect must be a list", "write `expect: [{rule: age >= 0, on_fail: drop}]`")
        found: dict[str, Expectation] = {}
        for item in node.value:
            given = self.mapping(item, "an expectation", ("rule", "on_fail", "name"))
            if "rule" not in given:
                raise self.at(item, "an expectation needs a rule", "a condition in Spark SQL, such as age >= 0")
            with self.refusing(given["rule"]):
                on_fail = self.choice(given, "on_fail", ON_FAIL, FAIL)
                each = Expectation(self.text(given["rule"]), on_fail, self.optional(given, "name", self.text) or "")
            if each.name in found:
                raise self.at(item, f"the expectation {each.name!r} appears twice", "give each rule a name of its own")
            found[each.name] = each
        return tuple(found.values())

    def _cdc(self, node: Any) -> Cdc:
        """Return the name of a preset, or the format of events."""
        if isinstance(node, yaml.ScalarNode):
            with self.refusing(node):
                return Cdc(preset=self.text(node))
        given = self.mapping(node, "cdc", _CDC)
        names: dict[str, Any] = {name: self.text(given[name]) for name in ("op", "sequence", "preset") if name in given}
        values: dict[str, Any] = {
            name: self.words(given[name]) for name in ("delete", "upsert", "ignore") if name in given
        }
        options = {**names, **values}
        if "preset" in given:
            with self.refusing(given["preset"]):
                Cdc(preset=names["preset"])
            for name in values:
                raise self.at(given[name], f"{name} is known to the preset {names['preset']}", "leave one of them out")
        if "partial" in given:
            options["partial"] = self.switch(given["partial"])
        with self.refusing(node):
            return Cdc(**options)

    def _sql_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        columns, cast = self.names(given, "columns"), self.names(given, "cast")
        for name in cast if columns else ():
            if name not in columns:
                raise self.at(given["cast"], f"cast names {name!r}, which `columns` leaves out")
        return {"columns": columns, "cast": cast, "where": self.optional(given, "where", self.text)}

    def _csv_options(self, given: Mapping[str, Any], known: str | None) -> dict[str, Any]:
        """Return the CSV dialect. Each value is checked at its place, and then all of them together."""
        read: dict[str, Callable[[Any], Any]] = dict.fromkeys(_CSV_TEXTS, self.text)
        read |= {"names": self.texts, "null_values": self.words, "header": self.switch}
        found: dict[str, Any] = {}
        for name in [name for name in _CSV_ONLY if name in given]:
            if known not in (None, CSV):
                raise self.at(given[name], f"{name} is for CSV, the format is {known}")
            found[name] = read[name](given[name])
            with self.refusing(given[name]):
                CsvDialect(**({"header": False} if name == "names" else {}) | {name: found[name]})
        with self.refusing(given[next(iter(found), "path")]):
            CsvDialect(**found)
        return found


def sql_inputs(sql: Sql) -> tuple[Reference, ...]:
    """Return the sources and steps that a query reads. Names with a dot are tables of Spark."""
    return tuple(
        Reference(each.parts[0], sql.place_at(each.offset)) for each in table_names(sql.text) if len(each.parts) == 1
    )
