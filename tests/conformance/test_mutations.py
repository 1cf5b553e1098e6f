"""Mutations: what a user may rely on, one promise per test."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    CardinalityViolation,
    ConflictError,
    DuplicateKey,
    ExpectedVersionMismatch,
    InvalidArgument,
    InvalidValue,
    LanguageError,
    LimitExceeded,
    MissingEndpoint,
    MissingValue,
    OmnigraphError,
    PreconditionFailed,
)
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning import history
from tests.support.graphs import publish_nothing, while_armed

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  born: Date? @unique
  size: enum(s, m, l)?
  nickName: String?
  photo: Blob?
  seen: DateTime?
  tall: F32?
  small: U32?
  @range(age, 0..150)
  @check(nickName, "^[a-z]+$")
}
node Company { name: String @key }
node Note { text: String }
node Slot { tenant: String  slot: I32  @key(tenant, slot) }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company @card(0..1)
edge Owns: Person -> Company @card(1..2)
edge Rated: Person -> Company { stars: I32?  @key(src, dst) }
"""


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "people", SCHEMA)
    rows: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": n, "age": a}} for n, a in (("Alice", 30), ("Bob", 40), ("Cara", None))
    ]
    rows += [{"edge": "Knows", "from": a, "to": b} for a, b in (("Alice", "Bob"), ("Alice", "Cara"), ("Bob", "Alice"))]
    rows += [{"type": "Company", "data": {"name": "Acme"}}, {"edge": "WorksAt", "from": "Bob", "to": "Acme"}]
    graph.load(rows)
    return graph


def run(graph: Graph, body: str, **params: Any) -> tuple[int, int]:
    declared = {str: "String", int: "I64", bool: "Bool"}
    names = ", ".join(f"${n}: {declared.get(type(v), 'String?')}" for n, v in params.items())
    result = graph.mutate(f"query m({names}) {{ {body} }}", params=params)
    return result.affected_nodes, result.affected_edges


def ages(graph: Graph) -> dict[str, int | None]:
    return {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()}


def test_insert_a_node_an_edge_and_both(people: Graph) -> None:
    before = people.snapshot().version
    assert run(people, 'insert Person { name: "Dan", age: 20 }') == (1, 0)
    assert run(people, 'insert Knows { from: "Dan", to: "Bob" }') == (0, 1)
    assert run(people, 'insert Knows { from: "Eve", to: "Bob" } insert Person { name: "Eve" }') == (1, 1)
    assert people.snapshot().version == before + 3
    assert ages(people)["Dan"] == 20
    assert people.rows("edge:Knows").num_rows == 5


def test_inserting_an_existing_key_replaces_the_row(people: Graph) -> None:
    assert run(people, 'insert Person { name: "Alice" }') == (1, 0)
    assert ages(people) == {"Alice": None, "Bob": 40, "Cara": None}
    assert run(people, 'insert Slot { tenant: "a", slot: 7 } insert Slot { tenant: "a", slot: 7 }') == (2, 0)
    assert people.rows("node:Slot")["id"].to_pylist() == ['["7","a"]']


def test_a_keyed_edge_is_upserted_and_others_are_not(people: Graph) -> None:
    for stars in (1, 5):
        assert run(people, f'insert Rated {{ from: "Bob", to: "Acme", stars: {stars} }}') == (0, 1)
    assert people.rows("edge:Rated")["stars"].to_pylist() == [5]
    run(people, 'insert Knows { from: "Bob", to: "Alice" }')
    assert people.rows("edge:Knows").num_rows == 4


def test_update_counts_matches_and_nothing_matched_is_no_commit(people: Graph) -> None:
    before = people.snapshot().version
    assert run(people, 'update Person set { age: 31 } where name = "Alice"') == (1, 0)
    assert run(people, "update Person set { age: 32 } where age >= 31") == (2, 0)
    assert ages(people) == {"Alice": 32, "Bob": 32, "Cara": None}
    assert people.snapshot().version == before + 2
    for body in ('update Person set { age: 1 } where name = "Nobody"', 'delete Person where name = "Nobody"'):
        result = people.mutate(f"query q() {{ {body} }}")
        assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)
    assert people.snapshot().version == before + 2


def test_an_update_keeps_what_it_does_not_set(people: Graph) -> None:
    run(people, 'update Person set { photo: "base64:AAEC" } where name = "Alice"')
    run(people, 'update Person set { age: age + 1 } where name = "Alice"')
    alice = people.entity_at("node:Person", "Alice")
    assert alice is not None
    assert (alice["photo"], alice["age"]) == (b"\x00\x01\x02", 31)
    people.mutate(
        "query q($p: Blob?) { update Person set { photo: $p } where name = \"Alice\" }", params={"p": None}
    )  # fmt: skip
    assert people.entity_at("node:Person", "Alice")["photo"] is None  # type: ignore[index]


def test_an_update_gives_no_default_to_what_it_does_not_set(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node P { k: String @key  a: I32?  b: I32? }")
    graph.load({"P": [{"k": "x", "a": 1}]})
    graph.schema.apply("node P { k: String @key  a: I32?  b: I32? @default(5) }")
    assert run(graph, 'update P set { a: 2 } where k = "x"') == (1, 0)
    assert graph.entity_at("node:P", "x") == {"id": "x", "k": "x", "a": 2, "b": None}


def test_deletes_cascade_and_count_distinct_rows(people: Graph) -> None:
    assert run(people, 'delete Knows where from = "Alice"') == (0, 2)
    assert set(ages(people)) == {"Alice", "Bob", "Cara"}
    run(people, 'insert Knows { from: "Alice", to: "Cara" }')
    before = people.snapshot().version
    body = (
        'delete Person where name = "Alice" delete Person where age = 30 or name = "Bob" delete Knows where to = "Cara"'
    )
    assert run(people, body) == (2, 3)
    assert set(ages(people)) == {"Cara"}
    assert people.rows("edge:Knows").num_rows == people.rows("edge:WorksAt").num_rows == 0
    assert people.snapshot().version == before + 1


def test_null_columns_do_not_hide_rows_from_a_delete(people: Graph) -> None:
    assert run(people, "delete Person where age is null") == (1, 1)
    assert run(people, "delete Person where not (age > 1000)") == (2, 3)


def test_an_exact_edge_is_deleted(people: Graph) -> None:
    assert run(people, "delete Knows where from = $a and to = $b", a="Alice", b="Bob") == (0, 1)
    assert people.rows("edge:Knows").num_rows == 2


def test_edges_can_be_updated(people: Graph) -> None:
    assert run(people, 'update Knows set { since: 2020 } where from = "Alice"') == (0, 2)
    assert sorted(people.rows("edge:Knows")["since"].to_pylist(), key=str) == [2020, 2020, None]


def test_no_incident_edges_leave_the_edge_tables_alone(people: Graph) -> None:
    run(people, 'insert Person { name: "Lone" }')
    before = people.snapshot().tables["edge:Knows"].table_version
    assert run(people, 'delete Person where name = "Lone"') == (1, 0)
    assert people.snapshot().tables["edge:Knows"].table_version == before


def test_statements_see_the_ones_before(people: Graph) -> None:
    before = people.snapshot().version
    assert run(people, 'insert Person { name: "Zoe", age: 1 } update Person set { age: 2 } where name = "Zoe"') == (
        2,
        0,
    )
    chained = 'update Person set { age: 99 } where name = "Alice" update Person set { age: 10 } where age > 50'
    assert run(people, chained) == (2, 0)
    assert ages(people) == {"Alice": 10, "Bob": 40, "Cara": None, "Zoe": 2}
    assert people.snapshot().version == before + 2
    both = (
        'update Person set { nickName: "al" } where name = "Alice" update Person set { age: 7 } where nickName = "al"'
    )
    assert run(people, both) == (2, 0)
    assert ages(people)["Alice"] == 7


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        ('update Person set { name: "X" } where age > 1', LanguageError, "@key"),
        ('insert Knows { from: "Alice", to: "Nobody" }', MissingEndpoint, "dst 'Nobody' not found in Person"),
        ('insert Person { name: "a" } delete Person where name = "b"', LanguageError, "inserts/updates and deletes"),
        ('insert Person { name: "a", size: "xl" }', LanguageError, "invalid enum value 'xl'"),
        ('insert Person { name: "a", age: 151 }', InvalidValue, "@range violation"),
        ("update Person set { age: age + 120 } where age > 0", InvalidValue, "@range violation"),
        ('update Person set { nickName: "UP" } where name = "Bob"', InvalidValue, "@check violation"),
        ("insert Person { age: 1 }", LanguageError, "needs `name`"),
        ('insert Person { name: "a", small: 4294967296 }', LanguageError, "range"),
        ('insert Person { name: "a", tall: 1e39 }', LanguageError, "range"),
        ('insert Person { name: "a", email: "e" } insert Person { name: "b", email: "e" }', DuplicateKey, "@unique"),
        ('insert WorksAt { from: "Bob", to: "Acme" }', CardinalityViolation, r"max 1"),
    ],
)  # fmt: skip
def test_a_refused_mutation_changes_nothing_and_blocks_nothing(
    people: Graph, body: str, error: type[OmnigraphError], text: str
) -> None:
    before = people.snapshot()
    with pytest.raises(error, match=text):
        run(people, body)
    assert people.snapshot().version == before.version
    assert run(people, 'insert Person { name: "next" }') == (1, 0)


def test_boundaries_are_accepted(people: Graph) -> None:
    run(people, 'insert Person { name: "max", small: 4294967295, age: 150, tall: 1 }')
    row = people.entity_at("node:Person", "max")
    assert row is not None
    assert (row["small"], row["age"], row["tall"]) == (4294967295, 150, 1.0)


def test_an_enum_parameter_is_checked_when_it_is_written(people: Graph) -> None:
    with pytest.raises(InvalidValue, match="invalid enum value 'xl'"):
        run(people, 'insert Person { name: "a", size: $s }', s="xl")
    with pytest.raises(InvalidValue, match="invalid enum value 'xl'"):
        run(people, 'update Person set { size: $s } where name = "Bob"', s="xl")
    with pytest.raises(MissingValue):
        people.mutate("query q($n: String?) { insert Note { text: $n } }", params={"n": None})


def test_unique_across_versions_and_a_freed_value(people: Graph) -> None:
    run(people, 'update Person set { email: "e", born: date("2000-01-01") } where name = "Alice"')
    with pytest.raises(DuplicateKey, match=r"@unique violation on Person\.email"):
        run(people, 'update Person set { email: "e" } where name = "Bob"')
    with pytest.raises(DuplicateKey, match=r"@unique violation on Person\.born"):
        run(people, 'insert Person { name: "new", born: date("2000-01-01") }')
    freed = 'update Person set { email: "f" } where name = "Alice" update Person set { email: "e" } where name = "Bob"'
    assert run(people, freed) == (2, 0)


def test_cardinality_minimum(people: Graph) -> None:
    run(people, 'insert Company { name: "B" }')
    run(people, 'insert Owns { from: "Bob", to: "Acme" }')
    with pytest.raises(CardinalityViolation, match="min 1"):
        run(people, 'delete Owns where from = "Bob"')
    with pytest.raises(CardinalityViolation, match="min 1"):
        run(people, 'delete Company where name = "Acme"')
    assert run(people, 'delete Person where name = "Bob"')[0] == 1


def test_a_stale_handle_sees_live_edges(people: Graph) -> None:
    stale = Graph.open(people.uri)
    stale.rows("edge:WorksAt")
    run(people, 'insert WorksAt { from: "Alice", to: "Acme" }')
    with pytest.raises(CardinalityViolation, match="max 1"):
        run(stale, 'insert WorksAt { from: "Alice", to: "Acme" }')


def test_limits(people: Graph) -> None:
    text = "query q() { " + " ".join(f'insert Note {{ text: "{i}" }}' for i in range(9)) + " }"
    before = people.snapshot().version
    with pytest.raises(LimitExceeded, match="keyed entities for node:Note"):
        people.mutate(text, max_entities=8)
    with pytest.raises(LimitExceeded, match="keyed entities for node:Person"):
        people.mutate("query q() { update Person set { age: 1 } where age is null or age > 0 }", max_entities=2)
    assert people.snapshot().version == before
    assert people.mutate(text, max_entities=9).affected_nodes == 9


def test_expected_head(people: Graph) -> None:
    head = people.commits.head().graph_commit_id
    text = 'query q() { insert Note { text: "a" } }'
    commit = people.mutate(text, expect_head=head, actor="me", message="why").commit
    assert commit is not None
    assert (commit.actor_id, commit.message, commit.kind) == ("me", "why", "mutate")
    assert commit == people.commits.head()
    with pytest.raises(PreconditionFailed):
        people.mutate(text, expect_head=head)
    assert people.mutate(text, expect_head=commit.graph_commit_id).commit is not None


def test_a_request_is_applied_once(people: Graph) -> None:
    text = 'query q() { insert Note { text: "a" } }'
    first = people.mutate(text, idempotency_key="k1")
    again = Graph.open(people.uri).mutate(text, idempotency_key="k1")
    assert again.replayed
    assert again.commit == first.commit
    assert people.mutate(text, idempotency_key="k2").commit != first.commit
    assert people.rows("node:Note").num_rows == 2
    assert people.load([{"type": "Note", "data": {"text": "b"}}], idempotency_key="k1").commit == first.commit


def test_a_request_that_two_senders_prepared_is_applied_once(people: Graph) -> None:
    """The second sender looked before the first had published; the publisher looks again."""
    text = 'query q() { insert Note { text: "a" } insert Company { name: "C" } }'
    found = []

    def send_first() -> None:
        failpoints.arm(None)
        found.append(people.mutate(text, idempotency_key="k1"))

    second = Graph.open(people.uri)
    with while_armed({Point.INTENT_COMPLETED: send_first}):
        again = second.mutate(text, idempotency_key="k1")
    assert (again.replayed, again.commit) == (True, found[0].commit)
    assert people.rows("node:Note").num_rows == 1


def test_a_request_is_remembered_in_settled_history(people: Graph) -> None:
    text = 'query q() { insert Note { text: "a" } }'
    first = people.mutate(text, idempotency_key="k1")
    for _ in range(history.INLINE_MAX):
        publish_nothing(people)
    assert first.commit is not None
    assert first.commit.graph_commit_id not in people.repository.head().commits
    assert Graph.open(people.uri).mutate(text, idempotency_key="k1").commit == first.commit
    assert people.rows("node:Note").num_rows == 1


def test_now_is_one_moment(people: Graph) -> None:
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    run(
        people,
        'update Person set { seen: now() } where name = "Alice" update Person set { seen: now() } where age = 40',
    )
    seen = {row["name"]: row["seen"] for row in people.rows("node:Person").to_pylist()}
    assert seen["Alice"] == seen["Bob"] >= before


def test_reads_and_mutations_have_their_own_doors(people: Graph) -> None:
    with pytest.raises(InvalidArgument, match="is a read"):
        people.mutate("query q() { match { $p: Person } return { $p.name } }")
    with pytest.raises(InvalidArgument, match="is a mutation"):
        people.query('query q() { insert Note { text: "a" } }')


def test_a_mutation_of_another_branch(people: Graph) -> None:
    people.branches.create("feature")
    people.mutate('query q() { delete Person where name = "Bob" }', branch="feature")
    assert "Bob" in ages(people)
    assert people.rows("node:Person", "feature").num_rows == 2


def test_updates_of_different_rows_follow_each_other_and_of_one_row_conflict(people: Graph) -> None:
    rival = Graph.open(people.uri)

    def racing(mine: str, theirs: str) -> None:
        def interfere() -> None:
            failpoints.arm(None)
            run(rival, theirs)

        with while_armed({Point.TABLE_STAGED: interfere}):
            run(people, mine)

    racing('update Person set { age: 1 } where name = "Alice"', 'update Person set { age: 2 } where name = "Bob"')
    assert ages(people) == {"Alice": 1, "Bob": 2, "Cara": None}
    with pytest.raises(ExpectedVersionMismatch):
        racing('update Person set { age: 3 } where name = "Alice"', 'update Person set { age: 4 } where name = "Alice"')
    with pytest.raises(ConflictError):
        racing("update Person set { age: 5 } where age = 2", 'insert Person { name: "new", age: 2 }')
    with pytest.raises(ConflictError):
        racing('delete Person where name = "Bob"', 'insert Knows { from: "Cara", to: "Bob" }')
    racing('insert Person { name: "x", age: 1 }', 'insert Person { name: "x", age: 2 }')
    assert ages(people)["x"] == 1
