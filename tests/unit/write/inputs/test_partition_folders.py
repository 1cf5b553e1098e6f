"""Columns in the names of folders, read by a load in one process."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import DataError, InvalidValue, UnknownField
from omnigraph.write.inputs.partition_folders import folders_of

SCHEMA = """
node Person { name: String @key  land: String?  born: Date?  rank: I64?  sure: Bool? }
edge Knows: Person -> Person
"""


@pytest.mark.parametrize(
    ("path", "folders"),
    [
        ("/d/a=1/b=x/f.csv", (("a", "1"), ("b", "x"))),
        ("/d/a=1/plain/b=x/f.csv", (("b", "x"),)),
        ("/d/a=1/plain/f.csv", ()),
        ("s3://bucket/a=x%2Fy%3D%25 z/f", (("a", "x/y=% z"),)),
        ("/d/a=é/b=%C3%A9/f", (("a", "é"), ("b", "é"))),
        ("/d/a=__HIVE_DEFAULT_PARTITION__/f", (("a", None),)),
        ("/d/a=x=y/f", (("a", "x=y"),)),
        ("/d/a=/f", (("a", ""),)),
        ("/d/=a/f", ()),
        ("a=1", ()),
    ],
)
def test_folders_above_a_file(path: str, folders: object) -> None:
    assert folders_of(path) == folders


@pytest.mark.parametrize(("path", "words"), [("/a=%FF/f", "not UTF-8"), ("/a=1/a=2/f", "two folders")])
def test_folders_that_say_nothing_clear_are_refused(path: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        folders_of(path)


def rows_of(graph: Graph) -> list[dict]:
    return sorted(graph.rows("node:Person").drop(["id"]).to_pylist(), key=lambda row: row["name"])


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "orc", "arrow"])
def test_values_have_the_type_of_their_property_in_every_format(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "land=a%2Fb/born=2020-02-29/rank=-7/sure=true"
    other = tmp_path / "land=__HIVE_DEFAULT_PARTITION__/born=1999-12-31/rank=9223372036854775807/sure=false"
    for number, each in enumerate((folder, other)):
        each.mkdir(parents=True)
        write(each / f"part.{kind}", kind, pa.table({"name": [f"p{number}"]}))
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Person": [str(each / f"part.{kind}") for each in (folder, other)]})
    assert rows_of(graph) == [
        {"name": "p0", "land": "a/b", "born": dt.date(2020, 2, 29), "rank": -7, "sure": True},
        {"name": "p1", "land": None, "born": dt.date(1999, 12, 31), "rank": 2**63 - 1, "sure": False},
    ]


def write(path: Path, kind: str, table: pa.Table) -> None:
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        {
            "parquet": pq.write_table, "csv": pacsv.write_csv, "orc": orc.write_table, "arrow": feather.write_feather
        }[kind](table, str(path))  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_folder_wins_over_a_column_of_the_file(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "land=NO"
    folder.mkdir()
    write(folder / f"p.{kind}", kind, pa.table({"name": ["a"], "land": ["SE"]}))
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Person": str(folder / f"p.{kind}")})
    assert rows_of(graph)[0]["land"] == "NO"


def test_a_value_that_its_property_cannot_have_and_a_folder_that_is_no_property(tmp_path: Path) -> None:
    (tmp_path / "rank=first").mkdir()
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "rank=first" / "p.parquet")
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "day=1" / "p.parquet")
    graph = Graph.init(tmp_path / "g", SCHEMA)
    with pytest.raises(InvalidValue, match=r"p\.parquet:1: Person\.rank .*'first'"):
        graph.load({"Person": str(tmp_path / "rank=first" / "p.parquet")})
    with pytest.raises(UnknownField, match="day"):
        graph.load({"Person": str(tmp_path / "day=1" / "p.parquet")})
