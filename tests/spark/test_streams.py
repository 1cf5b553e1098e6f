"""The change feed as a source, streams into a graph, and both together while their processes are killed."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import ChangeFeedGap, ChangeFeedSchemaChanged, DuplicateKey, InvalidArgument, SchemaMoved
from omnigraph.execution.spark.task_errors import TaskRefusal, refusal_in
from omnigraph.execution.spark.versions import stream_limits, stream_writer_class
from omnigraph.pipeline.changes_source import ChangeScan, ChangesStreamReader, changes_schema
from omnigraph.storage.failpoints import VARIABLE, Point
from tests.spark.cluster import ROOT, Driver, descendants, kill_all
from tests.spark.driver import events, one_commit, seen

needs_limits = pytest.mark.skipif(stream_limits() is None, reason="before 4.2, Spark tells a source of no limits")
needs_sink = pytest.mark.skipif(stream_writer_class() is None, reason="Spark 4.0 has no streaming writer for Arrow")
SCHEMA = """
node Person { name: String @key  age: U32?  tags: [String]? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
OUT = """
node Event { name: String @key  op: String?  who: String? }
node Seen { name: String @key }
edge About: Event -> Seen
"""
SECONDS = 240
KILLS = int(os.environ.get("OMNIGRAPH_TEST_STREAM_KILLS", "20"))


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Six versions: inserts, an update beside an insert, another type, a delete, edges."""
    made = Graph.init(tmp_path / "g", SCHEMA)
    made.load([person(f"p{n}", age=n, tags=["a", f"t{n}"]) for n in range(5)])
    made.load([person("p1", age=100), person("p9")], mode="merge")
    made.load([{"type": "City", "data": {"name": "Rome"}}])
    made.delete("Person", ids=["p0", "p9"])
    made.load([{"edge": "Knows", "from": "p1", "to": "p2", "data": {}}])
    return made


@pytest.fixture
def out(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "out", OUT)


def feed(spark: Any, graph: Graph, *, stream: bool = False, **options: Any) -> Any:
    reader = (spark.readStream if stream else spark.read).format("omnigraph").option("changes", "true")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(graph.uri)


def run(frame: Any, checkpoint: Path, **options: str) -> Any:
    """Start a query of what is there, and wait for its end. `sink` names the graph, else rows are kept in memory."""
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    for name, value in options.items():
        writer = writer.option(name, value)
    return ended(writer.format("omnigraph").trigger(availableNow=True).start())


def ended(query: Any) -> Any:
    """A query that has ended by itself; its error is raised as what it is."""
    from pyspark.errors import StreamingQueryException

    try:
        assert query.awaitTermination(SECONDS)
    except StreamingQueryException as failure:
        raise pipeline.error_of(failure) or failure from failure
    finally:
        query.stop()
    return query


def batches(query: Any) -> list[int]:
    """How many rows each batch had."""
    return [progress.numInputRows for progress in query.recentProgress]


def told(graph: Graph, kind: str = "Person", **options: Any) -> list[tuple[Any, ...]]:
    """What the feed says, as `_commit_id`, id, `_op` and the ages before and after."""
    found = graph.changes(start="beginning", types=(kind,), **options)
    return [
        (b.commit.graph_commit_id, c.entity_id, c.op, *((i or {}).get("age") for i in (c.before, c.after)))
        for b in found
        for c in b.changes
    ]


def delivered(target: Graph) -> Counter[tuple[str, str, str]]:
    """What arrived: commit, id and operation."""
    rows = target.rows("node:Event").to_pylist()
    return Counter((*row["name"].split("/"), row["op"]) for row in rows)


def keys(target: Graph) -> list[str]:
    return [c.idempotency_key for c in target.commits.list() if c.idempotency_key is not None]


def forget_last_batch(checkpoint: Path) -> int:
    """As if the driver died after the sink's commit: Spark's own commit of the last batch is not there."""
    numbers = [int(f.name) for f in (checkpoint / "commits").iterdir() if f.name.isdecimal()]
    last = max(numbers)
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    return last


# --- the feed as a batch --------------------------------------------------------------------------------------------


def test_a_batch_has_the_rows_of_the_feed(spark: Any, graph: Graph) -> None:
    frame = feed(spark, graph, type="Person", images="before_and_after")
    assert frame.columns == [
        "id", "name", "age", "tags", "_op", "_commit_id", "_commit_version", "_commit_time", "_before",
    ]  # fmt: skip
    rows = frame.toArrow().to_pylist()
    mine = [
        (
            r["_commit_id"], r["id"], r["_op"], (r["_before"] or {}).get("age"),
            None if r["_op"] == "delete" else r["age"],
        ) for r in rows
    ]  # fmt: skip
    assert sorted(mine, key=repr) == sorted(told(graph), key=repr)
    assert [r["_commit_version"] for r in rows] == sorted(r["_commit_version"] for r in rows)
    gone = next(r for r in rows if r["_op"] == "delete" and r["id"] == "p0")
    assert (gone["age"], gone["tags"], gone["_before"]["tags"]) == (0, ["a", "t0"], ["a", "t0"])
    moments = {c.graph_commit_id: c.created_at for c in graph.commits.list()}
    assert all(int(r["_commit_time"].timestamp() * 1e6 + 0.5) == moments[r["_commit_id"]] for r in rows)


@pytest.mark.parametrize(
    ("start", "end", "versions"),
    [("earliest", None, {2, 3, 5}), ("3", None, {3, 5}), ("3", "4", {3}), ("5", "3", set()), ("7", None, set()),
     ("latest", None, set())],
)  # fmt: skip
def test_a_range_of_versions(spark: Any, graph: Graph, start: str, end: str | None, versions: set[int]) -> None:
    options = {"startingVersion": start, **({} if end is None else {"endingVersion": end})}
    frame = feed(spark, graph, type="Person", columns="name", **options)
    assert {r["_commit_version"] for r in frame.collect()} == versions


def test_edges_and_branches(spark: Any, graph: Graph) -> None:
    graph.branches.create("exp")
    graph.load([{"edge": "Knows", "from": "p2", "to": "p3", "data": {}}], branch="exp")
    assert [(r["src"], r["dst"]) for r in feed(spark, graph, edge="Knows").collect()] == [("p1", "p2")]
    both = feed(spark, graph, edge="Knows", branch="exp").collect()
    assert [(r["src"], r["dst"], r["_op"]) for r in both] == [("p1", "p2", "insert"), ("p2", "p3", "insert")]
    own = feed(spark, graph, edge="Knows", branch="exp", startingVersion="1").collect()
    assert [(r["src"], r["dst"]) for r in own] == [("p2", "p3")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "Person", "startingVersion": "9"}, "is at version 6"),
        ({"type": "Person", "startingVersion": "yesterday"}, "is no version"),
        ({"type": "Person", "endingVersion": "99"}, "99"),
        ({"type": "Person", "images": "all"}, "images 'all' is unknown"),
        ({"type": "Person", "maxRowsPerTrigger": "5"}, "is for streams"),
        ({"type": "Person", "filter": "age > 3"}, "option 'filter' is unknown"),
        ({"type": "Person", "columns": "agee"}, "agee"),
    ],
)
def test_wrong_options_are_refused(spark: Any, graph: Graph, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        feed(spark, graph, **options).collect()


def test_a_stream_needs_the_option_changes(spark: Any, graph: Graph, tmp_path: Path) -> None:
    frame = spark.readStream.format("omnigraph").option("type", "Person").load(graph.uri)
    with pytest.raises(Exception, match="a stream reads the change feed"):
        ended(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start())


# --- streams --------------------------------------------------------------------------------------------------------


@needs_sink
def test_a_stream_goes_on_from_its_checkpoint(spark: Any, graph: Graph, out: Graph, tmp_path: Path) -> None:
    def copy() -> Any:
        frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest")
        return run(events(frame), tmp_path / "c", type="Event", path=out.uri)

    copy()
    expected = Counter((commit, who, op) for commit, who, op, *_ in told(graph))
    assert delivered(out) == expected
    copy()
    assert len(keys(out)) == 1
    graph.load([person("p50")])
    graph.maintenance.optimize()
    graph.load([person("p51", age=3)], mode="merge")
    copy()
    assert delivered(out) == Counter((commit, who, op) for commit, who, op, *_ in told(graph))
    assert len(set(keys(out))) == len(keys(out)) == 2


@needs_limits
@pytest.mark.parametrize(
    ("limit", "most", "count"), [({"maxCommitsPerTrigger": "1"}, 5, 3), ({"maxRowsPerTrigger": "4"}, 5, 2)]
)
def test_limits_are_in_whole_commits(
    spark: Any, graph: Graph, out: Graph, tmp_path: Path, limit: dict[str, str], most: int, count: int
) -> None:
    frame = feed(spark, graph, stream=True, type="Person", startingVersion="2", **limit)
    query = run(events(frame), tmp_path / "c", type="Event", path=out.uri)
    assert sum(batches(query)) == 9
    assert max(batches(query)) == most
    assert len(keys(out)) == count
    assert delivered(out) == Counter((commit, who, op) for commit, who, op, *_ in told(graph))


@needs_sink
def test_a_stream_begins_with_what_comes(spark: Any, graph: Graph, out: Graph, tmp_path: Path) -> None:
    def copy() -> Any:
        return run(events(feed(spark, graph, stream=True, type="Person")), tmp_path / "c", type="Event", path=out.uri)

    copy()
    assert not delivered(out)
    graph.load([person("new")])
    copy()
    assert [who for _, who, _ in delivered(out)] == ["new"]


@needs_limits
def test_a_schema_change_ends_the_query_after_what_came_before(
    spark: Any, graph: Graph, out: Graph, tmp_path: Path
) -> None:
    def copy(**options: str) -> Any:
        frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest", **options)
        return run(events(frame), tmp_path / "c", type="Event", path=out.uri)

    before = told(graph)
    graph.schema.apply(SCHEMA.replace("age: U32?", "age: U32?  city: String?"))
    graph.load([person("p70", city="Oslo")])
    with pytest.raises(ChangeFeedSchemaChanged) as first:
        copy()
    assert first.value.version == 2
    assert "city" in first.value.message
    assert not delivered(out)
    with pytest.raises(ChangeFeedSchemaChanged) as later:
        copy(schemaVersion="6")
    assert later.value.version == 7
    assert delivered(out) == Counter((commit, who, op) for commit, who, op, *_ in before)
    copy()
    assert delivered(out) == Counter((commit, who, op) for commit, who, op, *_ in told(graph))


def test_the_commits_of_one_schema(graph: Graph) -> None:
    """What versions of Spark read that do not say where a batch begins."""
    graph.schema.apply(SCHEMA.replace("age: U32?", "age: U32?  city: String?"))
    graph.load([person("p70", city="Oslo")])
    options = {"path": graph.uri, "type": "Person", "startingversion": "earliest"}
    for version, expected in (("3", 6), ("7", 8), (None, 8)):
        given = options if version is None else {**options, "schemaversion": version}
        reader = ChangesStreamReader(ChangeScan.of(given, changes_schema(given)))
        assert reader.latestOffset()["version"] == expected


def test_a_schema_change_of_other_columns_is_none(spark: Any, graph: Graph) -> None:
    wider = SCHEMA.replace("City { name: String @key", "City { name: String @key  size: I32?")
    graph.schema.apply(wider)
    graph.load([person("p70")])
    assert feed(spark, graph, type="Person").count() == len(told(graph))
    graph.schema.apply(wider.replace("age: U32?", "size: U32? @rename_from(age)"))
    assert feed(spark, graph, type="Person", columns="name").count() == len(told(graph))
    with pytest.raises(Exception, match="has other columns") as refused:
        feed(spark, graph, type="Person").count()
    assert isinstance(pipeline.error_of(refused.value), ChangeFeedSchemaChanged)


@needs_sink
def test_a_reclaimed_history_ends_the_query(spark: Any, graph: Graph, out: Graph, tmp_path: Path) -> None:
    graph.maintenance.cleanup(3, grace=0, force=True, confirm=True)
    frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest")
    with pytest.raises(ChangeFeedGap):
        run(events(frame), tmp_path / "c", type="Event", path=out.uri)


@needs_sink
def test_a_checkpoint_belongs_to_one_graph(spark: Any, graph: Graph, out: Graph, tmp_path: Path) -> None:
    def copy(of: Graph) -> Any:
        frame = feed(spark, of, stream=True, type="Person", startingVersion="earliest")
        return run(events(frame), tmp_path / "c", type="Event", path=out.uri)

    copy(graph)
    other = Graph.init(tmp_path / "other", SCHEMA)
    other.load([person("x")])
    with pytest.raises(InvalidArgument, match="belongs to another graph"):
        copy(other)


# --- the sink -------------------------------------------------------------------------------------------------------


@needs_limits
def test_a_batch_that_spark_sends_again_is_committed_once(spark: Any, graph: Graph, out: Graph, tmp_path: Path) -> None:
    def copy(mode: str) -> Any:
        frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest", maxCommitsPerTrigger="2")
        return run(events(frame), tmp_path / "c", type="Event", path=out.uri, mode=mode)

    copy("append")
    first = keys(out)
    assert first
    forget_last_batch(tmp_path / "c")
    copy("append")
    forget_last_batch(tmp_path / "c")
    copy("merge")
    assert keys(out) == first
    assert delivered(out) == Counter((commit, who, op) for commit, who, op, *_ in told(graph))


@needs_limits
def test_merge_replaces_rows(spark: Any, graph: Graph, tmp_path: Path) -> None:
    copied = Graph.init(tmp_path / "copied", SCHEMA)
    frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest", maxCommitsPerTrigger="1")
    rows = frame.where("_op != 'delete'").select("name", "age", "tags")
    run(rows, tmp_path / "c", type="Person", path=copied.uri, mode="merge", streamId="copy", actor="ann")
    found = {r["name"]: r["age"] for r in copied.rows("node:Person").to_pylist()}
    assert found == {"p0": 0, "p1": 100, "p2": 2, "p3": 3, "p4": 4, "p9": None}
    assert all(key.startswith("stream:copy:Person:") for key in keys(copied))
    assert {c.actor_id for c in copied.commits.list() if c.idempotency_key} == {"ann"}


@needs_limits
def test_output_modes(spark: Any, graph: Graph, tmp_path: Path) -> None:
    counts = Graph.init(tmp_path / "counts", "node Count { name: String @key  changes: I64? }")
    frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest", maxCommitsPerTrigger="1")
    grouped = frame.groupBy("name").count().withColumnRenamed("count", "changes")

    write = pipeline.write_batch(counts, {"Count": None}, mode="merge")
    writer = grouped.writeStream.foreachBatch(write).outputMode("update")
    ended(writer.option("checkpointLocation", str(tmp_path / "update")).trigger(availableNow=True).start())
    found = {r["name"]: r["changes"] for r in counts.rows("node:Count").to_pylist()}
    assert found == Counter(who for _, who, *_ in told(graph))
    writer = grouped.writeStream.format("omnigraph").option("type", "Count").outputMode("complete")
    with pytest.raises(Exception, match="output mode complete would replace"):
        ended(writer.option("checkpointLocation", str(tmp_path / "complete")).start(counts.uri))


@needs_sink
def test_a_batch_that_breaks_a_rule_ends_the_query(spark: Any, graph: Graph, tmp_path: Path) -> None:
    copied = Graph.init(tmp_path / "copied", SCHEMA)
    copied.load([person("p3")])
    rows = feed(spark, graph, stream=True, type="Person", startingVersion="2").select("name")
    with pytest.raises(DuplicateKey):
        run(rows, tmp_path / "c", type="Person", path=copied.uri)
    assert keys(copied) == []


def test_several_types_are_one_commit(spark: Any, graph: Graph, out: Graph, tmp_path: Path) -> None:
    about = ["concat(_commit_id, '/', id) as `from`", "id as to"]

    def copy() -> Any:
        frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest", **one_commit())
        write = pipeline.write_batch(out, {"Event": events, "Seen": seen, "About": about}, mode="merge")
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "c"))
        return ended(writer.trigger(availableNow=True).start())

    copy()
    first = keys(out)
    assert len(first) == (3 if one_commit() else 1)
    assert out.rows("edge:About").num_rows == out.rows("node:Event").num_rows == len(told(graph))
    forget_last_batch(tmp_path / "c")
    copy()
    assert keys(out) == first
    assert out.rows("edge:About").num_rows == len(told(graph))


@needs_sink
@pytest.mark.parametrize("options", [{"mode": "overwrite"}, {"mode": "upsert"}, {"colour": "red"}])
def test_wrong_options_of_a_sink(spark: Any, graph: Graph, out: Graph, tmp_path: Path, options: dict[str, str]) -> None:
    frame = feed(spark, graph, stream=True, type="Person", startingVersion="earliest")
    with pytest.raises(Exception, match=r"overwrite is not for streams|'upsert' is unknown|'colour' is unknown"):
        run(events(frame), tmp_path / "c", type="Event", path=out.uri, **options)


def test_rows_that_were_checked_under_another_schema_are_not_published(spark: Any, graph: Graph) -> None:
    uri, wider = graph.uri, SCHEMA.replace("age: U32?", "age: U32?  city: String?")

    def rows(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            Graph.open(uri).schema.apply(wider)
            yield pa.RecordBatch.from_pydict({"name": [f"n{n}" for n in batch.column(0).to_pylist()]})

    frame = spark.range(0, 2, 1, 1).mapInArrow(rows, "name string")
    with pytest.raises(Exception, match="the schema changed") as refused:
        frame.write.format("omnigraph").option("type", "Person").mode("append").save(uri)
    assert "SchemaMoved" in str(refused.value)
    assert graph.snapshot().table("node:Person").row_count == 4


@pytest.mark.parametrize(
    "error",
    [
        ChangeFeedGap("c1"), SchemaMoved(expected="a", actual="b"), InvalidArgument("no } end", hint="say so"),
        ChangeFeedSchemaChanged(type_name="Person", commit_id="c1", version=3, what="x is there"),
    ],
)  # fmt: skip
def test_errors_keep_their_type_and_fields(error: Any) -> None:
    found = refusal_in(f"org.apache.spark.SparkException: {TaskRefusal(error)}\n\tat java")
    assert type(found) is type(error)
    assert vars(found) == vars(error)
    assert str(found) == str(error)
    assert found is not None
    assert found.as_dict() == error.as_dict()


@needs_sink
def test_the_page_is_true(spark: Any, tmp_path: Path) -> None:
    page = (ROOT / "docs/user/streaming.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
        placed = block.replace("people.omni", f"{tmp_path}/people.omni").replace("checkpoints/", f"{tmp_path}/c/")
        exec(compile(placed, "streaming.md", "exec"), names)
        if "query" in names:
            ended(names["query"])
    assert "write" in names


# --- killed processes -----------------------------------------------------------------------------------------------


def await_key(target: Graph, driver: Driver) -> None:
    """Wait for the commit of a batch; the driver must not have ended before."""
    deadline = time.monotonic() + SECONDS
    while not keys(target):
        assert driver.process.poll() is None, driver.process.communicate(timeout=60)
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("way", [pytest.param("sink", marks=needs_sink), "batch"])
def test_a_driver_that_dies_after_the_commit_of_a_batch(graph: Graph, out: Graph, tmp_path: Path, way: str) -> None:
    arguments = (graph.uri, out.uri, str(tmp_path / "c"), way)
    driver = Driver("local[2,4]", "stream", *arguments, **{VARIABLE: f"{Point.SWAPPED}:pause:{SECONDS}"})
    try:
        await_key(out, driver)
    finally:
        driver.kill()
    assert not list((tmp_path / "c" / "commits").glob("[0-9]*"))
    Driver("local[2,4]", "stream", *arguments).result()
    assert delivered(out) == Counter((commit, who, op) for commit, who, op, *_ in told(graph))
    assert len(keys(out)) == len(set(keys(out))) == (3 if one_commit() else 1)


def kill_workers(driver: Driver, chance: random.Random, seconds: float) -> int:
    """Kill Python workers, in which tasks run, for a while; how many were killed. Ends when the driver does."""
    killed = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.process.wait(chance.uniform(0.1, 1))
            break
        workers = [pid for pid in descendants(driver.process.pid) if is_worker(pid)]
        if workers and chance.random() < 0.7:
            kill_all([chance.choice(workers)])
            killed += 1
    return killed


def is_worker(pid: int) -> bool:
    """Whether a process is one of Python's below a JVM."""
    try:
        return b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0-m")[2]
    except OSError:
        return False


@needs_sink
@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(KILLS * 60 + 600)
def test_drivers_and_executors_that_are_killed_at_any_moment(graph: Graph, tmp_path: Path) -> None:
    """Rows keep coming while drivers copy them and die, most of them around the commit of a batch, and workers too."""
    chance = random.Random(17)
    outs = {way: Graph.init(tmp_path / f"out-{way}", OUT) for way in ("sink", "batch")}
    arguments = {way: (graph.uri, to.uri, str(tmp_path / f"c-{way}"), way) for way, to in outs.items()}
    points = [Point.ROWS_WRITTEN, Point.BEFORE_SWAP, Point.SWAPPED, Point.BEFORE_ACK, None]
    kills: Counter[str] = Counter()
    number = 0
    while kills.total() < KILLS:
        number += 1
        for each in range(3):
            graph.load([person(f"k{number}.{each}", age=number), person("p1", age=1000 + number)], mode="merge")
        point = chance.choice(points)
        armed = {} if point is None else {VARIABLE: f"{point}:pause:{SECONDS}"}
        driver = Driver("local[2,4]", "stream", *arguments[["sink", "batch"][number % 2]], **armed)
        kills["executors"] += kill_workers(driver, chance, chance.uniform(8, 25))
        driver.kill()
        kills["drivers"] += 1
    print(f"killed: {dict(kills)}")
    for way, to in outs.items():
        Driver("local[2,4]", "stream", *arguments[way]).result()
        assert delivered(to) == Counter((commit, who, op) for commit, who, op, *_ in told(graph)), way
        assert set(Counter(keys(to)).values()) == {1}, way
