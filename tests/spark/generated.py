"""Generated loads: a schema with rules, rows that break some of them, and files of every format that hold the rows.

Everything follows from a seed. Values come from small domains, so that keys, unique values and ends of edges clash.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.datatypes import Scalar
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, Property

MISSING = object()
"""A field that a row does not have at all."""
FORMATS = ("parquet", "csv", "jsonl", "frame")
_ARROW = {
    Scalar.STRING: pa.string(), Scalar.BOOL: pa.bool_(), Scalar.I32: pa.int32(), Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(), Scalar.U64: pa.uint64(), Scalar.F32: pa.float32(), Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(), Scalar.DATETIME: pa.timestamp("ms", "UTC"), Scalar.BLOB: pa.binary(),
}  # fmt: skip
_PROPERTIES = (
    "age: I32?", "age: I32", "age: I64 @default(7)", "score: F64?", "weight: F32?", "big: U64?", "old: Bool?",
    "state: enum(open, done, in-review)?", "state: enum(open, done, in-review) @default(open)", "born: Date?",
    "seen: DateTime?", "tags: [String]?", "place: Vector(2)?", "scan: Blob?", "email: String? @unique",
    "code: I32? @unique", "title: String", 'title: String @default("none")', "counts: [I64]?",
)  # fmt: skip
_NODE_KEYS = ("name: String @key", "name: I64 @key", "name: String  part: I32  @key(name, part)", "name: String")


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one type, or one table of it. `path` None: the table becomes a DataFrame."""

    type_name: str
    is_edge: bool
    paths: tuple[str, ...] = ()
    table: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class LoadCase:
    """One load to be made twice. `envelopes` are files of rows that name their own types."""

    mode: str
    max_errors: int | None
    branch: str
    sources: tuple[Source, ...] = ()
    envelopes: tuple[str, ...] = ()

    def describe(self) -> str:
        """What is loaded, for a failed test."""
        given = [f"{s.type_name}: {s.paths or s.table}" for s in self.sources]
        files = [path for s in self.sources for path in s.paths] + list(self.envelopes)
        texts = [f"--- {p}\n{shown(p)}" for p in files]
        return "\n".join([f"{self.mode} max_errors={self.max_errors} {self.branch}", *given, *self.envelopes, *texts])


def shown(path: str) -> str:
    """A file as text."""
    return str(pq.read_table(path).to_pylist()) if path.endswith(".parquet") else Path(path).read_text()


@dataclass
class Generator:
    """Schemas, rows and files of one seed."""

    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    # --- schemas --------------------------------------------------------------------------------------------------

    def schema(self) -> str:
        """Two node types and two or three edge types with rules."""
        lines = [self._node("Person"), self._node("City")]
        lines += [self._edge("Knows", "Person", "Person"), self._edge("LivesIn", "Person", "City")]
        if self._chance(0.3):
            lines.append(self._edge("Near", "City", "City"))
        return "\n".join(lines)

    def _members(self, most: int) -> dict[str, str]:
        chosen = self.rng.sample(_PROPERTIES, self.rng.randrange(most + 1))
        return {text.partition(":")[0]: text for text in chosen}

    def _node(self, name: str) -> str:
        members = self._members(5)
        lines = [self.rng.choice(_NODE_KEYS if name == "Person" else _NODE_KEYS[:1]), *members.values()]
        if "age" in members and self._chance(0.7):
            lines.append("@range(age, 0..50)")
        if "score" in members and self._chance(0.7):
            lines.append("@range(score, ..0.5)")
        if "title" in members and self._chance(0.7):
            lines.append('@check(title, "^[a-z]+$")')
        if "age" in members and "state" in members and self._chance(0.5):
            lines.append("@unique(age, state)")
        return f"node {name} {{ {'  '.join(lines)} }}"

    def _edge(self, name: str, source: str, target: str) -> str:
        members = self._members(3)
        lines = list(members.values())
        key = self.rng.choice(["", "", "@key(src, dst)", "@key(src, dst, year)", "@unique(src, dst)", "@unique(dst)"])
        if "year" in key:
            lines.append("year: I32")
        card = self.rng.choice(["", "", "", " @card(0..1)", " @card(0..2)", " @card(1..)", " @card(1..2)"])
        return f"edge {name}: {source} -> {target}{card} {{ {'  '.join([*lines, key])} }}"

    # --- rows -----------------------------------------------------------------------------------------------------

    def rows(self, entity: EntityType, count: int, wrong: float) -> list[dict[str, Any]]:
        """Rows of a type; `wrong` is how often a value does not fit. `MISSING` fields are left out."""
        named = not entity.key and self._chance(0.5)
        return [self._row(entity, named, wrong) for _ in range(count)]

    def _row(self, entity: EntityType, named: bool, wrong: float) -> dict[str, Any]:
        row: dict[str, Any] = {}
        if isinstance(entity, EdgeType):
            row["from"] = self._end(entity.source, wrong)
            row["to"] = self._end(entity.target, wrong)
        for prop in entity.properties:
            row[prop.name] = self._value(prop, prop.name in entity.key, wrong)
        if named:
            row["id"] = f"x{self.rng.randrange(12)}"
        return row

    def _end(self, type_name: str, wrong: float) -> Any:
        if self._chance(wrong):
            return self.rng.choice(["nobody", None, ""])
        if type_name == "City":
            return f"n{self.rng.randrange(8)}"
        return self.rng.choice(self.person_ids)

    @property
    def person_ids(self) -> list[str]:
        """Ids that people may have, whatever their key is."""
        number = self.rng.randrange(10)
        return [f"n{number}", f"n{number}", str(number), json.dumps([f"n{number}", "1"], separators=(",", ":"))]

    def _value(self, prop: Property, is_key: bool, wrong: float) -> Any:
        if self._chance(wrong):
            return self._wrong(prop)
        kind = prop.type
        if kind.nullable and self._chance(0.3):
            return self.rng.choice([None, MISSING])
        if prop.default is not None and self._chance(0.3):
            return self.rng.choice([None, MISSING])
        if kind.is_vector:
            return [float(self.rng.randrange(4)), 0.5]
        if kind.is_list:
            return [self._scalar(prop, kind.scalar, False) for _ in range(self.rng.randrange(3))]
        if kind.values is not None:
            return self.rng.choice(kind.values)
        return self._scalar(prop, kind.scalar, is_key)

    def _scalar(self, prop: Property, scalar: Scalar, is_key: bool) -> Any:
        number = self.rng.randrange(2) if is_key and prop.name == "part" else self.rng.randrange(30)
        match scalar:
            case Scalar.STRING if is_key or prop.name == "name":
                return f"n{number % 14}"
            case Scalar.STRING:
                return self.rng.choice(["", "a", "b", "é", "two words", 'quo"te', "co,mma", f"v{number}", "line\nend"])
            case Scalar.BOOL:
                return number % 2 == 0
            case Scalar.F32 | Scalar.F64:
                return number / 8 - 1
            case Scalar.DATE:
                return dt.date(2024, 1, 1) + dt.timedelta(days=number)
            case Scalar.DATETIME:
                return dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(milliseconds=number * 1001)
            case Scalar.BLOB:
                return bytes(range(number % 3))
            case Scalar.U64:
                return 2**64 - 1 - number
            case _:
                return number

    def _wrong(self, prop: Property) -> Any:
        kind = prop.type
        options: list[Any] = [None, MISSING]
        if kind.values is not None:
            options += ["closed", ""]
        elif kind.is_vector:
            options += [[1.0], [1.0, 2.0, 3.0], [1.0, None]]
        elif kind.is_list:
            options += [[None]]
        elif kind.scalar in (Scalar.I32, Scalar.I64):
            options += [2**40, 60, -1]
        elif kind.scalar in (Scalar.F32, Scalar.F64):
            options += [float("inf"), float("nan"), 1e300, 2.0]
        elif kind.scalar is Scalar.STRING:
            options += ["UPPER", ""]
        return self.rng.choice(options)

    # --- loads ----------------------------------------------------------------------------------------------------

    def case(self, catalog: Catalog, folder: Path) -> LoadCase:
        """A load of some types of the graph."""
        folder.mkdir()
        wrong = self.rng.choice([0.0, 0.0, 0.02, 0.1])
        mode = self.rng.choice(["append", "merge", "merge", "overwrite"])
        max_errors = self.rng.choice([None, None, 3, 1000, 1000])
        branch = self.rng.choice(["main", "main", "side"])
        entities = self._chosen(catalog)
        if self._chance(0.2):
            return LoadCase(mode, max_errors, branch, envelopes=self._envelopes(entities, folder, wrong))
        sources = tuple(self._source(entity, folder, wrong) for entity in entities)
        return LoadCase(mode, max_errors, branch, sources)

    def _chosen(self, catalog: Catalog) -> list[EntityType]:
        every = [*catalog.nodes.values(), *catalog.edges.values()]
        count = self.rng.randrange(1, len(every) + 1)
        chosen = self.rng.sample(every, count)
        return [entity for entity in every if entity in chosen]

    def _source(self, entity: EntityType, folder: Path, wrong: float) -> Source:
        is_edge = isinstance(entity, EdgeType)
        if self._chance(0.25):
            table = arrow_table(entity, self._some(entity, wrong), signed=True)
            return Source(entity.name, is_edge, table=self._disturbed(table, wrong))
        paths = []
        for number in range(self.rng.choice([1, 1, 2, 3])):
            stem = str(folder / f"{entity.name}-{number}")
            paths.append(self._file(entity, self._some(entity, wrong), stem, wrong))
        return Source(entity.name, is_edge, tuple(paths))

    def _some(self, entity: EntityType, wrong: float) -> list[dict[str, Any]]:
        rows = self.rows(entity, self.rng.choice([0, 1, 3, 6, 10]), wrong)
        if self._chance(0.5):  # else most loads would stop at a key that appears twice
            seen: set[str] = set()
            rows = [row for row in rows if (key := _identity(entity, row)) not in seen and not seen.add(key)]
        return rows

    def _file(self, entity: EntityType, rows: list[dict[str, Any]], stem: str, wrong: float) -> str:
        kind = self.rng.choice(["parquet", "csv", "jsonl"])
        path = f"{stem}.{kind}"
        if kind == "parquet":
            table = self._disturbed(arrow_table(entity, rows), wrong)
            pq.write_table(table, path, row_group_size=self.rng.choice([1, 2, 100]))
        elif kind == "csv":
            Path(path).write_text(csv_text(columns_of(entity, rows), rows), encoding="utf-8")
        else:
            Path(path).write_text(self._lines([plain(row) for row in rows], wrong), encoding="utf-8")
        return path

    def _envelopes(self, entities: Sequence[EntityType], folder: Path, wrong: float) -> tuple[str, ...]:
        rows: list[dict[str, Any]] = []
        for entity in entities:
            for row in map(plain, self._some(entity, wrong)):
                if isinstance(entity, EdgeType):
                    ends = {end: row.pop(end) for end in ("from", "to") if end in row}
                    rows.append({"edge": entity.name, **ends, "data": row})
                else:
                    rows.append({"type": entity.name, "data": row})
        if self._chance(0.3):
            self.rng.shuffle(rows)
        if self._chance(wrong):
            rows.append({"type": "Nobody", "data": {}})
        paths = []
        half = len(rows) // 2
        for number, part in enumerate([rows[:half], rows[half:]]):
            path = folder / f"graph-{number}.jsonl"
            path.write_text(self._lines(part, wrong), encoding="utf-8")
            paths.append(str(path))
        return tuple(paths)

    def _lines(self, rows: list[dict[str, Any]], wrong: float) -> str:
        lines = [json.dumps(row, ensure_ascii=self._chance(0.5)) for row in rows]
        if self._chance(wrong):
            lines.insert(self.rng.randrange(len(lines) + 1), self.rng.choice(['{"a":', "[1]", '{"what": 1}', ""]))
        return "\n".join(lines) + ("\n" if self._chance(0.8) else "")

    def _disturbed(self, table: pa.Table, wrong: float) -> pa.Table:
        """A table whose shape is wrong: a column too many, too few, or of another type."""
        if not self._chance(wrong) or not table.num_columns:
            return table
        name = self.rng.choice(table.column_names)
        at = table.column_names.index(name)
        match self.rng.randrange(3):
            case 0:
                return table.append_column("surplus", pa.nulls(table.num_rows, pa.int32()))
            case 1:
                return table.drop([name])
            case _:
                return table.set_column(at, name, pa.array([True] * table.num_rows, pa.bool_()))

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share


def _identity(entity: EntityType, row: dict[str, Any]) -> str:
    names = ["from" if n == "src" else "to" if n == "dst" else n for n in entity.key] or ["id"]
    return str([row.get(name, id(row)) for name in names])


def columns_of(entity: EntityType, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Fields that some row has; all of them for no rows at all."""
    ends = ["from", "to"] if isinstance(entity, EdgeType) else []
    names = [*ends, *(p.name for p in entity.properties), *(["id"] if any("id" in row for row in rows) else [])]
    return [n for n in names if not rows or n in ends or any(row.get(n, MISSING) is not MISSING for row in rows)]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON values."""
    return {name: _json(value) for name, value in row.items() if value is not MISSING}


def _json(value: Any) -> Any:
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    return "base64:" + base64.b64encode(value).decode() if isinstance(value, bytes) else value


def arrow_table(entity: EntityType, rows: Sequence[dict[str, Any]], *, signed: bool = False) -> pa.Table:
    """Rows as a table. `signed`: without the unsigned types that Spark does not have."""
    kinds = {p.name: _column_type(p, signed) for p in entity.properties}
    arrays = {}
    for name in columns_of(entity, rows):
        values = [row.get(name, MISSING) for row in rows]
        values = [None if value is MISSING else value for value in values]
        kind = kinds.get(name, pa.string())
        if kind == pa.int32() and any(v is not None and abs(v) >= 2**31 for v in values):
            kind = pa.int64()
        if kind == pa.float32() and any(v == 1e300 for v in values):
            kind = pa.float64()
        arrays[name] = pa.array(values, kind)
    return pa.table(arrays)


def _column_type(prop: Property, signed: bool) -> pa.DataType:
    kind = _ARROW[prop.type.scalar]
    if signed and kind == pa.uint64():
        kind = pa.decimal128(20, 0)
    return pa.list_(pa.float32() if prop.type.is_vector else kind) if prop.type.is_list or prop.type.is_vector else kind


def csv_text(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV, in which an empty field is null and a quoted empty one is text."""
    lines = [",".join(columns)]
    lines += [",".join(_field(row.get(name, MISSING)) for name in columns) for row in rows]
    return "\n".join(lines) + "\n"


def _field(value: Any) -> str:
    if value is None or value is MISSING:
        return ""
    if isinstance(value, list):
        value = json.dumps(value)
    text = str(value).lower() if isinstance(value, bool) else str(_json(value))
    return '"' + text.replace('"', '""') + '"' if text == "" or any(c in text for c in '",\n') else text
