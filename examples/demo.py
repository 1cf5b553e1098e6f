"""A tour in a minute: load a graph with Spark, ask it, branch and merge it, travel in time, write from two processes.

Run it with `make demo` or `python examples/demo.py [FOLDER]`. It leaves a graph in `demo/`; the next run makes it anew.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from omnigraph import Graph
from omnigraph.cli.main import run as omnigraph

SAMPLE = Path(__file__).parent / "data" / "supply_chain"
sys.path.insert(0, str(SAMPLE))
from extracts import write_extracts  # noqa: E402 - the sample data brings its own writer

WRITERS = ("ci-north", "ci-south")
COMMITS_EACH = 20

out = Console(highlight=False, soft_wrap=True)


began: list[tuple[str, float]] = []
"""The steps, and when each began."""


def step(title: str) -> None:
    end_step()
    began.append((title.partition(":")[0], time.perf_counter()))
    out.print(f"\n[bold cyan]{title}[/]")


def end_step() -> None:
    if began:
        out.print(f"  [dim]({time.perf_counter() - began[-1][1]:.1f} s)[/]")


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


def create_and_load(directory: Path) -> Graph:
    # The command line finds the graph here when no --store names one.
    uri = str(directory / "supply-chain.omni")
    os.environ["OMNIGRAPH_STORE"] = uri
    step("1. Create a graph, and load files of three formats into it with Spark, all in one commit")
    cli("init", "--schema", os.path.relpath(SAMPLE / "schema.pg"), "--quiet")
    files = write_extracts(directory)
    say(f"{len(files)} files: {', '.join(files)}")
    job = shutil.copy(SAMPLE / "pipeline.yaml", directory)
    cli("pipeline", "validate", job)
    say("Starting Spark takes a few seconds, whatever the size of the load.")
    cli("pipeline", "run", job, "--master", "local[2]")
    graph = Graph.open(uri)
    report = graph.maintenance.repair()
    sound = all(table.classification == "no_drift" for table in report.tables) and not report.damaged_manifests
    say(f"Checked {entities(graph.snapshot())} entities in {len(report.tables)} tables: {'sound' if sound else 'BAD'}.")
    return graph


QUESTIONS = """
query exposed() {
  match {
    $a: Advisory { severity: "critical" }
    $a affects $r
    $r releaseOf $p
  }
  return { $p.name as package, count(distinct $a) as advisories, max($a.score) as worst }
  order { worst desc, package }
  limit 5
}
query behind($package: String) {
  match {
    $p: Package { name: $package }
    $m maintains $p
    optional { $m memberOf $o }
  }
  return { $m.handle, $m.two_factor, $o.slug as organization }
  order { $m.handle }
}
"""


def ask(graph: Graph, directory: Path) -> None:
    step("2. Ask: which packages have critical advisories, and who looks after the worst of them?")
    out.print(QUESTIONS.strip(), style="dim")
    file = directory / "questions.gq"
    file.write_text(QUESTIONS)
    cli("query", "exposed", "--query", str(file))
    worst = graph.query(QUESTIONS, "exposed").to_pylist()[0]["package"]
    cli("query", "behind", "--query", str(file), "--params", f'{{"package": "{worst}"}}')
    on_spark = graph.query(QUESTIONS, "exposed", engine="spark").to_pylist()
    same = on_spark == graph.query(QUESTIONS, "exposed").to_pylist()
    say(f"Answered by Spark: {'the same rows' if same else 'OTHER ROWS'}.")


def try_something_on_a_branch(graph: Graph) -> None:
    step("3. Branch: withdraw every release that a critical advisory affects, and remove a maintainer")
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


def merge_with_a_conflict(graph: Graph) -> None:
    step("4. Merge: both sides changed one package, so the merge stops, shows the conflict, and is told how to decide")
    for branch, downloads, actor in (("what-if", 1, "demo"), ("main", 2, "metrics")):
        package = graph.rows("node:Package", at=branch).slice(1, 1)
        place = package.schema.get_field_index("weekly_downloads")
        changed = package.set_column(place, "weekly_downloads", pa.array([downloads], pa.int64()))
        graph.load({"Package": changed}, mode="merge", branch=branch, actor=actor, message="Count downloads")
    cli("branch", "merge", "what-if", "--dry-run", "--quiet")
    cli("branch", "merge", "what-if", "--strategy", "Package=ours", "--as", "demo", "--quiet")
    say(f"Withdrawn releases on main now: [bold]{yanked(graph, 'main')}[/].")


def travel_in_time(graph: Graph) -> str:
    step("5. Time travel: change a package on main, then read it as it was")
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
    return name


def entities(snapshot) -> int:
    return sum(table.row_count for table in snapshot.tables.values())


def name_a_state(graph: Graph) -> None:
    step("6. Tag: a name for the state right after the import, which cleanup will keep")
    tag = graph.tags.create("as-imported", at=2)
    say(f"tag {tag.name} names {tag.branch} version {tag.manifest_version}, commit {tag.graph_commit_id}")
    cli("log", "--graph", "--all")


def take_back(graph: Graph, name: str) -> None:
    step("7. Take one commit back: the new license goes, everything else stays")
    cli("revert", "main", "--as", "legal", "--quiet")
    say(f"{name} is licensed under [bold]{graph.entity_at('Package', name)['license']}[/] again.")


def publish_releases(uri: str, writer: str) -> None:
    """One writer process: each commit adds a release and the edge to its package."""
    graph = Graph.open(uri)
    for number in range(COMMITS_EACH):
        purl = f"amber-http@1.{number}.0+{writer}"
        release = {"purl": purl, "version": f"1.{number}.0", "published": "2024-03-01T06:00:00Z", "yanked": False}
        rows = [{"type": "Release", "data": release}, {"edge": "ReleaseOf", "from": purl, "to": "amber-http"}]
        graph.load(rows, mode="append", actor=writer, message=f"Release {purl}")


def write_from_two_processes(graph: Graph) -> None:
    step(f"8. Two processes write to main at once, {COMMITS_EACH} commits each, a node and an edge in every commit")
    start = time.perf_counter()
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=publish_releases, args=(graph.uri, writer)) for writer in WRITERS]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    took = time.perf_counter() - start
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


def preview_cleanup(graph: Graph) -> None:
    step("9. Cleanup: what old versions could go, told before anything is deleted")
    report = graph.maintenance.cleanup(keep=10, grace=0)
    say(
        f"Keeping 10 versions of each branch, tagged ones and merge bases: {report.manifest_versions_removed} could go."
    )


NEXT = """\
[green]Done[/] in {seconds:.0f} s. The graph is in {folder}/. Try it:

  export OMNIGRAPH_STORE={folder}/supply-chain.omni
  {program} log --graph --all
  {program} query exposed --query {folder}/questions.gq --at as-imported
  {program} diff main~1 main
  {program} shell
"""


def main(folder: str = "demo") -> None:
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(directory / "supply-chain.omni", ignore_errors=True)
    start = time.perf_counter()
    graph = create_and_load(directory)
    ask(graph, directory)
    try_something_on_a_branch(graph)
    merge_with_a_conflict(graph)
    relicensed = travel_in_time(graph)
    name_a_state(graph)
    take_back(graph, relicensed)
    write_from_two_processes(graph)
    preview_cleanup(graph)
    end_step()
    graph.spark.session.stop()
    program = os.path.relpath(Path(sys.executable).parent / "omnigraph")
    out.print("\n" + NEXT.format(seconds=time.perf_counter() - start, folder=folder, program=program))


if __name__ == "__main__":
    main(*sys.argv[1:2])
