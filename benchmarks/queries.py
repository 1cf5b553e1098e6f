"""Queries on the social graph against embedded peers: warm, cold in a fresh process, and point operations.

Answers are compared: an engine that answers differently stops the run. Cold is opening the store and the first answer
in a fresh process, imports left out and the page cache warm; for this project once with the topology that an earlier
process kept and once without any.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import memory
from benchmarks.query_engines import ENGINES, GRAPH, POLARS, SQL, write_parquet
from benchmarks.report import Row, Table, sized
from benchmarks.social import social

PERSONS = int(os.environ.get("BENCH_PERSONS", sized("100000", quick="2000")))
WARM = tuple(f"q{i}" for i in range(1, 10))
POINTS = ("lookup", "hop1", "hop2", "hop3", "within3", "path")
KEYS = (1, 42, 777, 5000, 99999)
PAIRS = ((1, 2), (42, 777), (5000, 99999), (31337, 271), (8, 80008))
RUNS = sized(7, quick=2)
NOTHING_KEPT = " (nothing kept)"
LOADING = ("engine", "s", "MB at most, loading", "MB at most, answering")
WARM_TARGETS = {
    "q1": (("duckdb", "polars"), 0.2), "q2": (("duckdb", "polars"), 0.2), "q3": (("duckdb",), 0.5),
    "q4": (("duckdb", "polars"), 0.5), "q5": (("duckdb",), 0.5), "q6": (("duckdb",), 0.5), "q7": (("duckdb",), 0.5),
    "q8": (("kuzu",), 0.2), "q9": (("kuzu", "duckdb"), 0.1),
}  # fmt: skip
COLD_TARGETS = {
    "q1": (("duckdb",), 0.5), "q3": (("duckdb",), 1.0), "q4": (("duckdb",), 1.0), "q5": (("duckdb",), 1.0),
    "q8": (("duckdb",), 0.5), "q9": (("duckdb",), 0.5),
}  # fmt: skip
POINT_TARGETS = {
    "lookup": (("duckdb",), 1.0), "hop1": (("duckdb",), 1.0), "hop2": (("ladybug",), 1.0), "hop3": (("ladybug",), 0.5),
    "within3": (("ladybug",), 0.1), "path": (("kuzu",), 0.1),
}  # fmt: skip
Times = dict[str, dict[str, float]]


def can(engine: str, name: str) -> bool:
    """Whether an engine is asked a question."""
    known = {"omnigraph": GRAPH, "kuzu": GRAPH, "ladybug": GRAPH, "duckdb": SQL, "polars": POLARS}
    return name in known[engine]


def arguments(name: str) -> list[dict[str, int]]:
    if name == "path":
        return [{"a": a % PERSONS or 1, "b": b % PERSONS or 2} for a, b in PAIRS]
    return [{"k": (k - 1) % PERSONS + 1} for k in KEYS] if name in POINTS else [{}]


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in rows]


def timed(engine: Any, names: tuple[str, ...]) -> tuple[dict[str, float], dict[str, Any]]:
    """Median milliseconds of each question, after one run that is not counted, and the answers."""
    found: dict[str, float] = {}
    answers: dict[str, Any] = {}
    for name in names:
        if not can(engine.name, name):
            continue
        for given in arguments(name):
            answers[f"{name} {given}"] = rounded(engine.ask(name, given))
        took = []
        for _ in range(RUNS):
            for given in arguments(name):
                begun = time.perf_counter()
                engine.ask(name, given)
                took.append((time.perf_counter() - begun) * 1000)
        found[name] = statistics.median(took)
    return found, answers


def in_process(directory: Path, engine: str, what: str, persons: int = PERSONS) -> Any:
    """Two of the engines cannot live in one process, so each has its own."""
    command = [sys.executable, "-m", "benchmarks.queries", str(directory), engine, what]
    settings = {**os.environ, "BENCH_PERSONS": str(persons)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    if done.returncode:
        raise RuntimeError(f"{engine} {what} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def cold(directory: Path, engine: str, name: str) -> float:
    """Milliseconds to open and answer in a fresh process: the median of three."""
    return statistics.median(float(in_process(directory, engine, name)) for _ in range(3))


def peak_memory() -> float:
    """Megabytes that this process has held at once so far. The kernel's `ru_maxrss` would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def worker(directory: Path, engine_name: str, what: str) -> None:
    """What one engine does in its own process: load, answer everything, or one cold answer."""
    engine = next(e for e in ENGINES if e.name == engine_name.removesuffix(NOTHING_KEPT))
    if engine_name.endswith(NOTHING_KEPT):
        os.environ["OMNIGRAPH_DERIVED"] = "off"
    own = "omnigraph.graph" if engine.name == "omnigraph" else engine.name
    for module in ("numpy", "pyarrow.compute", "pyarrow.parquet", own):
        importlib.import_module(module)
    begun = time.perf_counter()
    if what == "load":
        engine.load(directory)
        print(json.dumps(((time.perf_counter() - begun), peak_memory())))
        return
    if "," in what:
        opened = engine(directory)
        found = timed(opened, tuple(what.split(",")))
        opened.settle()
        print(json.dumps((*found, peak_memory())))
        return
    engine(directory).ask(what, {})
    print(json.dumps((time.perf_counter() - begun) * 1000))


def table(title: str, times: Times, names: tuple[str, ...], targets: dict[str, tuple[tuple[str, ...], float]]) -> Table:
    def cell(engine: str, name: str) -> str:
        return f"{times[engine][name]:.2f}" if name in times[engine] else "-"

    rows = []
    for name, (peers, limit) in targets.items():
        peer = min(peers, key=lambda p: times[p].get(name, float("inf")))
        if name in times["omnigraph"] and name in times[peer]:
            rows.append(Row(f"{name} / {peer}", times["omnigraph"][name] / times[peer][name], limit))
    cells = tuple((engine, *(cell(engine, name) for name in names)) for engine in times)
    return Table(title, ("engine", *names), cells, tuple(rows))


@dataclass(frozen=True)
class Asked:
    """What every engine did with one graph: loading, answering, and the memory of both."""

    loading: tuple[tuple[str, ...], ...]
    times: Times

    def of(self, names: tuple[str, ...]) -> Times:
        """The times of some questions, of the engines that answer any of them."""
        found = {e: {n: t for n, t in times.items() if n in names} for e, times in self.times.items()}
        return {engine: times for engine, times in found.items() if times}


def ask_all(directory: Path, engines: tuple[str, ...], names: tuple[str, ...], persons: int) -> Asked:
    """Load every engine and ask it; an answer that differs from the first one stops the run."""
    loading: list[tuple[str, ...]] = []
    answers: dict[str, Any] = {}
    times: Times = {}
    for engine in engines:
        seconds, at_load = in_process(directory, engine, "load", persons)
        times[engine], found, at_work = in_process(directory, engine, ",".join(names), persons)
        for key, rows in found.items():
            assert answers.setdefault(key, rows) == rows, f"{engine} answers {key} with {rows}, not {answers[key]}"
        loading.append((engine, f"{seconds:.1f}", f"{at_load:.0f}", f"{at_work:.0f}"))
        print(f"  {loading[-1]} {times[engine]}", flush=True)
    return Asked(tuple(loading), times)


def measure(directory: Path) -> list[Table]:
    """Load every engine, ask all of them, compare."""
    tables = social(PERSONS, 7)
    write_parquet(directory, tables)
    asked = ask_all(directory, tuple(e.name for e in ENGINES), (*WARM, *POINTS), PERSONS)
    fresh: Times = {}
    for engine_name in ("omnigraph", f"omnigraph{NOTHING_KEPT}", "kuzu", "ladybug", "duckdb", "polars"):
        known = engine_name.split(" ")[0]
        fresh[engine_name] = {n: cold(directory, engine_name, n) for n in COLD_TARGETS if can(known, n)}
        print(f"  cold {engine_name}: {fresh[engine_name]}", flush=True)
    head = f"{PERSONS:,} persons, {tables['edges/follows'].num_rows:,} follows"
    return [
        Table(f"Loading the social graph ({head})", LOADING, asked.loading, ()),
        table("Queries, warm, milliseconds (median)", asked.of(WARM), WARM, WARM_TARGETS),
        table(
            "Queries, cold, milliseconds (fresh process, opening included)", fresh, tuple(COLD_TARGETS), COLD_TARGETS
        ),
        table("Point operations, warm, milliseconds (median)", asked.of(POINTS), POINTS, POINT_TARGETS),
        memory.table(f"Memory of an answer, megabytes ({head})", directory, WARM),
    ]


if __name__ == "__main__":
    worker(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
