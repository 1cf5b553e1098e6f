"""A tour in one minute: create a graph, load it, branch it, travel in time, and let two processes write at once.

Run it with `make demo`, or `python examples/demo.py`. It works in a temporary directory and leaves nothing behind.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from omnigraph import Graph
from omnigraph.cli.main import run as omnigraph

SAMPLE = Path(__file__).parent / "data" / "supply_chain"
WRITERS = ("ci-north", "ci-south")
COMMITS_EACH = 20

out = Console(highlight=False, soft_wrap=True)


def step(title: str) -> None:
    out.print(f"\n[bold cyan]{title}[/]")


def say(text: str) -> None:
    out.print(f"  {text}")


def cli(*arguments: str) -> None:
    """Run a command of the command line in this process, as a user would type it."""
    line = f"omnigraph {shlex.join(arguments)}"
    out.print(f"$ {line}", style="dim")
    sys.stdout.flush()
    if omnigraph(arguments) != 0:
        raise SystemExit(f"`{line}` failed")


def yanked(graph: Graph, at: str) -> int:
    """How many releases are withdrawn, as of a branch, tag or commit."""
    return pc.sum(graph.rows("node:Release", at=at)["yanked"].cast(pa.int32())).as_py()


def create_and_load(uri: str) -> Graph:
    # The command line finds the graph here when no --store names one.
    os.environ["OMNIGRAPH_STORE"] = uri
    step("1. Create a graph from a schema and load 987 nodes and edges in one commit")
    sample = os.path.relpath(SAMPLE)
    cli("init", "--schema", f"{sample}/schema.pg", "--quiet")
    cli("load", "--data", f"{sample}/graph.jsonl", "--mode", "append", "--as", "demo", "--message", "Import", "--quiet")
    cli("snapshot")
    return Graph.open(uri)


def try_something_on_a_branch(graph: Graph) -> None:
    step("2. Branch: withdraw every release that a critical advisory affects, and remove a maintainer")
    graph.branches.create("what-if")
    advisories = graph.rows("node:Advisory")
    critical = advisories.filter(pc.equal(advisories["severity"], "critical"))["id"]
    affects = graph.rows("edge:Affects")
    affected = affects.filter(pc.is_in(affects["src"], critical.combine_chunks()))["dst"]
    releases = graph.rows("node:Release")
    bad = releases.filter(pc.is_in(releases["id"], affected.combine_chunks()))
    bad = bad.set_column(bad.schema.get_field_index("yanked"), "yanked", pa.array([True] * bad.num_rows))
    graph.load({"Release": bad}, mode="merge", branch="what-if", actor="demo", message="Yank what is critical")
    person = graph.rows("node:Maintainer")["id"][0].as_py()
    gone = graph.delete("Maintainer", [person], branch="what-if", actor="demo", message=f"Remove {person}")
    say(f"{len(critical)} critical advisories affect {bad.num_rows} releases.")
    say(f"Removing {person} took {gone.affected_edges} edges along.")
    say(f"Withdrawn releases on what-if: [bold]{yanked(graph, 'what-if')}[/].")
    say(f"Main is untouched: [bold]{yanked(graph, 'main')}[/] withdrawn releases there.")


def travel_in_time(graph: Graph) -> None:
    step("3. Time travel: change a package on main, then read it as it was")
    loaded = graph.commits.head()
    package = graph.rows("node:Package").slice(0, 1)
    name = package["name"][0].as_py()
    renamed = package.set_column(package.schema.get_field_index("license"), "license", pa.array(["AGPL-3.0-only"]))
    graph.load({"Package": renamed}, mode="merge", actor="legal", message=f"Relicense {name}")
    was = graph.entity_at("node:Package", name, loaded.manifest_version)
    now = graph.entity_at("node:Package", name)
    say(f"{name} at version {loaded.manifest_version}: [bold]{was['license']}[/]; now: [bold]{now['license']}[/].")
    old, new = graph.snapshot_at_version(1), graph.snapshot()
    say(f"Version {old.version} held {entities(old)} entities, version {new.version} holds {entities(new)}.")


def entities(snapshot) -> int:
    return sum(table.row_count for table in snapshot.tables.values())


def name_a_state(graph: Graph) -> None:
    step("4. Tag: a name for the state before the change, which cleanup will keep")
    tag = graph.tags.create("before-relicensing", at=2)
    say(f"tag {tag.name} names {tag.branch} version {tag.manifest_version}, commit {tag.graph_commit_id}")
    cli("log", "--graph", "--all")


def publish_releases(uri: str, writer: str) -> None:
    """One writer process: each commit adds a release and the edge to its package."""
    graph = Graph.open(uri)
    for number in range(COMMITS_EACH):
        purl = f"amber-http@1.{number}.0+{writer}"
        release = {"purl": purl, "version": f"1.{number}.0", "published": "2024-03-01T06:00:00Z", "yanked": False}
        rows = [{"type": "Release", "data": release}, {"edge": "ReleaseOf", "from": purl, "to": "amber-http"}]
        graph.load(rows, mode="append", actor=writer, message=f"Release {purl}")


def write_from_two_processes(graph: Graph) -> None:
    step(f"5. Two processes write to main at once, {COMMITS_EACH} commits each, a node and an edge in every commit")
    began = time.perf_counter()
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=publish_releases, args=(graph.uri, writer)) for writer in WRITERS]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    took = time.perf_counter() - began
    if any(process.exitcode != 0 for process in processes):
        raise SystemExit("a writer failed")
    counts = {writer: len(graph.commits.list(actor=writer)) for writer in WRITERS}
    for writer, count in counts.items():
        say(f"{writer}: {count} commits")
    say(f"[bold]{sum(counts.values())} of {COMMITS_EACH * len(WRITERS)} commits are there[/], none was lost.")
    say(f"It took {took:.1f} s, the start of both processes included.")
    if set(counts.values()) != {COMMITS_EACH}:
        raise SystemExit("a commit is missing")
    cli("log", "--graph", "--limit", "6")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-demo-") as directory:
        graph = create_and_load(f"{directory}/supply-chain.omni")
        try_something_on_a_branch(graph)
        travel_in_time(graph)
        name_a_state(graph)
        write_from_two_processes(graph)
    out.print("\n[green]Done.[/] The graph was temporary. To keep one: `omnigraph init my.omni --schema schema.pg`.")


if __name__ == "__main__":
    main()
