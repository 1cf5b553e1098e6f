"""What `progress` is called with: phases in one measure each, complete exactly when the phase has ended."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, Progress
from omnigraph.api.progress import PhaseProgress
from omnigraph.errors import KeyConflict
from omnigraph.versioning.store import Settings

SCHEMA = """node Person { name: String @key  note: String? }
edge Knows: Person -> Person
"""
ROWS = 3_000


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    Graph.init(tmp_path / "g", SCHEMA)
    return Graph.open(tmp_path / "g", settings=Settings(load_block_bytes=10_000, load_spill_bytes=50_000))


def people(rows: int = ROWS, prefix: str = "p") -> pa.Table:
    chance = random.Random(prefix)
    notes = [str(chance.getrandbits(160)) for _ in range(rows)]
    return pa.table({"name": [f"{prefix}{i}" for i in range(rows)], "note": notes})


def phases(seen: Sequence[Progress]) -> dict[str, list[Progress]]:
    """The reports by phase; each has one measure, only rises, and is complete at its end and not before."""
    found = {name: list(some) for name, some in itertools.groupby(seen, lambda each: each.phase)}
    assert sum(map(len, found.values())) == len(seen), "a phase came twice"
    for some in found.values():
        assert len({each.unit for each in some}) == 1
        assert [each.done for each in some] == sorted(each.done for each in some)
        assert [each.rows for each in some] == sorted(each.rows for each in some)
        assert [each.is_over for each in some] == [False] * (len(some) - 1) + [True]
        assert some[-1].share == 1.0
        assert len({each.total for each in some} - {None}) == 1
    return found


def csv(path: Path) -> None:
    pacsv.write_csv(people(), path)


def csv_gz(path: Path) -> None:
    with pa.output_stream(path, compression="gzip") as out:
        pacsv.write_csv(people(), out)


def jsonl(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in people().to_pylist()))


def jsonl_gz(path: Path) -> None:
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in people().to_pylist()).encode()))


def json_array(path: Path) -> None:
    path.write_text(json.dumps(people().to_pylist()))


def parquet(path: Path) -> None:
    pq.write_table(people(), path, row_group_size=500)


def arrow_file(path: Path) -> None:
    feather.write_feather(people(), path, chunksize=500, compression="uncompressed")


def arrow_stream(path: Path) -> None:
    with ipc.new_stream(str(path), people().schema) as writer:
        writer.write_table(people(), max_chunksize=500)


def orc_file(path: Path) -> None:
    orc.write_table(people(), path, stripe_size=65_536)


@pytest.mark.parametrize(
    ("name", "write"),
    [("p.csv", csv), ("p.csv.gz", csv_gz), ("p.jsonl", jsonl), ("p.jsonl.gz", jsonl_gz), ("p.json", json_array),
     ("p.parquet", parquet), ("p.feather", arrow_file), ("p.arrow", arrow_stream), ("p.orc", orc_file)],
)  # fmt: skip
def test_files_are_measured_in_their_own_bytes(
    graph: Graph, tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    seen: list[Progress] = []
    graph.load({"Person": [tmp_path / name, people(10, "q")][:1]}, progress=seen.append)
    found = phases(seen)
    assert list(found) == ["read", "check", "write", "publish"]
    read = found["read"][-1]
    size = (tmp_path / name).stat().st_size
    assert read == Progress("read", size, size, "bytes", ROWS)
    assert (found["write"][-1].unit, found["write"][-1].rows) == ("bytes", ROWS)
    assert found["check"][-1].rows == ROWS
    assert found["publish"][-1] == Progress("publish", 2, 2, "steps")


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz", "Person.feather"])
def test_reading_is_told_of_on_the_way(graph: Graph, tmp_path: Path, name: str) -> None:
    """What is told never runs far ahead of the rows that were dealt with: files are read, and decompressed, ahead."""
    rows, path = 20_000, tmp_path / name
    if name.startswith("p."):
        lines = "".join(f"{json.dumps({'type': 'Person', 'data': row})}\n" for row in people(rows).to_pylist())
        path.write_bytes(gzip.compress(lines.encode()) if name.endswith(".gz") else lines.encode())
    else:
        feather.write_feather(people(rows), path, chunksize=500, compression="uncompressed")
    pq.write_table(people(10, "q"), tmp_path / "Person.parquet")
    seen: list[Progress] = []
    graph.load([path, tmp_path / "Person.parquet"], progress=seen.append)
    read = phases(seen)["read"]
    sizes = [each.stat().st_size for each in (path, tmp_path / "Person.parquet")]
    assert read[-1] == Progress("read", sum(sizes), sum(sizes), "bytes", rows + 10)
    assert {int(4 * each.done / sizes[0]) for each in read if each.rows < rows} >= {0, 1, 2}
    for each in read:
        assert each.done / sizes[0] <= each.rows / rows + 0.15 or each.rows >= rows


def test_rows_in_memory_are_measured_in_rows(graph: Graph) -> None:
    seen: list[Progress] = []
    graph.load({"Person": people(70_000)}, progress=seen.append)
    assert phases(seen)["read"][-1] == Progress("read", 70_000, 70_000, "rows", 70_000)
    seen.clear()
    graph.load([{"type": "Person", "data": {"name": "Ada"}}], progress=seen.append)
    assert phases(seen)["read"][-1] == Progress("read", 1, 1, "rows", 1)


def test_rows_beside_files_have_no_common_measure(graph: Graph, tmp_path: Path) -> None:
    csv(tmp_path / "p.csv")
    seen: list[Progress] = []
    graph.load({"Person": tmp_path / "p.csv", "Knows": [{"from": "p1", "to": "p2"}]}, progress=seen.append)
    read = phases(seen)["read"]
    assert {each.total for each in read[:-1]} == {None}
    assert {each.share for each in read[:-1]} == {None}
    assert read[-1] == Progress("read", ROWS + 1, ROWS + 1, "rows", ROWS + 1)


def test_a_dry_run_and_a_refused_load_write_nothing(graph: Graph, tmp_path: Path) -> None:
    csv(tmp_path / "p.csv")
    seen: list[Progress] = []
    graph.load({"Person": tmp_path / "p.csv"}, dry_run=True, progress=seen.append)
    assert list(phases(seen)) == ["read", "check"]
    graph.load({"Person": tmp_path / "p.csv"})
    seen.clear()
    with pytest.raises(KeyConflict):
        graph.load({"Person": tmp_path / "p.csv"}, progress=seen.append)
    assert [each.phase for each in seen if each.is_over] == ["read", "check"]


def test_reading_again_begins_again(graph: Graph) -> None:
    """Leaving out a row that hides equal edges takes another round; other rows are taken out of what was read."""
    rows = [{"type": "Person", "data": {"name": name}} for name in ("a", "a", "b")]
    seen: list[Progress] = []
    assert graph.load(rows, max_errors=5, dedupe_edges=True, progress=seen.append).nodes == {"Person": 2}
    ended = [each.phase for each in seen if each.is_over]
    assert ended == ["read", "check", "read", "check", "write", "publish"]
    again = [each for each in seen if each.phase == "read"]
    assert [each.done for each in again].count(0) == 2


def test_a_load_of_several_types_counts_them_together(graph: Graph, tmp_path: Path) -> None:
    csv(tmp_path / "p.csv")
    (tmp_path / "k.csv").write_text("from,to\n" + "".join(f"p{i},p{i + 1}\n" for i in range(ROWS - 1)))
    seen: list[Progress] = []
    graph.load({"Person": tmp_path / "p.csv", "Knows": tmp_path / "k.csv"}, progress=seen.append)
    found = phases(seen)
    size = sum((tmp_path / name).stat().st_size for name in ("p.csv", "k.csv"))
    assert found["read"][-1] == Progress("read", size, size, "bytes", 2 * ROWS - 1)
    assert found["write"][-1].rows == 2 * ROWS - 1
    assert found["publish"][-1].total == 3


def test_merges(graph: Graph) -> None:
    graph.load({"Person": people()})
    graph.branches.create("dev")
    graph.load([{"type": "Person", "data": {"name": "p1", "note": "here"}}], mode="merge")
    graph.load([{"type": "Person", "data": {"name": "p2", "note": "there"}}], mode="merge", branch="dev")
    seen: list[Progress] = []
    assert graph.branches.merge("dev", progress=seen.append).outcome == "merged"
    found = phases(seen)
    assert list(found) == ["compare", "check", "write", "publish"]
    assert found["compare"][-1] == Progress("compare", 1, 1, "tables", 2)
    assert found["write"][-1] == Progress("write", 1, 1, "tables", 1)


def test_upkeep_exports_and_copies(graph: Graph, tmp_path: Path) -> None:
    for number in range(4):
        graph.load({"Person": people(200, f"n{number}-")})
    seen: list[Progress] = []
    assert graph.maintenance.optimize(progress=seen.append).commit is not None
    found = phases(seen)
    assert list(found)[-2:] == ["compact", "publish"]
    assert found["compact"][-1] == Progress("compact", 800, 800, "rows", 800)

    for target, format in ((tmp_path / "all.jsonl", "jsonl"), (tmp_path / "all", "parquet")):
        seen.clear()
        graph.export(target, format, progress=seen.append)  # type: ignore[arg-type]
        assert phases(seen)["write"][-1] == Progress("write", 800, 800, "rows", 800)

    seen.clear()
    report = graph.maintenance.backup(tmp_path / "copy", progress=seen.append)
    found = phases(seen)
    assert list(found) == ["copy", "verify"]
    assert found["copy"][-1] == Progress("copy", report.bytes_copied, report.bytes_copied, "bytes")
    seen.clear()
    Graph.clone(graph.uri, tmp_path / "clone", progress=seen.append)
    assert list(phases(seen)) == ["copy", "verify"]

    seen.clear()
    cleaned = graph.maintenance.cleanup(3, confirm=True, grace=0, force=True, progress=seen.append)
    found = phases(seen)
    assert list(found) == ["find", "check", "remove"]
    assert cleaned.objects_removed > 0
    assert found["remove"][-1].unit == "objects"
    assert (found["remove"][-1].done or 0) >= cleaned.objects_removed


def test_indexes_that_are_built_after_a_load(graph: Graph) -> None:
    graph.load({"Person": people(70_000)})
    seen: list[Progress] = []
    graph.repository.store.wait_for_background_work(seen.append)
    assert list(phases(seen)) in (["index"], [])  # it may have been done already
    graph.repository.store.wait_for_background_work(seen.append)
    assert [each.phase for each in seen if each.is_over] in (["index"], [])


def _fail_in_a_phase(seen: list[Progress]) -> None:
    with PhaseProgress(seen.append, "copy", 10) as phase:
        phase.advance(10)
        raise ZeroDivisionError


def test_a_phase_that_fails_does_not_end() -> None:
    seen: list[Progress] = []
    with pytest.raises(ZeroDivisionError):
        _fail_in_a_phase(seen)
    assert seen == [Progress("copy", 0, 10), Progress("copy", 9, 10)]
    assert not any(each.is_over for each in seen)


def test_a_phase_of_nothing_is_over_at_its_end() -> None:
    seen: list[Progress] = []
    with PhaseProgress(seen.append, "copy", 0):
        pass
    assert [(each.total, each.is_over, each.share) for each in seen] == [(None, False, None), (0, True, 1.0)]
