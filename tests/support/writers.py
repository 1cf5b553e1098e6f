"""The kinds of writers that the crash matrix kills: what stands before, and the one operation that is interrupted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

from omnigraph import Graph
from omnigraph.storage.failpoints import Point
from tests.support.graphs import EXPIRED, SMALL, crash_at, knows, people

ACTOR = "tester"
MESSAGE = "the operation"
FAN = 120
"""More edges than a change list keeps inline."""


EVOLVED = """
node Human @rename_from("Person") { name: String @key  age: I64?  city: String?  level: I32 @default(1) }
node Company { name: String @key }
node Pet { name: String @key }
edge Knows: Human -> Human { since: I32? }
edge WorksAt: Human -> Company
edge Owns: Human -> Pet
"""


@dataclass(frozen=True)
class Writer:
    """`prepare` makes the graph (None: there is none yet); `run` is the operation."""

    run: Callable[[str], object]
    prepare: Callable[[str], object] | None = None


def small_graph(uri: str) -> Graph:
    """Three persons, two of whom know each other."""
    graph = Graph.init(uri, SMALL)
    graph.load({"Person": people("ann", "bob", "cyd"), "Knows": knows(("ann", "bob"))})
    return graph


def _single_append(uri: str) -> None:
    Graph.open(uri).load({"Person": people("dan")}, actor=ACTOR, message=MESSAGE)


def _append_and_fold(uri: str) -> None:
    graph = Graph.open(uri)
    graph.load({"Person": people("dan")}, actor=ACTOR, message=MESSAGE)
    graph.repository.store.wait_for_background_work()


def _multi_append(uri: str) -> None:
    data = {"Person": people("dan", "eve"), "Knows": knows(("dan", "eve"), ("dan", "ann"))}
    Graph.open(uri).load(data, actor=ACTOR, message=MESSAGE)


def _merge(uri: str) -> None:
    data = {"Person": people("ann", "dan", age=9), "Knows": knows(("ann", "bob"), ("ann", "dan"))}
    Graph.open(uri).load(data, "merge", actor=ACTOR, message=MESSAGE)


def _overwrite(uri: str) -> None:
    data = {"Person": people("cyd", "dan"), "Knows": knows(("dan", "cyd"))}
    Graph.open(uri).load(data, "overwrite", actor=ACTOR, message=MESSAGE)


def _fan(uri: str) -> None:
    names = [f"p{i}" for i in range(FAN)]
    small_graph(uri).load({"Person": people(*names), "Knows": knows(*(("ann", name) for name in names))})


def _delete(uri: str) -> None:
    Graph.open(uri).delete("Person", ["ann"], actor=ACTOR, message=MESSAGE)


def _branch(uri: str) -> None:
    Graph.open(uri).branches.create("dev")


def _branch_from_commit(uri: str) -> None:
    graph = Graph.open(uri)
    graph.branches.create("dev", graph.commits.list()[-1].graph_commit_id)


def _with_branch(uri: str) -> None:
    graph = small_graph(uri)
    graph.branches.create("dev")
    graph.load({"Person": people("dev-only")}, branch="dev")


def _delete_branch(uri: str) -> None:
    Graph.open(uri).branches.delete("dev")


def _tag(uri: str) -> None:
    Graph.open(uri).tags.create("v1")


def _init(uri: str) -> None:
    Graph.init(uri, SMALL)


def _one_by_one(count: int) -> Callable[[str], None]:
    def prepare(uri: str) -> None:
        graph = small_graph(uri)
        for i in range(count):
            graph.load({"Person": people(f"p{i}")})
            graph.repository.store.wait_for_background_work()  # folded in the same place in every run

    return prepare


def _crashed(operation: Callable[[str], None], point: Point) -> Callable[[str], None]:
    def prepare(uri: str) -> None:
        small_graph(uri)
        with crash_at(point):
            operation(uri)

    return prepare


def _recover(uri: str) -> None:
    Graph.open(uri, settings=EXPIRED)


def _diverged(uri: str) -> None:
    graph = small_graph(uri)
    graph.branches.create("dev")
    graph.load({"Person": people("dan", age=4), "Knows": knows(("dan", "ann"))}, branch="dev")
    graph.delete("Person", ["cyd"], "dev")
    graph.load({"Person": people("eve", age=5)})


def _ahead(uri: str) -> None:
    graph = small_graph(uri)
    graph.branches.create("dev")
    graph.load({"Person": people("dan", age=4), "Knows": knows(("dan", "ann"))}, branch="dev")


def _diverged_schemas(uri: str) -> None:
    graph = small_graph(uri)
    graph.branches.create("dev")
    graph.schema.apply(EVOLVED, branch="dev")
    graph.load({"Human": [{"name": "dan", "city": "Rome"}]}, branch="dev")
    graph.load({"Person": people("eve", age=5)})


def _merge_branch(uri: str) -> None:
    Graph.open(uri).branches.merge("dev", actor=ACTOR, message=MESSAGE)


def _schema_apply(uri: str) -> None:
    Graph.open(uri).schema.apply(EVOLVED, actor=ACTOR, message=MESSAGE)


def _optimize(uri: str) -> None:
    Graph.open(uri).maintenance.optimize(actor=ACTOR)


def _cleanup(uri: str) -> None:
    # Not for a while only: that is a switch of the whole process, and cases run in threads.
    warnings.filterwarnings("ignore", "keeping 1 versions", UserWarning)
    Graph.open(uri).maintenance.cleanup(keep=1, grace=0, confirm=True, force=True)


WRITERS = {
    "merge_rows": Writer(_merge_branch, _diverged),
    "merge_forward": Writer(_merge_branch, _ahead),
    "merge_schemas": Writer(_merge_branch, _diverged_schemas),
    "schema_apply": Writer(_schema_apply, small_graph),
    "single_append": Writer(_single_append, small_graph),
    "multi_append": Writer(_multi_append, small_graph),
    "merge": Writer(_merge, small_graph),
    "overwrite": Writer(_overwrite, small_graph),
    "cascading_delete": Writer(_delete, _fan),
    "branch_create": Writer(_branch, small_graph),
    "branch_from_commit": Writer(_branch_from_commit, small_graph),
    "branch_delete": Writer(_delete_branch, _with_branch),
    "tag_create": Writer(_tag, small_graph),
    "init": Writer(_init),
    "optimize": Writer(_optimize, _one_by_one(2)),
    "cleanup": Writer(_cleanup, small_graph),
    # The write that leaves one fragment too many folds the table; 63 more follow the one of the small graph.
    "fold": Writer(_append_and_fold, _one_by_one(63)),
    # The commit that is one too many to stay inline settles history.
    "settle": Writer(_single_append, _one_by_one(251)),
    "recovery_forward": Writer(_recover, _crashed(_multi_append, Point.INTENT_COMPLETED)),
    "recovery_back": Writer(_recover, _crashed(_multi_append, Point.INTENT_BEGUN)),
    "recovery_of_published": Writer(_recover, _crashed(_multi_append, Point.BEFORE_ACK)),
}
