"""A store that is not there, cannot be asked, or is another one than was opened: nothing is acknowledged, and nothing
old is answered as if it were new."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, OutcomeUnknown, StagedDataGone, StorageError, StoreReplaced
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.storage.layout import version_file
from omnigraph.versioning.store import Settings
from tests.maintenance.scenes import sweep
from tests.support.graphs import EXPIRED, SMALL, armed, knows, people, while_armed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann")})
    return graph


def names(graph: Graph) -> set[str]:
    return set(graph.rows("node:Person")["name"].to_pylist())


def test_a_probe_that_fails_is_not_read_as_nothing_new(graph: Graph) -> None:
    """Another process commits, and the file system answers EIO: the old rows are no answer."""
    assert names(graph) == {"ann"}
    Graph.open(graph.uri).load({"Person": people("bob")})
    with armed(f"{Point.OBJECT_BEFORE_PROBE}:error"), pytest.raises(StorageError):
        graph.snapshot()
    assert names(graph) == {"ann", "bob"}


UNPRIVILEGED = """
import os, sys
from omnigraph import Graph
from omnigraph.errors import OmnigraphError
graph = Graph.open(sys.argv[1], "ro")
print(graph.rows("node:Person").num_rows, flush=True)
sys.stdin.readline()
os.seteuid(65534)
try:
    print(graph.rows("node:Person").num_rows, flush=True)
except OmnigraphError as error:
    print(error.code, flush=True)
"""


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_directory_that_may_not_be_read_is_an_error_for_a_warm_reader() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        graph = Graph.init(Path(folder) / "g", SMALL)
        graph.load({"Person": people("ann")})
        reader = subprocess.Popen(
            [sys.executable, "-c", UNPRIVILEGED, graph.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=ROOT, env=os.environ.copy(),
        )  # fmt: skip
        assert reader.stdout is not None
        assert reader.stdout.readline().strip() == "1"
        graph.load({"Person": people("bob")})
        os.chmod(Path(graph.uri) / "__manifest" / "_versions", 0o700)
        out, _ = reader.communicate("go\n", timeout=120)
        assert out.strip() == "store_unavailable"


@pytest.mark.parametrize("how", ["moved", "emptied"])
def test_no_write_is_acknowledged_after_the_store_is_gone(graph: Graph, how: str, tmp_path: Path) -> None:
    """What `umount -l` leaves is an empty directory in its place."""
    shutil.move(graph.uri, tmp_path / "elsewhere")
    if how == "emptied":
        Path(graph.uri).mkdir()
    for number in range(3):
        with pytest.raises(OmnigraphError):
            graph.load({"Person": people(f"lost{number}")})
    moved = Graph.open(tmp_path / "elsewhere")
    assert names(moved) == {"ann"}


ASKED: dict[str, Callable[[Graph], object]] = {
    "main": lambda g: g.snapshot(),
    "branch": lambda g: g.snapshot("dev"),
    "another branch": lambda g: g.snapshot("other"),
    "tag": lambda g: g.snapshot("v1"),
    "commit": lambda g: g.snapshot("01J0000000000000000000000A"),
    "version": lambda g: g.snapshot_at_version(2),
    "rows": lambda g: g.rows("node:Person", "dev"),
    "branches": lambda g: g.branches.list(),
    "one branch": lambda g: g.branches.get("dev"),
    "tags": lambda g: g.tags.list(),
    "commits": lambda g: list(g.commits.walk()),
    "intents": lambda g: g.recovery.list(),
    "audit": lambda g: g.recovery.audit(),
    "load": lambda g: g.load({"Person": people("late")}),
    "load of a branch": lambda g: g.load({"Person": people("late")}, branch="dev"),
    "branch create": lambda g: g.branches.create("new"),
    "branch delete": lambda g: g.branches.delete("dev"),
    "tag create": lambda g: g.tags.create("new"),
    "tag delete": lambda g: g.tags.delete("v1"),
}


@pytest.mark.parametrize("how", ["moved", "emptied"])
@pytest.mark.parametrize("warm", [True, False])
def test_while_the_store_is_away_every_answer_is_that_there_is_no_graph(
    graph: Graph, tmp_path: Path, how: str, warm: bool
) -> None:
    """As `Graph.open` says: not that the graph is corrupt, that a branch is gone, or that there are no tags."""
    graph.branches.create("dev")
    graph.tags.create("v1")
    graph = Graph.open(graph.uri)
    if warm:
        assert {graph.rows("node:Person", at).num_rows for at in ("main", "dev", "v1")} == {1}
    shutil.move(graph.uri, tmp_path / "elsewhere")
    if how == "emptied":
        Path(graph.uri).mkdir()
    found = {}
    for name, ask in ASKED.items():
        with pytest.raises(OmnigraphError) as caught:
            ask(graph)
        found[name] = caught.value.code
    assert found == dict.fromkeys(ASKED, "graph_not_found")
    shutil.rmtree(graph.uri, ignore_errors=True)
    shutil.move(tmp_path / "elsewhere", graph.uri)
    assert [tag.name for tag in graph.tags.list()] == ["v1"]
    assert graph.rows("node:Person", "dev").num_rows == 1


def test_a_write_whose_store_goes_before_its_swap_is_not_acknowledged(graph: Graph, tmp_path: Path) -> None:
    def unmount() -> None:
        failpoints.arm(None)
        shutil.move(graph.uri, tmp_path / "elsewhere")
        (Path(graph.uri) / "__manifest" / "_versions").mkdir(parents=True)
        (Path(graph.uri) / "__manifest" / "_transactions").mkdir()

    with while_armed({Point.BEFORE_SWAP: unmount}), pytest.raises(OmnigraphError):
        graph.load({"Person": people("lost")})
    assert names(Graph.open(tmp_path / "elsewhere")) == {"ann"}


def restored(graph: Graph, backup: Path) -> None:
    shutil.rmtree(graph.uri)
    shutil.copytree(backup, graph.uri)


def test_a_handle_from_before_a_restore_writes_and_reads_nothing(graph: Graph, tmp_path: Path) -> None:
    """The process has made version 3; a copy of version 2 is put back under it."""
    backup = tmp_path / "backup"
    shutil.copytree(graph.uri, backup)
    graph.load({"Person": people("bob")})
    restored(graph, backup)
    for _ in range(2):
        with pytest.raises(StoreReplaced):
            graph.load({"Person": people("cyd")})
        with pytest.raises(StoreReplaced):
            graph.snapshot()
    fresh = Graph.open(graph.uri)
    fresh.load({"Person": people("dan")})
    assert names(fresh) == {"ann", "dan"}
    assert fresh.maintenance.fsck().is_clean
    with pytest.raises(StoreReplaced):  # also where the restored store has gone on to the same number
        graph.load({"Person": people("cyd")})
    fresh.load({"Person": people("eve")})
    with pytest.raises(StoreReplaced):  # and beyond it
        graph.load({"Person": people("cyd")})
    assert names(Graph.open(graph.uri)) == {"ann", "dan", "eve"}


def test_a_store_that_is_restored_between_look_and_swap_takes_no_write(graph: Graph, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(graph.uri, backup)
    graph.load({"Person": people("bob")})

    def restore() -> None:
        failpoints.arm(None)
        restored(graph, backup)

    with while_armed({Point.MANIFEST_WRITTEN: restore}), pytest.raises(OmnigraphError):
        graph.load({"Person": people("cyd")})
    (Path(graph.uri) / "__manifest" / version_file(4)).unlink(missing_ok=True)
    assert names(Graph.open(graph.uri)) == {"ann"}


def newest_file(uri: str, pattern: str) -> Path:
    return max(Path(uri).glob(pattern), key=lambda path: path.stat().st_mtime_ns)


STAGED = {
    "data": (Point.TABLE_STAGED, "nodes/*/data/*.lance"),
    "version": (Point.MANIFEST_WRITTEN, "nodes/*/_versions/d*.manifest"),
    "version, after it was flushed": (Point.BEFORE_SWAP, "nodes/*/_versions/d*.manifest"),
    "manifest": (Point.BEFORE_SWAP, "__manifest/data/*.lance"),
}


@pytest.mark.parametrize("what", STAGED)
def test_a_write_that_was_staged_into_another_directory_is_not_published(
    graph: Graph, tmp_path: Path, what: str
) -> None:
    """While the store is away for a moment, files are made at its paths; when it is back they are not in it."""
    point, pattern = STAGED[what]

    def lose() -> None:
        failpoints.arm(None)
        shutil.move(newest_file(graph.uri, pattern), tmp_path)

    with while_armed({point: lose}), pytest.raises(StagedDataGone, match=r"moved or unmounted"):
        graph.load({"Person": people("lost")})
    assert names(graph) == names(Graph.open(graph.uri)) == {"ann"}
    graph.load({"Person": people("bob")})
    assert names(graph) == names(Graph.open(graph.uri)) == {"ann", "bob"}
    assert graph.maintenance.fsck().is_clean


def test_a_write_to_several_tables_that_lost_a_staged_file_is_withdrawn(graph: Graph, tmp_path: Path) -> None:
    def lose() -> None:
        failpoints.arm(None)
        shutil.move(newest_file(graph.uri, "edges/*/data/*.lance"), tmp_path)

    with while_armed({Point.INTENT_COMPLETED: lose}), pytest.raises(StagedDataGone):
        graph.load({"Person": people("bob"), "Knows": knows(("ann", "bob"))})
    assert names(Graph.open(graph.uri)) == {"ann"}
    assert not graph.recovery.list()


def test_a_settled_history_that_is_not_in_the_store_is_not_published(graph: Graph, tmp_path: Path) -> None:
    for number in range(300):
        graph.load({"Person": people(f"p{number}")})

    def lose() -> None:
        failpoints.arm(None)
        shutil.move(newest_file(graph.uri, "__history/*"), tmp_path)

    lost = 0
    with while_armed({Point.HISTORY_WRITTEN: lose}):
        for number in range(300, 520):
            try:
                graph.load({"Person": people(f"p{number}")})
            except StagedDataGone:
                lost += 1
    assert lost == 1
    assert sum(commit.kind == "load" for commit in Graph.open(graph.uri).commits.walk()) == 1 + 519


@pytest.mark.parametrize("back_at", [Point.BRANCH_CLAIMED, None])
def test_a_branch_that_is_created_while_the_store_is_away_is_not_acknowledged(
    graph: Graph, tmp_path: Path, back_at: Point | None
) -> None:
    """Its manifest gets into the store and its claim into a directory in its place."""
    elsewhere = tmp_path / "elsewhere"

    def leave() -> None:
        os.rename(graph.uri, elsewhere)

    def come_back() -> None:
        os.rename(graph.uri, tmp_path / "debris")
        os.rename(elsewhere, graph.uri)

    actions = {Point.BRANCH_MANIFEST: leave} | ({} if back_at is None else {back_at: come_back})
    with while_armed(actions), pytest.raises(StoreReplaced):
        graph.branches.create("side")
    if back_at is None:
        come_back()
    assert [each.name for each in graph.branches.list()] == ["main"]
    graph.branches.create("side")
    graph.load({"Person": people("bob")}, branch="side")
    assert [each.name for each in Graph.open(graph.uri).branches.list()] == ["main", "side"]


def test_a_write_on_a_branch_of_another_directory_is_not_acknowledged(graph: Graph, tmp_path: Path) -> None:
    """Its claim was read while another store was in place; the store has a branch of the same name and generation."""
    other = tmp_path / "other"
    shutil.copytree(graph.uri, other)
    made = Graph.open(other).branches.create("side")
    os.rename(graph.uri, tmp_path / "elsewhere")
    os.rename(other, graph.uri)
    assert names(graph) == {"ann"}
    graph.rows("node:Person", at="side")
    tree = Path("__manifest", "tree", str(made.native_branch))
    os.rename(graph.uri, other)
    os.rename(tmp_path / "elsewhere", graph.uri)
    shutil.copytree(other / tree, Path(graph.uri) / tree)  # the manifest of that branch had got into the store
    Graph.open(graph.uri).branches.create("side")
    with pytest.raises(OmnigraphError):
        graph.load({"Person": people("lost")}, branch="side")
    graph.load({"Person": people("bob")}, branch="side")
    fresh = Graph.open(graph.uri)
    assert set(fresh.rows("node:Person", at="side")["name"].to_pylist()) == {"ann", "bob"}


def test_a_schema_whose_contract_is_not_in_the_store_is_not_published(graph: Graph, tmp_path: Path) -> None:
    def lose() -> None:
        failpoints.arm(None)
        shutil.move(newest_file(graph.uri, "__schema/*.json"), tmp_path)

    with while_armed({Point.BEFORE_SWAP: lose}), pytest.raises(StagedDataGone):
        graph.schema.apply(SMALL + "\nnode Extra { name: String @key }")
    fresh = Graph.open(graph.uri)
    assert "Extra" not in fresh.catalog().nodes
    fresh.schema.apply(SMALL + "\nnode Extra { name: String @key }")
    assert "Extra" in Graph.open(graph.uri).catalog().nodes


@pytest.mark.parametrize("is_back", [True, False])
def test_a_tag_that_is_created_while_the_store_is_away_is_not_acknowledged(
    graph: Graph, tmp_path: Path, is_back: bool
) -> None:
    """Its records get into a directory in the place of the store."""
    elsewhere = tmp_path / "elsewhere"
    state = graph.repository.refs.head("main")
    os.rename(graph.uri, elsewhere)

    def come_back() -> None:
        os.rename(graph.uri, tmp_path / "debris")
        os.rename(elsewhere, graph.uri)

    with while_armed({Point.TAG_WRITTEN: come_back} if is_back else {}), pytest.raises(StoreReplaced):
        graph.repository.tags.create("v1", state)
    if not is_back:
        come_back()
    assert graph.tags.list() == []
    graph.tags.create("v1")
    assert [tag.name for tag in graph.tags.list()] == ["v1"]


@pytest.mark.parametrize("back_at", [Point.BRANCH_UNCLAIMED, None])
def test_a_branch_that_is_deleted_while_the_store_is_away_is_not_called_deleted(
    graph: Graph, tmp_path: Path, back_at: Point | None
) -> None:
    graph.branches.create("side")
    elsewhere = tmp_path / "elsewhere"

    def leave() -> None:
        os.rename(graph.uri, elsewhere)

    def come_back() -> None:
        os.rename(graph.uri, tmp_path / "debris")
        os.rename(elsewhere, graph.uri)

    actions = {Point.BRANCH_BEFORE_CLOSE: leave} | ({} if back_at is None else {back_at: come_back})
    with while_armed(actions), pytest.raises(StoreReplaced):
        graph.branches.delete("side")
    if back_at is None:
        come_back()
    assert [each.name for each in Graph.open(graph.uri).branches.list()] == ["main", "side"]
    graph.branches.delete("side")
    assert [each.name for each in graph.branches.list()] == ["main"]


def test_a_branch_whose_manifest_is_not_in_the_store_gives_its_name_back(graph: Graph, tmp_path: Path) -> None:
    def lose() -> None:
        shutil.move(newest_file(graph.uri, "__manifest/tree/*"), tmp_path)

    with while_armed({Point.BRANCH_MANIFEST: lose}), pytest.raises(StoreReplaced):
        graph.branches.create("side")
    assert [each.name for each in graph.branches.list()] == ["main"]
    graph.branches.create("side")
    assert Graph.open(graph.uri).rows("node:Person", at="side").num_rows == 1


def test_a_claim_that_was_read_while_another_directory_was_in_place_is_not_believed(
    graph: Graph, tmp_path: Path
) -> None:
    """Both stores have a branch of that name and generation; only one of them is in place again."""
    other = tmp_path / "other"
    shutil.copytree(graph.uri, other)
    Graph.open(other).branches.create("side")
    os.rename(graph.uri, tmp_path / "elsewhere")
    os.rename(other, graph.uri)
    assert [each.name for each in graph.branches.list()] == ["main", "side"]
    os.rename(graph.uri, other)
    os.rename(tmp_path / "elsewhere", graph.uri)
    made = Graph.open(graph.uri).branches.create("side")
    assert [each.native_branch for each in graph.branches.list()] == [None, made.native_branch]
    assert graph.rows("node:Person", at="side").num_rows == 1


def test_a_store_that_was_copied_onto_itself_is_the_same(graph: Graph, tmp_path: Path) -> None:
    """Other inodes and times, the same files: the handle goes on."""
    backup = tmp_path / "backup"
    shutil.copytree(graph.uri, backup)
    restored(graph, backup)
    graph.load({"Person": people("bob")})
    assert names(Graph.open(graph.uri)) == {"ann", "bob"}


def test_a_thread_that_reads_while_another_publishes_does_not_take_the_store_for_replaced(graph: Graph) -> None:
    """It has opened version 3 when the other one makes version 4 known to the handle they share."""
    names(graph)
    Graph.open(graph.uri).load({"Person": people("bob")})
    probes = itertools.count(1)

    def publish() -> None:
        if next(probes) == 3:  # is there a version 3? a version 4? and then the look at the file of version 3
            failpoints.arm(None)
            graph.load({"Person": people("cyd")})

    with while_armed({Point.OBJECT_BEFORE_PROBE: publish}):
        assert graph.snapshot().version == 4
    assert names(graph) == {"ann", "bob", "cyd"}


def test_a_version_whose_file_goes_before_it_was_looked_at_is_not_the_newest(graph: Graph) -> None:
    """It was read, and nothing is known of its file: an absent one is not taken for the same."""
    names(graph)
    Graph.open(graph.uri).load({"Person": people("bob")})
    newest = Path(graph.uri) / "__manifest" / version_file(3)
    probes = itertools.count(1)

    def lose() -> None:
        if next(probes) == 3:  # is there a version 3? a version 4? and then the look at the file of version 3
            failpoints.arm(None)
            newest.unlink()

    with while_armed({Point.OBJECT_BEFORE_PROBE: lose}):
        graph.snapshot()
    with pytest.raises(StoreReplaced):
        graph.snapshot()


def test_an_old_state_is_not_the_newest_because_the_slot_behind_it_is_empty(graph: Graph) -> None:
    """A tag keeps its version, and a collector has taken those that followed."""
    late = Graph.open(graph.uri, settings=Settings(stale_base=-1.0))
    other = Graph.open(graph.uri)
    other.tags.create("kept")
    assert names(late) == {"ann"}
    for name in ("bob", "cyd"):
        other.load({"Person": people(name)})
    sweep(other)
    assert names(late) == {"ann", "bob", "cyd"}


def test_a_store_in_which_a_deleted_branch_is_there_again_is_another_one(graph: Graph, tmp_path: Path) -> None:
    """The end of a branch is a version without a commit: a shorter history has the same head."""
    graph.branches.create("dev")
    native = graph.repository.head("dev").native_branch
    backup = tmp_path / "backup"
    shutil.copytree(graph.uri, backup)
    graph.branches.delete("dev")
    tip = graph.repository.tips.of("dev", native)
    closed = tip.state()
    assert closed.closed
    restored(graph, backup)
    with pytest.raises(StoreReplaced):
        tip.state()


def moved_at(point: Point, graph: Graph, elsewhere: Path) -> dict[str, Callable[[], None]]:
    """The store is gone from this point on."""

    def move() -> None:
        failpoints.arm(None)
        shutil.move(graph.uri, elsewhere)

    return {point: move}


def put_back(graph: Graph, elsewhere: Path) -> Graph:
    shutil.rmtree(graph.uri, ignore_errors=True)  # what was written there meanwhile
    shutil.move(elsewhere, graph.uri)
    fresh = Graph.open(graph.uri, settings=EXPIRED)
    fresh.recovery.run()
    return fresh


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_write_whose_store_goes_after_its_swap_is_of_unknown_outcome(
    graph: Graph, tmp_path: Path, branch: str
) -> None:
    """Where the store was only away for a moment, the write is visible when it comes back."""
    graph.branches.create("dev")
    elsewhere = tmp_path / "elsewhere"
    with while_armed(moved_at(Point.BEFORE_ACK, graph, elsewhere)), pytest.raises(OutcomeUnknown) as caught:
        graph.load({"Person": people("bob")}, branch=branch)
    fresh = put_back(graph, elsewhere)
    assert fresh.commits.get(caught.value.commit_id).manifest_branch == branch
    assert set(fresh.rows("node:Person", branch)["name"].to_pylist()) == {"ann", "bob"}


def test_an_intent_that_could_not_be_withdrawn_because_its_store_is_gone_is_of_unknown_outcome(
    graph: Graph, tmp_path: Path
) -> None:
    """Its withdrawal lands where the store was; when the store comes back, recovery finishes the write."""
    elsewhere = tmp_path / "elsewhere"
    rows = {"Person": people("bob"), "Knows": knows(("bob", "ann"))}
    with while_armed(moved_at(Point.INTENT_COMPLETED, graph, elsewhere)), pytest.raises(OutcomeUnknown) as caught:
        graph.load(rows)
    fresh = put_back(graph, elsewhere)
    assert fresh.commits.get(caught.value.commit_id).actor_id == "omnigraph:recovery"
    assert names(fresh) == {"ann", "bob"}


@pytest.mark.parametrize("flushing", ["on", "off"])
def test_a_swap_into_a_directory_that_was_only_there_for_a_moment_is_not_acknowledged(
    graph: Graph, tmp_path: Path, flushing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away for the swap and back for the looks that follow it. A flush fails and the swap is repeated."""
    monkeypatch.setenv("OMNIGRAPH_FSYNC", flushing)
    graph = Graph.open(graph.uri)
    elsewhere, debris = tmp_path / "elsewhere", tmp_path / "debris"

    def move_back() -> None:
        failpoints.arm(None)
        shutil.move(graph.uri, debris)
        shutil.move(elsewhere, graph.uri)

    def move_away() -> None:
        failpoints.arm({Point.SWAPPED: move_back})
        shutil.move(graph.uri, elsewhere)
        for folder in ("_versions", "_transactions"):
            (Path(graph.uri) / "__manifest" / folder).mkdir(parents=True)

    with while_armed({Point.BEFORE_SWAP: move_away}):
        if flushing == "on":
            assert graph.load({"Person": people("bob")}).commit is not None
        else:
            with pytest.raises(OutcomeUnknown):
                graph.load({"Person": people("bob")})
    assert names(Graph.open(graph.uri)) == ({"ann", "bob"} if flushing == "on" else {"ann"})


def test_a_request_that_is_sent_again_while_the_store_is_away_is_not_answered_from_what_lies_there(
    graph: Graph, tmp_path: Path
) -> None:
    """Its swap went to a directory that is not the store, where a second look finds it."""
    elsewhere = tmp_path / "elsewhere"

    def move_away() -> None:
        failpoints.arm(None)
        shutil.move(graph.uri, elsewhere)
        for folder in ("_versions", "_transactions"):
            (Path(graph.uri) / "__manifest" / folder).mkdir(parents=True)
        shutil.copytree(elsewhere / "__manifest" / "data", Path(graph.uri) / "__manifest" / "data")

    with while_armed({Point.BEFORE_SWAP: move_away}), pytest.raises(OutcomeUnknown):
        graph.load({"Person": people("bob")}, idempotency_key="one")
    for _ in range(2):
        with pytest.raises(OmnigraphError):
            graph.load({"Person": people("bob")}, idempotency_key="one")
    fresh = put_back(graph, elsewhere)
    assert names(fresh) == {"ann"}
    assert fresh.load({"Person": people("bob")}, idempotency_key="one").commit is not None
    assert names(fresh) == {"ann", "bob"}
