"""A precondition that was lost is said first: what else is wrong with a write does not matter any more."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, PreconditionFailed
from tests.support.rows import person

QUERIES = """
query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }
query none() { delete Person where name = "nobody" }
"""


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_lost_head_comes_before_rows_that_clash_or_are_bad(local_graph: Graph, mode: Any) -> None:
    local_graph.load([person("a")])
    old = local_graph.commits.head().graph_commit_id
    local_graph.load([person("b")])
    head = local_graph.commits.head().graph_commit_id
    bad: list[Any] = [
        [person("a")],
        [{"type": "Person", "data": {}}],
        [5],
        [{"edge": "Knows", "from": "a", "to": "x"}],
        [],
    ]
    for rows in bad:
        for dry_run in (False, True):
            with pytest.raises(PreconditionFailed):
                local_graph.load(rows, mode, expect_head=old, dry_run=dry_run)
    for name, params in (("add", {"n": "c"}), ("none", {})):
        with pytest.raises(PreconditionFailed):
            local_graph.mutate(QUERIES, name, params, expect_head=old)
    assert local_graph.commits.head().graph_commit_id == head
    assert local_graph.mutate(QUERIES, "none", expect_head=head).commit is None
    assert local_graph.load([person("c")], "merge", expect_head=head).total_entities == 1


def test_a_request_that_was_answered_is_answered_again(local_graph: Graph) -> None:
    old = local_graph.commits.head().graph_commit_id
    first = local_graph.load([person("a")], expect_head=old, idempotency_key="k")
    again = local_graph.load([person("a")], expect_head=old, idempotency_key="k")
    assert again.commit == first.commit


def test_names_to_drop_are_known(local_graph: Graph) -> None:
    text = local_graph.schema.show()
    for name in ("Persn", "Person.agee", "Knows.age"):
        for call in (local_graph.schema.plan, local_graph.schema.apply):
            with pytest.raises(InvalidArgument, match=f"no type and no property '{name}'") as caught:
                call(text, drop=[name])
            assert caught.value.hint
        with pytest.raises(InvalidArgument, match="no type and no property"):
            local_graph.schema.plan(text, fresh=[name])
    without = text.replace("age: I32?", "")
    assert local_graph.schema.apply(without, drop=["Person.age"]).applied
    assert not local_graph.schema.plan(without, drop=["Person.age"]).steps
    assert local_graph.schema.plan(text, fresh=["Person.age"]).supported
