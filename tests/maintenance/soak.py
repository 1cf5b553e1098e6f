"""One process of the soak test: a bit of everything, for ever, beside others that do the same and are killed.

`python -m tests.maintenance.soak URI FOLDER SEED SETTINGS`: what was acknowledged is appended to `FOLDER/acks`; an
error that nobody expects goes to `FOLDER/errors` and ends the process. It says `ready` once it has begun.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnigraph import Graph
from omnigraph.errors import ConflictError, HistoricalVersionReclaimed, NotFound, OmnigraphError, OutcomeUnknown
from omnigraph.versioning.store import Settings, mint
from tests.support.graphs import knows, people, twins

BRANCHES = ("main", "dev")


def digest(graph: Graph, at: Any) -> str:
    """The rows of a snapshot, in short."""
    body = hashlib.sha256()
    for key in sorted(graph.snapshot(at).tables):
        rows = sorted(str(sorted(row.items())) for row in graph.rows(key, at).to_pylist())
        body.update(f"{key} {rows}".encode())
    return body.hexdigest()


class Soaker:
    """Random operations on one graph."""

    def __init__(self, uri: str, folder: Path, seed: int, settings: Settings) -> None:
        self.graph = Graph.open(uri, settings=settings)
        self.chance = random.Random(seed)
        self.folder = folder
        self.mine: list[str] = []

    def run(self) -> None:
        actions: dict[Callable[[], None], int] = {
            self.append: 8, self.upsert: 4, self.befriend: 4, self.unfriend: 2, self.side_branch: 2, self.tag: 2,
            self.read_pinned: 3, self.optimize: 2, self.cleanup: 3,
        }  # fmt: skip
        while True:
            [action] = self.chance.choices(list(actions), list(actions.values()))
            try:
                action()
            except (OutcomeUnknown, HistoricalVersionReclaimed, NotFound):
                continue
            except OmnigraphError as error:
                if not (isinstance(error, ConflictError) or error.retryable):
                    raise

    def acknowledge(self, **value: Any) -> None:
        descriptor = os.open(self.folder / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, (json.dumps(value) + "\n").encode())
        finally:
            os.close(descriptor)

    def append(self) -> None:
        branch, txn = self.chance.choice(BRANCHES), mint()
        commit = self.graph.load(twins(txn), branch=branch).commit
        self.acknowledge(branch=branch, commit=commit.graph_commit_id, kept=["node:Left", txn])

    def upsert(self) -> None:
        branch, txn = self.chance.choice(BRANCHES), mint()
        rows = twins(f"hot-{self.chance.randrange(6)}", txn, value=self.chance.randrange(1000))
        commit = self.graph.load(rows, "merge", branch).commit
        self.acknowledge(branch=branch, commit=commit.graph_commit_id, kept=["node:Right", txn])

    def befriend(self) -> None:
        name = mint()
        data: dict[str, Any] = {"Person": people(name)}
        if self.mine:
            data["Knows"] = knows((name, self.chance.choice(self.mine)))
        self.graph.load(data)
        self.mine.append(name)

    def unfriend(self) -> None:
        if self.mine:
            self.graph.delete("Person", [self.mine.pop()])

    def side_branch(self) -> None:
        """Begin a branch at the head or in the past, write to it, perhaps merge it, and delete it."""
        name, txn = f"side-{mint()}", mint()
        commits = self.graph.commits.list(limit=5)
        self.graph.branches.create(name, self.chance.choice(commits).graph_commit_id)
        try:
            self.graph.load(twins(txn), branch=name)
            if self.chance.random() < 0.3:
                self.graph.maintenance.optimize(name)
            if self.chance.random() < 0.7:
                commit = self.graph.branches.merge(name).commit
                self.acknowledge(branch="main", commit=commit.graph_commit_id, kept=["node:Left", txn])
        finally:
            self.graph.branches.delete(name)

    def tag(self) -> None:
        name = f"tag-{mint()}"
        self.graph.tags.create(name, self.chance.choice((None, "dev")))
        self.acknowledge(tag=name, digest=digest(self.graph, name))

    def read_pinned(self) -> None:
        """A reader keeps its snapshot: later it reads the very same, or is told that it was reclaimed."""
        commit = self.chance.choice(self.graph.commits.list(self.chance.choice(BRANCHES), limit=6)).graph_commit_id
        first = digest(self.graph, commit)
        time.sleep(self.chance.random())
        again = digest(Graph.open(self.graph.uri, mode="ro"), commit)
        if again != first:
            raise AssertionError(f"{commit} changed")
        self.acknowledge(read=commit)

    def optimize(self) -> None:
        self.graph.maintenance.optimize(self.chance.choice(BRANCHES))
        self.acknowledge(optimized=True)

    def cleanup(self) -> None:
        report = self.graph.maintenance.cleanup(1, 0, confirm=True)
        errors = [table.error for table in report.tables if table.error]
        if errors:
            raise AssertionError(errors)
        self.acknowledge(removed=report.objects_removed)


def main(uri: str, folder: str, seed: str, settings: str) -> None:
    warnings.simplefilter("ignore")
    try:
        soaker = Soaker(uri, Path(folder), int(seed), Settings(**json.loads(settings)))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        soaker.run()
    except BaseException:
        with (Path(folder) / "errors").open("a") as out:
            out.write(traceback.format_exc())
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
