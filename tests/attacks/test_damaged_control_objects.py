"""One flipped bit in any control object: the right answer, or a typed error that names the object."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import OmnigraphError
from omnigraph.versioning import history
from omnigraph.versioning.store import mint
from tests.attacks.test_attacks import plan_of
from tests.conftest import SCHEMA
from tests.maintenance.scenes import sweep
from tests.support.damage import flipped, replaced
from tests.support.graphs import EXPIRED, expire_intents, publish_nothing
from tests.support.rows import knows, person

PARTS = (
    "__refs",
    "__tags",
    "__schema",
    "__history",
    "__recovery",
    "__gc",
    "__changes",
    "__locks",
    "_graph_commit_recoveries.lance",
)
ROUNDS = 4


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that has a control object of every kind."""
    root = tmp_path_factory.mktemp("control") / "g"
    graph = Graph.init(root, SCHEMA)
    for _ in range(history.INLINE_MAX):
        publish_nothing(graph)
    sweep(graph)
    graph.load([*(person(f"p{i}") for i in range(150)), knows("p1", "p2")])
    graph.tags.create("v0")
    graph.delete("Person", [f"p{i}" for i in range(20, 140)])
    graph.branches.create("feature")
    graph.branches.create("gone")
    graph.branches.delete("gone")
    graph.tags.create("v1")
    recovered = Graph.open(root, settings=EXPIRED)
    plan_of(recovered, "recovered", has_intent=True)
    expire_intents(root)
    recovered.recovery.run()
    plan_of(graph, "pending", has_intent=True)
    expire_intents(root)
    entry = graph.snapshot().tables["node:Person"]
    listed = {"pins": [f"{entry.location}@{2**63 + 5}"], "objects": ["__changes/x.json"]}
    graph.repository.store.objects.put_new_json(f"__gc/{mint()}.json", listed)
    return root


def control_files(root: Path) -> list[Path]:
    found = (path for part in PARTS for path in (root / part).rglob("*"))
    return sorted(path for path in found if path.is_file() and path.stat().st_size)


def read_all(root: Path) -> Any:
    """Everything that the control objects of a graph lead to."""
    graph = Graph.open(root, mode="ro")
    start = next(tag.graph_commit_id for tag in graph.tags.list() if tag.name == "v0")
    return (
        {
            key: graph.rows(key, target).num_rows
            for target in ("main", "feature", "v1")
            for key in graph.snapshot().tables
        },
        [branch.name for branch in graph.branches.list()],
        [tag.name for tag in graph.tags.list()],
        [commit.graph_commit_id for commit in graph.commits.walk()],
        graph.recovery.audit(),
        sum(1 for block in graph.changes(start=f"after:{start}") for _ in block.changes),
        graph.maintenance.cleanup(keep=10).manifest_versions_removed,
    )


def answer(root: Path) -> Any:
    """What is read, or the message of the typed error."""
    try:
        return read_all(root)
    except OmnigraphError as error:
        return error.message


def test_every_kind_is_there(root: Path) -> None:
    assert {path.relative_to(root).parts[0] for path in control_files(root)} == set(PARTS)
    assert [intent.state for intent in Graph.open(root, mode="ro").recovery.list()] == ["publishable"]


def test_reads_are_right_or_name_the_damaged_object(root: Path) -> None:
    wanted = read_all(root)
    rng = random.Random(11)
    named = 0
    for file in control_files(root):
        path = file.relative_to(root).as_posix()
        body = file.read_bytes()
        for damaged in (*(flipped(body, rng.randrange(8 * len(body))) for _ in range(ROUNDS)), body[: len(body) // 2]):
            with replaced(file, damaged):
                found = answer(root)
            assert found == wanted or path in str(found), path
            named += found != wanted
    assert named > 30


def test_recovery_passes_over_a_damaged_intent_and_fsck_names_it(root: Path, tmp_path: Path) -> None:
    rng = random.Random(12)
    for number, file in enumerate(path for path in control_files(root) if path.parent.name == "__recovery"):
        copy = tmp_path / str(number)
        shutil.copytree(root, copy)
        expire_intents(copy)
        victim = copy / file.relative_to(root)
        victim.write_bytes(flipped(victim.read_bytes(), rng.randrange(8 * victim.stat().st_size)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            graph = Graph.open(copy, settings=EXPIRED)
            assert graph.recovery.run() == []
        assert victim.exists()
        said = "\n".join(problem.message for problem in graph.maintenance.fsck().problems)
        assert victim.name in said
