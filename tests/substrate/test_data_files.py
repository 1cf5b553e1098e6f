"""A data file that is written directly is one that Lance would have written, and is described as Lance would."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.storage.data_files import DataFiles
from omnigraph.storage.layout import GraphRoot
from omnigraph.versioning.manifest import MANIFEST_SCHEMA

MOMENT = dt.datetime(2024, 3, 1, 12, 30, tzinfo=dt.UTC)
VALUES: dict[Scalar, list[Any]] = {
    Scalar.STRING: ["", "naïve 🌍", "x" * 300],
    Scalar.BLOB: [b"", b"\x00\xff", b"y" * 70_000],
    Scalar.BOOL: [True, False, True],
    Scalar.I32: [-(2**31), 2**31 - 1, 0],
    Scalar.I64: [-(2**63), 2**63 - 1, 0],
    Scalar.U32: [0, 2**32 - 1, 1],
    Scalar.U64: [0, 2**64 - 1, 1],
    Scalar.F32: [0.5, -0.0, float("inf")],
    Scalar.F64: [0.1, -1e300, float("-inf")],
    Scalar.DATETIME: [MOMENT, MOMENT.replace(year=1969), MOMENT.replace(year=9999)],
    Scalar.DATE: [MOMENT.date(), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
}


def columns_of(scalar: Scalar) -> dict[str, pa.Array]:
    """A type as a value, with nulls, and as a list with null, empty and full ones."""
    values = VALUES[scalar]
    single, several = PropertyType(scalar).to_arrow(), PropertyType(scalar, is_list=True).to_arrow()
    return {
        f"{scalar}": pa.array(values, single),
        f"{scalar}_null": pa.array([None, *values[1:]], single),
        f"{scalar}_list": pa.array([values, [], None], several),
    }


def everything() -> pa.Table:
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0]], PropertyType(Scalar.F32, dimension=2).to_arrow())
    columns = {name: column for scalar in Scalar for name, column in columns_of(scalar).items()}
    ids = pa.array(["a", "b", "c"])
    schema = pa.schema(
        [pa.field("id", pa.string(), nullable=False), *(pa.field(n, c.type) for n, c in columns.items()),
         pa.field("v", vectors.type)]
    )  # fmt: skip
    return pa.table({"id": ids, **columns, "v": vectors}, schema=schema)


def described(fragment: FragmentMetadata) -> Any:
    [file] = fragment.files
    layout = (file.fields, file.column_indices, file.file_major_version, file.file_minor_version, file.file_size_bytes)
    return (fragment.id, fragment.physical_rows, fragment.deletion_file, fragment.row_id_meta, layout, file.base_id)


def assert_alike(root: Path, base: LanceDataset, rows: pa.Table) -> None:
    usual = write_fragments(rows, base)
    direct = DataFiles(GraphRoot.parse(str(root)), None).write(base, "t", rows)
    assert [described(direct)] == [described(fragment) for fragment in usual]
    read = []
    for fragments in (usual, [direct]):
        operation = LanceOperation.Append(fragments)
        dataset = LanceDataset.commit(base, operation, read_version=base.version, detached=True)
        newest = dataset.get_fragments()[-1]
        assert dataset.to_table(filter="id = 'b'").num_rows == base.count_rows(filter="id = 'b'") + 1
        assert newest.take([0, 2]).equals(newest.to_table().take([0, 2]))
        read.append(newest.to_table())
    assert read[0].equals(read[1])
    assert read[1].equals(rows.cast(read[1].schema))


@pytest.fixture
def base(tmp_path: Path) -> LanceDataset:
    return lance.write_dataset(everything(), tmp_path / "t", enable_stable_row_ids=True)


def test_every_type_of_a_property(tmp_path: Path, base: LanceDataset) -> None:
    assert_alike(tmp_path, base, everything())
    assert_alike(tmp_path, base, everything().slice(1, 2).take([1, 0, 1]))


def test_columns_that_came_and_went(tmp_path: Path, base: LanceDataset) -> None:
    """A dropped column takes its field id with it: the ids of those that follow have gaps, and their order changes."""
    base.drop_columns(["I32", "String_list"])
    base.add_columns(pa.schema([pa.field("later", pa.int32())]))
    base.drop_columns(["Bool"])
    base.add_columns(pa.schema([pa.field("tags", pa.list_(pa.string()))]))
    rows = everything().drop_columns(["I32", "String_list", "Bool"])
    rows = rows.append_column("later", pa.array([1, None, 3], pa.int32()))
    rows = rows.append_column("tags", pa.array([["x"], None, []], pa.list_(pa.string())))
    assert_alike(tmp_path, base, rows.select(base.schema.names))


def test_the_rows_of_a_manifest(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(
        [{"object_id": f"o{i}", "object_type": "graph_commit", "metadata": "{}" * i} for i in range(200)],
        schema=MANIFEST_SCHEMA,
    )
    base = lance.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    usual = write_fragments(rows, base, mode="overwrite")
    direct = DataFiles(GraphRoot.parse(str(tmp_path)), None).write(base, "t", rows)
    assert [described(direct)] == [described(fragment) for fragment in usual]
    operation = LanceOperation.Overwrite(rows.schema, [direct])
    dataset = LanceDataset.commit(base, operation, read_version=base.version, max_retries=0)
    assert dataset.to_table().equals(rows)
