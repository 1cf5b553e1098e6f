"""Damage of committed files, lost claims and lost tags: found, named, and put back where the store proves what was."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.api.reports import FsckReport
from omnigraph.cli.main import run
from omnigraph.errors import CorruptGraph, OmnigraphError, TypeNotFound
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.digests import MAX_INLINE
from omnigraph.storage.effects import AppendRows
from omnigraph.write.transaction import WriteTxn
from tests.maintenance.scenes import busy_graph, contents, sweep
from tests.support.damage import BLOCK, flipped, replaced, some_damage
from tests.support.graphs import people

SCHEMA = """
node Doc {
    slug: String @key
    year: I32 @index
    v: Vector(8)? @index(metric="cosine")
}
node Tag { name: String @key }
edge Cites: Doc -> Doc
"""
ROUNDS = 6


def docs(start: int, count: int) -> dict[str, pa.Table]:
    numbers = range(start, start + count)
    vectors = np.random.default_rng(start).normal(size=8 * count).astype(np.float32)
    columns = {
        "slug": [f"d{i}" for i in numbers],
        "year": pa.array([1990 + i % 30 for i in numbers], pa.int32()),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8),
    }
    return {"Doc": pa.table(columns)}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Rows, deletions, scalar and vector indexes, on two branches, without garbage: every file of a table is needed."""
    made = Graph.init(tmp_path_factory.mktemp("rot") / "g", SCHEMA)
    made.load(docs(0, 3000))
    made.load([{"edge": "Cites", "from": "d1", "to": "d2"}])
    made.maintenance.ensure_indices()
    made.delete("Doc", ["d7", "d8"])
    made.branches.create("dev")
    for number in range(12):
        made.load(docs(5000 + 3 * number, 3), branch="dev")
    made.load(docs(9000, 3))
    made.repository.store.wait_for_background_work()
    sweep(made)
    return made


def table_files(graph: Graph) -> list[Path]:
    """Files of tables that a version needs: after a sweep, all but the logs and the births of tables that moved on."""
    root = Path(graph.uri)
    parts = ("data/*", "_deletions/*", "_indices/*/*", "_versions/d*.manifest")
    return sorted(p for kind in ("nodes", "edges") for part in parts for p in root.glob(f"{kind}/*/{part}"))


def deep(graph: Graph, **options: str) -> FsckReport:
    return Graph.open(graph.uri, mode="ro").maintenance.fsck(deep=True, **options)


def path_of(graph: Graph, file: Path) -> str:
    return file.relative_to(graph.uri).as_posix()


def text_of(report: FsckReport) -> str:
    return "\n".join(problem.message for problem in report.problems)


def test_a_sound_graph_is_clean_and_every_file_has_a_record(graph: Graph) -> None:
    report = deep(graph)
    assert report.problems == ()
    assert report.unrecorded == 0
    files = table_files(graph)
    assert {path.parent.name for path in files} >= {"data", "_deletions", "_versions"}
    assert any(path.name == "auxiliary.idx" for path in files)
    assert report.bytes_read >= sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("are_versions", [False, True])
def test_flips_cuts_and_zeroed_blocks_are_all_found(graph: Graph, are_versions: bool) -> None:
    """Version files apart: what a damaged one needs is unknown."""
    files = [path for path in table_files(graph) if (path.parent.name == "_versions") == are_versions]
    found = 0
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        with ExitStack() as damage:
            for file in files:
                damage.enter_context(replaced(file, some_damage(file.read_bytes(), rng)))
            said = text_of(deep(graph))
        missed = [file for file in files if path_of(graph, file) not in said]
        assert missed == []
        found += len(files)
    assert found > (20 if are_versions else 100)
    assert deep(graph).is_clean


@pytest.mark.slow
def test_any_single_damage_is_found(graph: Graph) -> None:
    rng = random.Random(99)
    for file in table_files(graph):
        for _ in range(8):
            with replaced(file, some_damage(file.read_bytes(), rng)):
                assert path_of(graph, file) in text_of(deep(graph))


def test_a_zeroed_block_of_a_vector_index_is_found(graph: Graph) -> None:
    (index, *_) = sorted(Path(graph.uri).glob("nodes/*/_indices/*/auxiliary.idx"), key=lambda p: -p.stat().st_size)
    body = index.read_bytes()
    assert len(body) > 2 * BLOCK
    with replaced(index, body[:BLOCK] + bytes(BLOCK) + body[2 * BLOCK :]):
        report = deep(graph)
        assert path_of(graph, index) in text_of(report)
        assert "main@" in text_of(report)
        assert deep(graph, type_name="Tag").is_clean
        assert not deep(graph, type_name="Doc").is_clean


def test_a_flipped_bit_in_the_newest_version_file_changes_no_answer(tmp_path: Path) -> None:
    """Nothing has recorded its checksum yet: what it says is checked by what it leads to."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for name in ("a", "b"):
        graph.load({"Tag": [{"name": name}]})
    newest = min((Path(graph.uri) / "__manifest" / "_versions").iterdir())
    body = newest.read_bytes()
    wanted = graph.snapshot().version, contents(graph)
    number = bytes([0x18, wanted[0]])  # the field of a Lance manifest that holds its version
    places = [body.rindex(b"string"), *(at + 1 for at in range(len(body)) if body.startswith(number, at))]
    bits = [8 * at + bit for at in places for bit in range(8)]
    refused = 0
    for bit in (*bits, *random.Random(7).sample(range(8 * len(body)), 100)):
        with replaced(newest, flipped(body, bit)):
            try:
                found = Graph.open(graph.uri, mode="ro").snapshot().version, contents(graph)
            except OmnigraphError:
                refused += 1
                continue
        assert found == wanted, bit
    assert refused > 10


def test_a_column_type_that_is_none_is_a_typed_error(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Tag": [{"name": "a"}]})
    entry = graph.snapshot().table("node:Tag")
    pin = Path(graph.uri) / entry.location / "_versions" / f"d{entry.staged_version}.manifest"
    body = pin.read_bytes()
    with replaced(pin, flipped(body, 8 * body.rindex(b"string"))), pytest.raises(OmnigraphError):
        Graph.open(graph.uri, mode="ro").rows("node:Tag")


def test_damage_says_who_needs_the_file_and_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = busy_graph(tmp_path, 2)
    before = graph.snapshot()
    graph.load({"Person": people("late")})
    newest = graph.snapshot()
    tables = Path(graph.uri) / newest.table("node:Person").location
    victim = max((tables / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    victim.write_bytes(flipped(victim.read_bytes(), 77))
    (problem,) = (p for p in deep(graph).problems if p.check == "file")
    assert problem.where == "node:Person"
    assert problem.message.endswith(f"needed by main@{newest.version}")
    assert f"commit {before.commit_id} (version {before.version}) is unaffected" in problem.remedy
    assert run(["fsck", graph.uri, "--deep", "--type", "Person"]) == 1
    said = capsys.readouterr().out
    assert victim.name in said
    assert before.commit_id in said
    victim.write_bytes(victim.read_bytes()[:-1])
    assert not graph.maintenance.fsck().is_clean
    with pytest.raises(TypeNotFound):
        deep(graph, type_name="Nobody")


def said_of(graph: Graph) -> str:
    """What a deep check says; a damaged newest state cannot even be opened."""
    try:
        return text_of(deep(graph))
    except CorruptGraph as error:
        return error.message


def test_files_of_manifests_are_compared_too(graph: Graph) -> None:
    """All but the newest version file, which no later version vouches for yet."""
    location = Path(graph.uri) / "__manifest"
    newest = min((location / "_versions").glob("*.manifest"))
    files = sorted([*(location / "data").iterdir(), *(p for p in (location / "_versions").iterdir() if p != newest)])
    assert len(files) >= 3
    rng = random.Random(5)
    for file in files:
        for _ in range(10):
            with replaced(file, flipped(file.read_bytes(), rng.randrange(8 * file.stat().st_size))):
                assert file.name in said_of(graph)


def load_in_many_files(graph: Graph, mark: str, count: int = MAX_INLINE + 20) -> None:
    txn = WriteTxn(graph.repository, "main", kind="load")
    table, rows = txn.table("node:Person"), graph.rows("node:Person").slice(0, 1)
    fragments = []
    for number in range(count):
        row = rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), [[f"{mark}-{number}"]])
        fragments += write_rows(graph.repository.store.tables, table, row)
    txn.commit({"node:Person": AppendRows(tuple(fragments))}, ())


def test_many_files_move_to_a_ledger_that_cleanup_keeps(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path, 2)
    load_in_many_files(graph, "first")
    graph.load({"Person": people("later")})
    digests = graph.snapshot().table("node:Person").digests
    assert digests.ledger is not None
    assert 0 < len(digests.files) < 5
    sweep(graph)
    report = deep(graph)
    assert (report.problems, report.unrecorded) == ((), 0)
    ledger = Path(graph.uri) / digests.ledger
    with replaced(ledger, flipped(ledger.read_bytes(), 1000)):
        assert ledger.name in text_of(deep(graph))
    ledger.unlink()
    assert ledger.name in text_of(deep(graph))
    load_in_many_files(graph, "second")  # a lost ledger stops no write
    graph.maintenance.optimize()
    sweep(graph)
    assert deep(graph).is_clean
    assert not list((Path(graph.uri) / "__digests").rglob("*.json"))


@pytest.fixture
def named(tmp_path: Path) -> Graph:
    graph = busy_graph(tmp_path, 2)
    graph.branches.create("dev/one")
    graph.load({"Person": people("on-dev")}, branch="dev/one")
    graph.branches.create("fresh", "dev/one")
    graph.tags.create("v1", 3)
    return graph


def names_of(graph: Graph) -> tuple[list[str], list[str]]:
    fresh = Graph.open(graph.uri, mode="ro")
    return [branch.name for branch in fresh.branches.list()], [tag.name for tag in fresh.tags.list()]


@pytest.mark.parametrize("how", ["deleted", "damaged"])
@pytest.mark.parametrize(
    "record", ["__refs/dev%2Fone/000001.json", "__refs/main/000000.json", "__tags/v1.json", "__refs/~tags/v1.json"]
)
def test_a_lost_name_is_found_and_restored(named: Graph, record: str, how: str) -> None:
    before, rows = names_of(named), contents(named, "dev/one")
    path = Path(named.uri) / record
    original = json.loads(path.read_bytes())["value"]
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(flipped(path.read_bytes(), 900))
    report = Graph.open(named.uri, mode="ro").maintenance.fsck()
    assert record in text_of(report) or "no claim" in text_of(report)
    seen = Graph.open(named.uri, mode="ro").maintenance.repair()
    assert (seen.is_clean, seen.restored) == (False, ())
    done = Graph.open(named.uri).maintenance.repair(confirm=True)
    assert done.restored == (record,)
    assert names_of(named) == before
    assert contents(named, "dev/one") == rows
    restored = json.loads(path.read_bytes())["value"]
    assert {**restored, "created_at": 0} == {**original, "created_at": 0}
    again = Graph.open(named.uri)
    assert again.maintenance.fsck().is_clean
    assert again.maintenance.repair().is_clean
    again.load({"Person": people("after")}, branch="dev/one")


def test_a_branch_of_one_version_is_claimed_by_force_only(named: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    """It cannot be told from a branch whose creation was cut short."""
    before = names_of(named)
    (Path(named.uri) / "__refs/fresh/000001.json").unlink()
    assert Graph.open(named.uri, mode="ro").maintenance.fsck().is_clean
    assert Graph.open(named.uri).maintenance.repair(confirm=True).restored == ()
    assert run(["repair", named.uri]) == 0
    assert "would be claimed with --force" in capsys.readouterr().out
    assert run(["repair", named.uri, "--force"]) == 0
    assert names_of(named) == before


def test_repair_reports_a_head_that_lacks_files(named: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    entry = named.snapshot().table("node:Person")
    version = Path(named.uri) / entry.location / "_versions" / f"d{entry.staged_version}.manifest"
    body = version.read_bytes()
    version.unlink()
    report = Graph.open(named.uri, mode="ro").maintenance.repair(confirm=False)
    assert not report.is_clean
    assert {t.table_key: t.classification for t in report.tables}["node:Person"] == "missing_data"
    assert run(["repair", named.uri]) == 0
    said = capsys.readouterr().out
    assert version.name in said
    assert "clean" not in said.split()
    version.write_bytes(body[: len(body) // 2])
    report = Graph.open(named.uri, mode="ro").maintenance.repair()
    assert {t.table_key: t.classification for t in report.tables}["node:Person"] == "unreadable"
    shutil.rmtree(Path(named.uri) / entry.location)
    report = Graph.open(named.uri, mode="ro").maintenance.repair()
    assert not report.is_clean
