"""How much memory an answer takes, beside the topology and the columns that it is about.

Every question has a process of its own. What counts is how far its resident memory rises at most while it answers: over
what it was after opening the graph and asking for the names of the countries, so that the interpreter, imports, the
parser and the threads of the storage library are not counted, and without the code of libraries that was not needed
before. Beside it: the topology, as far as it was read (its pages that are resident, where it is mapped), and the
columns that the question names, whole.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.query_engines import OmniGraph
from benchmarks.report import Row, Table

LIMIT = 1.5
MB = 2**20
HEAD = (
    "question",
    "topology MB",
    "columns MB",
    "peak MB",
    "peak / both",
    "peak MB from a cold start",
    "peak MB, built",
)
_DERIVED = "/graph.omni/__derived/"


@dataclass(frozen=True)
class Footprint:
    """Megabytes of one answer: what it is about, and the most that it took."""

    topology: float
    columns: float
    peak: float
    from_start: float

    @property
    def ratio(self) -> float:
        return self.peak / (self.topology + self.columns)


def status(name: str) -> int:
    """A figure of this process in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) * 1024


def resident_files() -> tuple[int, int]:
    """Bytes of files in memory: topologies, and others, which are libraries."""
    found = [0, 0]
    is_derived, is_file = False, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name and " " in line and not name.isalpha() and not line.endswith("kB"):
            is_derived, is_file = _DERIVED in line, "/" in line
        elif name == "Rss" and is_file:
            found[0 if is_derived else 1] += int(rest.split()[0]) * 1024
    return found[0], found[1]


def answer(directory: Path, name: str) -> Footprint:
    """Ask one question (or several) in this process and see how far its memory rises."""
    for module in ("numpy", "pyarrow.compute", "omnigraph.graph"):
        importlib.import_module(module)
    start = status("VmRSS"), resident_files()[1]
    engine = OmniGraph(directory)
    engine.ask("countries", {})
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, (_, code) = status("VmRSS"), resident_files()
    for each in name.split(","):
        engine.ask(each, {})
    peak, (mapped, code_after) = status("VmHWM"), resident_files()
    executor = engine._graph.local.executor
    topology = mapped + sum(_owned_bytes(executor._cache._derived.values()))
    columns = sum(_column_bytes(engine, name))
    from_start = peak - start[0] - (code_after - start[1])
    return Footprint(topology / MB, columns / MB, (peak - before - (code_after - code)) / MB, from_start / MB)


def _owned_bytes(kept: Any) -> Iterator[int]:
    """Bytes of topologies that are not mapped."""
    for each in kept:
        for array in (getattr(each, name, None) for name in ("starts", "targets", "edges")):
            if array is not None and array.flags.owndata:
                yield array.nbytes


def _column_bytes(engine: OmniGraph, name: str) -> Iterator[int]:
    """Bytes of the columns that a question names, each once."""
    from omnigraph.execution.arrow.match import scope_of
    from omnigraph.query import compile_query, ir

    graph = engine._graph
    snapshot, catalog = graph.snapshot(), graph.catalog()
    asked = name.replace("q2", "most_followed,home").split(",")
    seen: set[tuple[str, str]] = set()
    for each in asked:
        query = compile_query(engine._text, catalog, name=each)
        nodes = scope_of(query.pattern).nodes
        data = graph.local.executor.data(snapshot, catalog)
        exprs = [*(c.expr for c in query.outputs), *(k.expr for k in query.order), *query.pattern.filters]
        props = [p for expr in exprs for p in ir.walk(expr) if isinstance(p, ir.Prop)]
        for type_name, prop in ((t, p.name) for p in props for t in nodes[p.var]):
            if (type_name, prop) not in seen:
                seen.add((type_name, prop))
                yield data.property_column(catalog.node(type_name), prop).nbytes


def footprint(directory: Path, name: str, *, kept: bool) -> Footprint:
    """One question in a fresh process, with the topologies that an earlier one kept or without any."""
    settings = {**os.environ, **({} if kept else {"OMNIGRAPH_DERIVED": "off"})}
    command = [sys.executable, "-m", "benchmarks.memory", str(directory), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    if done.returncode:
        raise RuntimeError(f"memory of {name} failed: {done.stderr[-2000:]}")
    return Footprint(**json.loads(done.stdout.splitlines()[-1]))


def table(title: str, directory: Path, names: tuple[str, ...]) -> Table:
    """The memory of some questions on a graph that is loaded and whose topologies are kept."""
    rows, targets = [], []
    for name in (*names, ",".join(names)):
        found, built = footprint(directory, name, kept=True), footprint(directory, name, kept=False)
        figures = (found.topology, found.columns, found.peak, found.ratio, found.from_start, built.peak)
        told = "all of them in one process" if "," in name else name
        rows.append((told, *(f"{figure:.1f}" for figure in figures)))
        targets.append(Row(f"{told}: peak memory / topology and columns", found.ratio, LIMIT))
        print(f"  memory {rows[-1]}", flush=True)
    return Table(title, HEAD, tuple(rows), tuple(targets))


if __name__ == "__main__":
    print(json.dumps(answer(Path(sys.argv[1]), sys.argv[2]).__dict__))
