"""Loads of a social network against kuzu and plain pylance, one-row writes into a large table, threads that write."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.json as pjson
import pyarrow.parquet as pq

from benchmarks.report import Row, Table, sized

PERSONS, FOLLOWS = sized((100_000, 2_000_000), quick=(2_000, 20_000))
MILLION = sized(1_000_000, quick=20_000)
SCHEMA = """
node Person { id_: I64 @key  name: String  age: I64  married: Bool  @range(age, 0..150) }
edge Follows: Person -> Person
"""
ROUNDS = sized(5, quick=1)
DEPTHS = sized((10, 100, 1_000), quick=(10, 20, 30))
SHALLOW = ", shallow"


def social(directory: Path) -> dict[str, Path]:
    """The network as Parquet (ends as text and as numbers) and as JSON lines; a function of its sizes alone."""
    rng = np.random.default_rng(7)
    numbers = np.arange(1, PERSONS + 1)
    people = pa.table(
        {"id_": numbers, "name": [f"person {i}" for i in numbers], "age": rng.integers(18, 90, PERSONS),
         "married": rng.random(PERSONS) < 0.5}
    )  # fmt: skip
    ends = rng.integers(1, PERSONS + 1, (2, FOLLOWS))
    follows = pa.table({"from": pa.array(ends[0]), "to": pa.array(ends[1])})
    paths = {name: directory / f"{name}.parquet" for name in ("people", "follows")}
    pq.write_table(people, paths["people"])
    pq.write_table(follows, paths["follows"])
    paths["jsonl"] = directory / "social.jsonl"
    with paths["jsonl"].open("w") as file:
        for row in people.to_pylist():
            married = "true" if row["married"] else "false"
            file.write(
                f'{{"type":"Person","data":{{"id_":{row["id_"]},"name":"{row["name"]}","age":{row["age"]},'
                f'"married":{married}}}}}\n'
            )
        file.writelines(f'{{"edge":"Follows","from":"{a}","to":"{b}"}}\n' for a, b in zip(*ends.tolist(), strict=True))
    return paths


def best(action: Callable[[Path], Any], directory: Path) -> tuple[float, float]:
    """The shortest of some rounds, each in a directory of its own: until it returned, and until indexes were built."""
    took = []
    for number in range(ROUNDS):
        begun = time.perf_counter()
        made = action(directory / str(number))
        returned = time.perf_counter() - begun
        if hasattr(made, "_store"):  # indexes of a load are built after it has returned
            made.repository.store.wait_for_background_work()
        took.append((returned, time.perf_counter() - begun))
    return min(each[0] for each in took), min(each[1] for each in took)


def load(data: Any) -> Callable[[Path], Any]:
    """A load of everything with all checks into a new graph."""
    from omnigraph import Graph

    def action(directory: Path) -> Graph:
        graph = Graph.init(directory, SCHEMA)
        result = graph.load(data)
        assert result.total_entities == PERSONS + FOLLOWS
        return graph

    return action


def plain_write(paths: dict[str, Path]) -> Callable[[Path], None]:
    """What a load stores, written by pylance without a check: ids and ends are text."""

    def action(directory: Path) -> None:
        people = pq.read_table(paths["people"])
        ids = people["id_"].cast(pa.string())
        lance.write_dataset(people.append_column("id", ids), directory / "people")
        follows = pq.read_table(paths["follows"])
        texts = {name: follows[name].cast(pa.string()) for name in ("from", "to")}
        numbers = pa.array(np.arange(FOLLOWS)).cast(pa.string())
        lance.write_dataset(pa.table({"id": numbers, **texts}), directory / "follows")

    return action


def kuzu_load(paths: dict[str, Path]) -> Callable[[Path], None]:
    """The same by kuzu, keys and endpoints checked."""
    import kuzu

    def action(directory: Path) -> None:
        directory.mkdir(parents=True)
        connection = kuzu.Connection(kuzu.Database(str(directory / "db")))
        person = "id_ INT64, name STRING, age INT64, married BOOL, PRIMARY KEY (id_)"
        connection.execute(f"CREATE NODE TABLE Person({person})")
        connection.execute("CREATE REL TABLE Follows(FROM Person TO Person)")
        connection.execute(f"COPY Person FROM '{paths['people']}'")
        connection.execute(f"COPY Follows FROM '{paths['follows']}'")

    return action


def small_writes(directory: Path) -> dict[tuple[str, int], float]:
    """Medians in milliseconds of one-row writes into a table of a million rows with an index on its key, and of a bare
    append to such a table, at growing depths of history; at the last of them also of a copy that stayed shallow.
    """
    from omnigraph import Graph

    os.environ["OMNIGRAPH_FSYNC"] = "off"  # unflushed, like its peer
    people = pa.table(
        {"name": [f"p{i}" for i in range(MILLION)], "age": pa.array([i % 90 for i in range(MILLION)], pa.int32())}
    )
    graph = Graph.init(directory / "million", "node P { name: String @key  age: I32? }")
    graph.load({"P": people})
    graph.repository.store.wait_for_background_work()
    shutil.copytree(directory / "million", directory / "shallow")
    bare = lance.write_dataset(people, directory / "bare")
    bare.create_scalar_index("name", "BTREE")
    os.sync()  # what is written back meanwhile would slow down whoever creates more files

    def append(number: int) -> None:
        lance.write_dataset(pa.table({"name": [f"n{number}"], "age": pa.array([1], pa.int32())}), bare, mode="append")

    actions: dict[str, Callable[[int], Any]] = {"bare append": append, **writes(graph)}
    medians: dict[tuple[str, int], float] = {}
    numbers = itertools.count()
    for depth in DEPTHS:
        while (number := next(numbers)) < depth:
            actions["bare append"](number)
            actions["insert"](number)
        if depth == DEPTHS[-1]:  # the machine may have become slower since the first of them
            shallow = writes(Graph.open(directory / "shallow"))
            for number in range(DEPTHS[0]):
                shallow["insert"](number)
            actions |= {f"{name}{SHALLOW}": action for name, action in shallow.items()}
        took: dict[str, list[float]] = {name: [] for name in actions}
        for number in itertools.islice(numbers, 30):
            begin = number % len(actions)  # who follows the slowest of them finds the processor's caches full of it
            for name in (*list(actions)[begin:], *list(actions)[:begin]):
                begun = time.perf_counter()
                actions[name](number)
                took[name].append((time.perf_counter() - begun) * 1000)
        medians.update({(name, depth): statistics.median(values) for name, values in took.items()})
    del os.environ["OMNIGRAPH_FSYNC"]
    return medians


def writes(graph: Any) -> dict[str, Callable[[int], Any]]:
    """One-row writes, each of another row for another number."""
    update = "query u($n: String) { update P set { age: 2 } where name = $n }"
    delete = "query d($n: String) { delete P where name = $n }"
    return {
        "insert": lambda i: graph.load({"P": [{"name": f"new{i}", "age": 1}]}),
        "upsert": lambda i: graph.load({"P": [{"name": f"p{i * 37}", "age": 3}]}, mode="merge"),
        "update": lambda i: graph.mutate(update, params={"n": f"p{i * 41 + 7}"}),
        "delete": lambda i: graph.mutate(delete, params={"n": f"p{i * 43 + 11}"}),
    }


def threads(directory: Path, count: int, each: int) -> tuple[float, float, float]:
    """Inserts per second, p50 and p99 in milliseconds of so many threads of one process."""
    from omnigraph import Graph

    graph = Graph.init(directory / f"threads-{count}", "node P { name: String @key  age: I32? }")
    os.sync()  # a flush would wait for what others have left unwritten
    gc.collect()
    gc.freeze()  # a full collection of all that is imported takes 60 ms and would hit one of the runs by chance
    took: list[float] = []

    def work(thread: int) -> None:
        for number in range(each):
            begun = time.perf_counter()
            graph.load({"P": [{"name": f"{thread}-{number}", "age": number}]})
            took.append((time.perf_counter() - begun) * 1000)

    crowd = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    begun = time.perf_counter()
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    rate = count * each / (time.perf_counter() - begun)
    gc.unfreeze()
    assert graph.rows("node:P").num_rows == count * each, "speed that loses rows is no speed"
    cuts = statistics.quantiles(took, n=100)
    return rate, cuts[49], cuts[98]


def peak_memory(directory: Path, lines: int) -> tuple[float, float]:
    """Gigabytes of a synthetic file of JSON lines, and the largest memory of a process that loads it."""
    file = directory / "large.jsonl"
    text = "x" * 1_000
    with file.open("w") as out:
        out.writelines(f'{{"type":"Doc","data":{{"name":"d{i}","text":"{text}"}}}}\n' for i in range(lines))
    code = "from benchmarks.writing import load_large; import sys; load_large(sys.argv[1], sys.argv[2])"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(directory / "large"), str(file)], capture_output=True, text=True, check=True
    )
    size = file.stat().st_size / 1e9
    file.unlink()
    return size, float(ran.stdout)


def load_large(uri: str, file: str) -> None:
    """Load a file and print the peak memory of this process in gigabytes."""
    from omnigraph import Graph

    graph = Graph.init(uri, "node Doc { name: String @key  text: String }")
    graph.load(file)
    graph.repository.store.wait_for_background_work()
    status = Path("/proc/self/status").read_text()  # not getrusage, which also counts the process that forked this one
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1e6)


def measure(directory: Path) -> list[Table]:
    """All of it."""
    return [_loads(directory), _small(directory)]


def _loads(directory: Path) -> Table:
    paths = social(directory)
    work = directory / "work"
    by_type = {"Person": paths["people"], "Follows": paths["follows"]}
    ours, indexed = best(load(by_type), work / "parquet")
    kuzu, _ = best(kuzu_load(paths), work / "kuzu")
    plain, _ = best(plain_write(paths), work / "plain")
    lines, _ = best(load(paths["jsonl"]), work / "jsonl")
    arrow, _ = best(lambda _: pjson.read_json(paths["jsonl"]), work)
    size, peak = peak_memory(directory, 5_000_000)
    rows = (
        ("omnigraph, Parquet, all checks", f"{ours:.2f} s"),
        ("omnigraph, Parquet, all checks, until key indexes are built", f"{indexed:.2f} s"),
        ("kuzu, Parquet", f"{kuzu:.2f} s"),
        ("pylance write of the same rows", f"{plain:.2f} s"),
        ("omnigraph, JSON lines, all checks", f"{lines:.2f} s"),
        ("pyarrow.json read", f"{arrow:.2f} s"),
        (f"peak memory of loading {size:.1f} GB of JSON lines", f"{peak:.2f} GB"),
    )
    targets = (
        Row("load from Parquet / kuzu", ours / kuzu, 1.0),
        Row("load from Parquet until key indexes are built / kuzu", indexed / kuzu, 1.0),
        Row("load from Parquet / plain pylance write", ours / plain, 4.0),
        Row("load from JSON lines / pyarrow's read", lines / arrow, 3.0),
        Row("peak memory, GB", peak, 1.5),
    )
    title = f"Loading {PERSONS:,} persons and {FOLLOWS:,} edges, best of {ROUNDS}"
    return Table(title, ("what", "measured"), rows, targets)


def _small(directory: Path) -> Table:
    took = small_writes(directory)
    one, many = threads(directory, 1, 200), threads(directory, 16, 60)
    kinds = tuple(dict.fromkeys(kind for kind, _ in took if not kind.endswith(SHALLOW)))
    rows = [(kind, *(f"{took[kind, depth]:.1f}" for depth in DEPTHS)) for kind in kinds]
    for count, (rate, middle, slowest) in ((1, one), (16, many)):
        rows.append((f"{count} threads", f"{rate:.0f} inserts/s", f"p50 {middle:.1f}", f"p99 {slowest:.1f}"))
    targets = []
    for kind in kinds[1:]:
        limit = 5.0 if kind == "upsert" else 3.0
        targets += [
            Row(f"{kind} / bare append at depth {depth:,}", took[kind, depth] / took["bare append", depth], limit)
            for depth in DEPTHS
        ]
        first, last = DEPTHS[0], DEPTHS[-1]
        beside = took[f"{kind}{SHALLOW}", last]
        targets.append(Row(f"{kind}: depth {last:,} / depth {first}, side by side", took[kind, last] / beside, 1.5))
    targets.append(Row("16 threads / 1 thread", many[0] / one[0], 5.0, at_least=True))
    targets.append(Row("p99 / p50 of 16 threads", many[2] / many[1], 10.0))
    title = f"One-row writes into a table of {MILLION:,} rows, median ms, unflushed; threads of small inserts, flushed"
    return Table(title, ("what", *(f"depth {depth:,}" for depth in DEPTHS)), tuple(rows), tuple(targets))
