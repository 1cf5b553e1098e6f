"""Whatever is fed to a reader, it answers with a value or a typed error. Inputs are mutations of valid ones."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import LimitExceeded, OmnigraphError
from omnigraph.pipeline.job import parse_job
from omnigraph.query.compile import compile_query
from omnigraph.query.ir import MutationIR, QueryIR
from omnigraph.query.params import bind_params
from omnigraph.schema.catalog import Catalog, compile_schema
from omnigraph.versioning.changes import Cursor
from omnigraph.write.sources import Reading, inputs_of
from omnigraph.write.validation import Findings

SCHEMA = """
interface Named { name: String }
/* people */
node Person implements Named @description("a person") {
    name: String @key
    age: I32? @index
    big: U64?
    score: F64? = 1 @default(1.5)
    born: Date?  seen: DateTime?
    tags: [String]?  marks: [I64]?  mood: enum(good, bad)?
    photo: Blob?  face: Vector(3)?  flag: Bool?
    @range(age, 0..150)  @check(name, "^[A-Z]")
}
node Thing { label: String }
edge Knows: Person -> Person @card(0..3) { since: I32?  @unique(src, dst) }
""".replace(" = 1 ", " ")
QUERY = """
query friends($who: String, $least: I64, $near: [F64]?, $day: Date?, $at: DateTime?, $v: Vector(3)?) @description("x") {
    match {
        $p: Person { name: $who }
        $p knows{1,2} $f
        $f.age >= $least and not ($f.name contains "z\\n") or $f.tags is null
        not { $f knows $p  $f.born > date("2020-01-31") }
        optional { $f <knows> $g }
    }
    return distinct { $f.name as name, count(*) as n, sum($f.age * 2 - 1) as total }
    having { n > 1 } order { n desc, name } offset 2 limit 10
}
"""
MUTATION = "query add($n: String) { insert Person { name: $n, age: 5 } update Person set { age: 6 } where name = $n }"
JOB = """
graph: graph.omni
mode: merge
max_errors: 5
nodes:
  Person:
    - path: [people/*.parquet, "more.csv"]
      columns: {name: full_name, age: years}
      cast: {age: int}
edges:
  Knows: &k
    - {path: knows.csv, columns: {from: a, to: b}, where: "strength > 0.5"}
"""
PARAMS: dict[str, Any] = {
    "who": "ann", "least": 5, "near": [1.5, 2], "day": "2024-01-31", "at": "2024-01-31T12:00:00Z", "v": [1, 2, 3],
}  # fmt: skip
ROWS = [
    {"type": "Person", "data": {"name": "Ann", "age": 7, "big": 2**64 - 1, "score": 0.5, "born": "1990-01-31"}},
    {"type": "Person", "data": {"name": "Bob", "seen": "2024-01-31T12:00:00Z", "tags": ["a", "b"], "marks": [1, 2]}},
    {"type": "Person", "data": {"name": "Cid", "mood": "good", "photo": "base64:AAAA", "face": [1, 2, 3]}},
    {"type": "Thing", "data": {"label": "x", "id": "01J"}},
    {"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"since": 2000}},
]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)
CSV = 'name,age,tags,face,born,flag\nAnn,7,"[""a"", ""b""]","[1, 2, 3]",1990-01-31,true\n"B\nb",,,,,\n'
PIECES = [
    "[" * 3_000, "{" * 3_000, "(" * 3_000, "not " * 2_000, "-" * 2_000, "9" * 5_000, "1e999", "0x", "a" * 70_000,
    "/* " * 3_000, '"', "'", "\\", "\\u", "\0", "\ud800", "\udfff", "\ufeff", "\r", "\n", "\u2028", "\u00e9",
    "\U0001d518", "$", "@",
    "..", "->", "-9223372036854775809", "NaN", "Infinity", "null", "true", "{}", "[]", "}", "]", ")", "&a [*a]", "*x",
    "<<: ", "!!python/object:x ", "%", "node ", "edge ", "query ", "{1,99999999999999999999}", "a\tb", "limit ",
]  # fmt: skip
QUIET: Any = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@st.composite
def mutations(draw: st.DrawFn, text: str) -> str:
    """The text with some parts cut out, repeated, exchanged, or replaced by something hostile."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(PIECES) | st.text(max_size=4) | st.just(text[begin:end] * 2) | st.just(""))
        text = text[:begin] + piece + text[end:]
    return text


def catalog() -> Catalog:
    ids = count(1)
    return compile_schema(SCHEMA, lambda: f"{next(ids):026}")


CATALOG = catalog()


@contextmanager
def only_typed_errors() -> Iterator[None]:
    """An `OmnigraphError` may leave a reader, and its text can be printed; anything else fails the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except OmnigraphError as error:
        f"{error}{json.dumps(error.as_dict())}".encode()


def read_schema(text: str) -> None:
    ids = count(1)
    compile_schema(text, lambda: f"{next(ids):026}").contract_hash  # noqa: B018


def read_query(text: str) -> None:
    compile_query(text, CATALOG)


def load(data: Any) -> None:
    """Read an input to its end, as a load does before it looks at the graph."""
    found = Findings()
    for each in inputs_of(data):
        for batch in each.read(Reading(CATALOG, found)):
            batch.table.validate(full=True)
            batch.table.to_pylist()
    for violation in found:
        json.dumps(violation.as_dict())


def load_file(name: str, body: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(body)
        load({"Person": path} if path.suffix in (".csv", ".parquet", ".arrow") else path)


def encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


TEXT_READERS: dict[str, tuple[list[str], Callable[[str], None]]] = {
    "schema": ([SCHEMA], read_schema),
    "query": ([QUERY, MUTATION], read_query),
    "job": ([JOB], lambda text: void(parse_job(text, Path("job.yaml")))),
    "lines": ([LINES, LINES * 40], lambda text: load_file("rows.jsonl", encoded(text))),
    "csv": ([CSV], lambda text: load_file("Person.csv", encoded(text))),
    "cursor": ([json.dumps([2, "graph", "main", None, "01J", [[], ["Person"], []]])], lambda text: read_cursor(text)),
}


def void(_: object) -> None:
    """Take a value and do nothing with it."""


def read_cursor(text: str) -> None:
    Cursor.parse(base64.urlsafe_b64encode(encoded(text)).decode())


def check_text(name: str, data: st.DataObject) -> None:
    originals, read = TEXT_READERS[name]
    text = data.draw(mutations(data.draw(st.sampled_from(originals))))
    with only_typed_errors():
        read(text)


@pytest.mark.parametrize("name", TEXT_READERS)
def test_originals_are_valid(name: str) -> None:
    originals, read = TEXT_READERS[name]
    for text in originals:
        read(text)


@pytest.mark.parametrize("name", TEXT_READERS)
@given(st.data())
@settings(max_examples=60, **QUIET)
def test_mutated_texts(name: str, data: st.DataObject) -> None:
    check_text(name, data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TEXT_READERS)
@given(st.data())
@settings(max_examples=5_000, **QUIET)
def test_mutated_texts_at_length(name: str, data: st.DataObject) -> None:
    check_text(name, data)


@pytest.mark.parametrize("name", TEXT_READERS)
@pytest.mark.parametrize("piece", PIECES, ids=lambda p: repr(p[:8]))
def test_each_piece_everywhere(name: str, piece: str) -> None:
    """Long pieces at the beginning, in the middle and at the end; the limit of time is the suite's own."""
    originals, read = TEXT_READERS[name]
    for at in (0, len(originals[0]) // 2, len(originals[0])):
        with only_typed_errors():
            read(originals[0][:at] + piece + originals[0][at:])


# --- values -----------------------------------------------------------------------------------------------------


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ODD = st.sampled_from([
    None, True, -1, 2**63, 10**400, -(10**400), 1.5, float("nan"), float("inf"), "", "x", "\0", "\ud800",
    "9" * 5000, "0001-01-01", "9999-12-31T23:59:59-23:00", "base64:*", "s3://b/k", b"x", b"\xff", [], [None], [1, "x"],
    nested(50), {}, {"a": 1}, {1: 2}, object(), {"x"},
])  # fmt: skip
JSON_VALUES = st.recursive(ODD | st.text(max_size=5) | st.integers() | st.floats(), lambda v: st.lists(v, max_size=3))


@given(st.dictionaries(st.sampled_from([*PARAMS, "x", 5, "\ud800"]), JSON_VALUES), st.booleans())
@settings(max_examples=300, **QUIET)
def test_params(changed: dict[Any, Any], complete: bool) -> None:
    query = compile_query(QUERY, CATALOG)
    assert isinstance(query, QueryIR | MutationIR)
    with only_typed_errors():
        bind_params(query, {**PARAMS, **changed} if complete else changed)


FIELDS = [*(p.name for p in CATALOG.node("Person").properties), "id", "from", "x", 5, "\ud800"]


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES) | JSON_VALUES, max_size=3))
@settings(max_examples=300, **QUIET)
def test_python_rows(rows: list[Any]) -> None:
    with only_typed_errors():
        load({"Person": rows})
    with only_typed_errors():
        load([{"type": "Person", "data": row} for row in rows])
    with only_typed_errors():
        load(rows)


def test_values_that_python_itself_does_not_print() -> None:
    query = compile_query(QUERY, CATALOG)
    assert isinstance(query, QueryIR | MutationIR)
    for value in (10**5000, [10**5000], {"x": 10**5000}, -(10**5000), nested(100_000)):
        for name in PARAMS:
            with only_typed_errors():
                bind_params(query, {**PARAMS, name: value})
        for field in FIELDS:
            with only_typed_errors():
                load({"Person": [{"name": "Ann", field: value}]})


# --- frames -----------------------------------------------------------------------------------------------------


class Tagged(pa.ExtensionType):  # type: ignore[misc]
    """Some other library's type."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Tagged:
        return cls(storage)


def columns() -> list[pa.Array]:
    """Two values of every type that Arrow has."""
    names = pa.array(["Ann", "Bob"])
    texts = [names.cast(kind) for kind in (pa.large_string(), pa.string_view())]
    blobs = [pa.array([b"a", None], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))]
    numbers = [pa.array([1, None], getattr(pa, f"{sign}int{bits}")()) for sign in ("", "u") for bits in (8, 16, 32, 64)]
    floats = [pa.array([1.5, float("nan")], kind) for kind in (pa.float16(), pa.float32(), pa.float64())]
    whole = pa.array([0, 2**62], pa.int64())
    moments = [whole.cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    moments += [whole.cast(pa.timestamp("s", tz="Europe/Rome")), whole.cast(pa.duration("s")), whole.cast(pa.date64())]
    moments += [pa.array([1, 2**31 - 1], pa.int32()).cast(kind) for kind in (pa.date32(), pa.time32("s"))]
    lists = [
        pa.array([["a"], None], pa.list_(pa.string())), pa.array([["a", None], []], pa.large_list(pa.string_view())),
        pa.array([[1.0, 2.0, 3.0], None], pa.list_(pa.float32(), 3)),
        pa.array([[1.0], [2.0]], pa.list_view(pa.float64())),
        pa.array([[[1]], [[2]]]), pa.array([["a"], ["b"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.array([[1.0, 2.0, None]] * 2, pa.list_(pa.float16(), 3)),
    ]  # fmt: skip
    others = [
        pa.array([None, None]), pa.array([True, None]), pa.array([{"a": 1}, None]),
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), pa.array([1, None], pa.decimal128(5, 0)),
        pa.array([None, 10**40], pa.decimal256(50, 0)), pa.array([1, None], pa.decimal128(5, 2)),
        pa.RunEndEncodedArray.from_arrays([2], pa.array(["Ann"])),
        pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
        pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [names, whole]),
    ]  # fmt: skip
    plain = [names, *texts, *blobs, *numbers, *floats, *moments, *lists, *others]
    wrapped = [pa.ExtensionArray.from_storage(Tagged(each.type), each) for each in (names, whole, lists[0], floats[2])]
    wrapped += [each.dictionary_encode() for each in (names, texts[0], whole, floats[1], blobs[0])]
    wrapped.append(pa.ExtensionArray.from_storage(Tagged(wrapped[4].type), wrapped[4]))
    return [*plain, *wrapped]


COLUMNS = columns()
INVALID = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0])), pa.py_buffer(b"\xff\xfeab")]
)


@pytest.mark.parametrize("column", [*COLUMNS, INVALID], ids=lambda c: str(c.type)[:40])
def test_every_arrow_type_in_every_column(column: pa.Array) -> None:
    for name in ("id", *(p.name for p in CATALOG.node("Person").properties)):
        given_names = {} if name == "name" else {"name": pa.array(["Ann", "Bob"])}
        with only_typed_errors():
            load({"Person": pa.table({**given_names, name: column})})
    for name in ("from", "to", "id", "since"):
        ends = {each: pa.array(["Ann", "Bob"]) for each in ("from", "to") if each != name}
        with only_typed_errors():
            load({"Knows": pa.table({**ends, name: column})})


def test_wrapped_columns_are_read_as_what_they_stand_for() -> None:
    names = pa.array(["Ann", "Bob"])
    forms = [
        names, names.cast(pa.string_view()), names.cast(pa.large_string()), names.dictionary_encode(),
        pa.ExtensionArray.from_storage(Tagged(pa.string()), names),
        pa.RunEndEncodedArray.from_arrays([1, 2], names), pa.chunked_array([names[:1], names[1:]]),
    ]  # fmt: skip
    for form in forms:
        [chunk] = inputs_of({"Person": pa.table({"name": form})})
        [batch] = chunk.read(Reading(CATALOG, Findings()))
        assert batch.table["name"].to_pylist() == ["Ann", "Bob"]


def duplicates() -> pa.Table:
    return pa.Table.from_arrays([pa.array(["Ann"]), pa.array(["Bob"])], ["name", "name"])


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(duplicates(), tmp_path / "Person.parquet")
    (tmp_path / "Person.csv").write_text("name,name\nAnn,Bob\n")
    with pa.OSFile(str(tmp_path / "Person.arrow"), "wb") as sink, pa.ipc.new_file(sink, duplicates().schema) as writer:
        writer.write_table(duplicates())
    for data in (duplicates(), tmp_path / "Person.parquet", tmp_path / "Person.csv", tmp_path / "Person.arrow"):
        with pytest.raises(OmnigraphError, match="'name' appears twice"):
            load({"Person": data})


def binary_files() -> dict[str, bytes]:
    table = pa.table({"name": ["Ann", "Bob"] * 20, "age": list(range(40)), "tags": [["a"], None] * 20})
    parquet, arrow, text = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    pcsv.write_csv(table.drop(["tags"]), text)
    return {
        "Person.parquet": parquet.getvalue(), "Person.arrow": arrow.getvalue(), "Person.csv": text.getvalue(),
        "rows.jsonl.gz": gzip.compress(LINES.encode() * 50), "rows.jsonl": LINES.encode(),
    }  # fmt: skip


BINARY_FILES = binary_files()


def check_bytes(name: str, data: st.DataObject) -> None:
    body = bytearray(BINARY_FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with only_typed_errors():
        load_file(name, bytes(body))


@pytest.mark.parametrize("name", BINARY_FILES)
@given(st.data())
@settings(max_examples=60, **QUIET)
def test_damaged_files(name: str, data: st.DataObject) -> None:
    load_file(name, BINARY_FILES[name])
    check_bytes(name, data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BINARY_FILES)
@given(st.data())
@settings(max_examples=5_000, **QUIET)
def test_damaged_files_at_length(name: str, data: st.DataObject) -> None:
    check_bytes(name, data)


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda b: base64.urlsafe_b64encode(b).decode()) | ODD)
@settings(max_examples=200, **QUIET)
def test_cursors(text: Any) -> None:
    with only_typed_errors():
        Cursor.parse(text)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"type": "Thing", "data": {"label": "a"}}\n')
        for _ in range(80):
            file.write(b" " * (1 << 20))
    assert path.stat().st_size < 1 << 20
    before = pa.total_allocated_bytes()
    with pytest.raises(LimitExceeded, match=r"rows.jsonl.gz:2: the line is longer than 64 MiB"):
        load(path)
    with pytest.raises(LimitExceeded, match=r":2: "):
        load({"Thing": path})
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_long_lines_below_the_limit_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    label = "x" * (20 << 20)  # several blocks
    path.write_text(
        "".join(json.dumps({"type": "Thing", "data": {"label": label}}) + end for end in ("\n", "\n\n", ""))
    )
    [one] = inputs_of(path)
    batches = list(one.read(Reading(CATALOG, Findings())))
    assert [len(text) for batch in batches for text in batch.table["label"].to_pylist()] == [20 << 20] * 3
