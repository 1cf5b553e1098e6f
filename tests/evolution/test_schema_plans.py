"""Plans and applies: what was shown is what is done, what is dropped was asked for, and what was dropped comes back."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    DropNotAllowed,
    InvalidArgument,
    MissingEndpoint,
    OmnigraphError,
    PlanMoved,
    SchemaChangeRefused,
    SchemaError,
    SchemaMoved,
)
from omnigraph.maintenance.cleanup import CleanupPolicy, cleanup
from omnigraph.storage.failpoints import Point
from tests.support.invariants import check_every_version
from tests.support.workers import workers

BASE = """node Person { name: String @key  age: I32?  size: F32 }
node Pet { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
AGE = "  age: I32?"
NO_AGE = BASE.replace(AGE, "")
NO_SIZE = BASE.replace("  size: F32", "")
NO_PET = BASE.replace("node Pet { name: String @key }\n", "")
NO_KNOWS = BASE.replace("edge Knows: Person -> Person { since: I32? }\n", "")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", BASE)
    people = [
        {"name": "ann", "age": 30, "size": 1.5},
        {"name": "bob", "size": 2.5},
        {"name": "cyd", "age": 7, "size": 0},
    ]
    graph.load(
        {"Person": people, "Pet": [{"name": "rex"}], "Knows": [{"id": "k", "from": "ann", "to": "bob", "since": 1}]}
    )
    return graph


def shown(graph: Graph, text: str, **options: Any) -> list[str]:
    return [str(step) for step in graph.schema.plan(text, **options).steps]


def ages(graph: Graph) -> dict[str, int | None]:
    return {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()}


def sweep(graph: Graph) -> None:
    cleanup(graph.repository, CleanupPolicy(keep=1, grace=dt.timedelta(0), force=True), confirm=True)


# --- what was planned is what is done -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [False, True])
def test_an_apply_that_lost_a_race_does_not_drop_what_the_winner_added(graph: Graph, loss: bool) -> None:
    first, second = BASE + "node C1 { k: String @key }", BASE + "node C2 { k: String @key }"
    with workers(2) as (loser, winner):
        loser.send("schema", graph.uri, text=first, hold=Point.CONTRACT_WRITTEN, allow_drops=True, allow_data_loss=loss)
        assert loser.receive() == {"held": Point.CONTRACT_WRITTEN}
        assert winner.call("schema", graph.uri, text=second) == {"ok": ["add node C2"]}
        assert winner.call("load", graph.uri, data={"C2": [{"k": "1"}]})["ok"]
        loser.say()
        answer = loser.receive()
    assert answer["error"] == "schema_moved"
    assert {"kind": "drop_type", "type_kind": "node", "name": "C2", "mode": "hard" if loss else "soft"} in answer[
        "steps"
    ]
    assert graph.rows("node:C2").num_rows == 1
    assert "node:C1" not in graph.snapshot().tables
    check_every_version(graph.uri)


def test_two_applies_of_one_file_end_with_one_commit(graph: Graph) -> None:
    text = BASE + "node C1 { k: String @key }"
    version = graph.snapshot().version
    with workers(2) as (one, other):
        one.send("schema", graph.uri, text=text, hold=Point.CONTRACT_WRITTEN)
        assert one.receive() == {"held": Point.CONTRACT_WRITTEN}
        assert other.call("schema", graph.uri, text=text) == {"ok": ["add node C1"]}
        one.say()
        assert one.receive() == {"ok": []}
    assert graph.snapshot().version == version + 1


def test_an_apply_goes_on_when_only_rows_moved(graph: Graph) -> None:
    text = BASE.replace("age: I32?", "age: I64?")
    with workers(2) as (one, other):
        one.send("schema", graph.uri, text=text, hold=Point.CONTRACT_WRITTEN)
        assert one.receive() == {"held": Point.CONTRACT_WRITTEN}
        assert other.call("load", graph.uri, data={"Person": [{"name": "dan", "age": 1, "size": 1.0}]})["ok"]
        one.say()
        assert one.receive() == {"ok": ["widen Person.age from I32? to I64?"]}
    assert ages(graph) == {"ann": 30, "bob": None, "cyd": 7, "dan": 1}


def test_a_digest_applies_exactly_what_was_shown(graph: Graph) -> None:
    plan = graph.schema.plan(NO_AGE)
    assert plan.drops == ("Person.age",)
    graph.schema.apply(BASE + "node Other { k: String @key }")
    with pytest.raises(SchemaMoved) as caught:
        graph.schema.apply(NO_AGE, plan=plan.digest, allow_drops=True)
    assert isinstance(caught.value, PlanMoved)
    assert (caught.value.code, caught.value.retryable, caught.value.expected) == ("schema_moved", False, plan.digest)
    assert "drop node Other (soft)" in caught.value.message
    assert "age" in graph.entity_at("node:Person", "ann")
    again = graph.schema.plan(NO_AGE, allow_data_loss=True)
    graph.load({"Pet": [{"name": "tom"}]})
    with pytest.raises(PlanMoved):  # soft where hard was shown
        graph.schema.apply(NO_AGE, plan=again.digest, allow_drops=True)
    done = graph.schema.apply(NO_AGE, allow_data_loss=True, plan=again.digest, allow_drops=True)
    assert (done.applied, done.digest) == (True, again.digest)


def test_a_digest_tells_defaults_apart_that_no_step_shows(graph: Graph) -> None:
    one, other = (BASE.replace(AGE, f"{AGE}  level: I32 @default({n})") for n in (1, 2))
    assert shown(graph, one) == shown(graph, other)
    with pytest.raises(PlanMoved):
        graph.schema.apply(other, plan=graph.schema.plan(one).digest)


# --- drops are asked for ------------------------------------------------------------------------------------------


def test_a_drop_that_nobody_asked_for_is_refused(graph: Graph) -> None:
    version = graph.snapshot().version
    text = NO_AGE.replace("node Pet { name: String @key }\n", "")
    for asked in ({}, {"drop": ["Pet"]}, {"allow_data_loss": True, "drop": ["Pet"]}):
        with pytest.raises(DropNotAllowed) as caught:
            graph.schema.apply(text, **asked)
        assert isinstance(caught.value, SchemaChangeRefused)
        missing = ["Person.age"] if asked else ["Person.age", "Pet"]
        assert caught.value.details()["drops"] == missing
        assert caught.value.details()["flags"] == [f"--drop {name}" for name in missing]
        assert all(f"--drop {name}" in caught.value.hint for name in missing)
    assert graph.snapshot().version == version
    with pytest.raises(InvalidArgument, match="drop is 'Pet', not a list"):
        graph.schema.apply(text, drop="Pet")
    assert graph.schema.apply(text, drop=["Pet", "Person.age"]).applied


@pytest.mark.parametrize("text", ["", "\n  // nothing\n"])
def test_an_empty_file_is_refused(graph: Graph, text: str) -> None:
    for call in (graph.schema.plan, lambda t: graph.schema.apply(t, allow_drops=True)):
        with pytest.raises(SchemaError, match="declares no type"):
            call(text)


# --- what was dropped comes back ----------------------------------------------------------------------------------


def test_a_dropped_property_comes_back_with_its_values(graph: Graph) -> None:
    graph.schema.apply(NO_AGE, drop=["Person.age"])
    pins = {key: entry.staged_version for key, entry in graph.snapshot().tables.items()}
    assert shown(graph, BASE) == ["restore property age of Person: 2 rows"]
    assert shown(graph, BASE, fresh=["Person.age"]) == ["add Person.age: I32?"]
    graph.schema.apply(BASE)
    assert ages(graph) == {"ann": 30, "bob": None, "cyd": 7}
    assert {key: entry.staged_version for key, entry in graph.snapshot().tables.items()} == pins
    assert shown(graph, BASE) == []
    assert graph.query("query q() { match { $p: Person } return { max($p.age) as oldest } }").to_pylist() == [
        {"oldest": 30}
    ]
    check_every_version(graph.uri)


def test_rows_that_were_written_meanwhile_have_no_value(graph: Graph) -> None:
    graph.schema.apply(NO_AGE, drop=["Person.age"])
    graph.load({"Person": [{"name": "ann", "size": 9.0}, {"name": "dan", "size": 1.0}]}, "merge")
    assert shown(graph, BASE) == ["restore property age of Person: 1 rows"]
    graph.maintenance.optimize()
    graph.schema.apply(BASE.replace("age: I32?", "age: I64?"))
    assert ages(graph) == {"ann": None, "bob": None, "cyd": 7, "dan": None}


def test_a_required_property_comes_back_where_every_row_has_a_value_or_a_default(graph: Graph) -> None:
    graph.schema.apply(NO_SIZE, drop=["Person.size"])
    assert shown(graph, BASE) == ["restore property size of Person: 3 rows"]
    graph.load({"Person": [{"name": "dan"}]})
    refused = graph.schema.plan(BASE)
    assert [step.as_dict()["code"] for step in refused.steps] == ["OG-MF-103"]
    text = BASE.replace("size: F32", "size: F32 @default(8.0)")
    graph.schema.apply(text)
    sizes = {row["name"]: row["size"] for row in graph.rows("node:Person").to_pylist()}
    assert sizes == {"ann": 1.5, "bob": 2.5, "cyd": 0.0, "dan": 8.0}
    graph.load({"Person": [{"name": "eve", "size": 1.0}]})
    check_every_version(graph.uri)


@pytest.mark.parametrize("declared", ["age: String?", "age: [I32]?", "age: I32 @default(3)"])
def test_another_shape_begins_anew(graph: Graph, declared: str) -> None:
    graph.schema.apply(NO_AGE, drop=["Person.age"])
    [step] = shown(graph, BASE.replace("age: I32?", declared))
    assert step.startswith("add Person.age")


def test_a_hard_drop_leaves_nothing_to_restore_and_keeps_what_is_hidden(graph: Graph) -> None:
    graph.schema.apply(NO_AGE, drop=["Person.age"])
    bare = NO_AGE.replace("  size: F32", "")
    graph.schema.apply(bare, allow_data_loss=True, drop=["Person.size"])
    assert shown(graph, BASE.replace("size: F32", "size: F32?")) == [
        "restore property age of Person: 2 rows", "add Person.size: F32?"
    ]  # fmt: skip
    erase = graph.schema.plan(bare, allow_data_loss=True, drop=["Person.age"])
    assert [str(step) for step in erase.steps] == ["drop Person.age (hard)"]
    graph.schema.apply(bare, allow_data_loss=True, drop=["Person.age"], plan=erase.digest)
    assert shown(graph, bare.replace("name: String @key }\nedge", "name: String @key }\nedge")) == []
    assert shown(
        graph, bare.replace("node Person { name: String @key", "node Person { name: String @key  age: I32?")
    ) == ["add Person.age: I32?"]


def test_a_dropped_type_comes_back_with_its_rows(graph: Graph) -> None:
    location = graph.snapshot().tables["edge:Knows"].location
    graph.schema.apply(NO_KNOWS, drop=["Knows"])
    reopened = Graph.open(graph.uri)
    assert shown(reopened, BASE) == ["restore edge Knows: 1 rows"]
    assert shown(reopened, BASE, fresh=["Knows"]) == ["add edge Knows"]
    reopened.schema.apply(BASE.replace("since: I32?", "since: I64?"))
    assert reopened.rows("edge:Knows")["since"].to_pylist() == [1]
    assert reopened.snapshot().tables["edge:Knows"].location == location
    reopened.load({"Knows": [{"id": "l", "from": "bob", "to": "ann", "since": 2**40}]})
    reopened.schema.apply(NO_KNOWS, drop=["Knows"])
    assert shown(reopened, BASE.replace("since: I32?", "since: I64?")) == ["restore edge Knows: 2 rows"]
    assert shown(reopened, BASE) == ["add edge Knows"], "a narrower type is another shape"
    check_every_version(graph.uri)


def test_a_hard_dropped_type_is_not_offered(graph: Graph) -> None:
    graph.schema.apply(NO_PET, allow_data_loss=True, drop=["Pet"])
    assert shown(graph, BASE) == ["add node Pet"]


def test_edges_come_back_only_with_both_ends(graph: Graph) -> None:
    graph.schema.apply(NO_KNOWS, drop=["Knows"])
    graph.delete("Person", ["bob"])
    with pytest.raises(MissingEndpoint, match="'bob' first") as caught:
        graph.schema.apply(BASE)
    assert "--fresh Knows" in (caught.value.hint or "")
    assert "edge:Knows" not in graph.snapshot().tables
    graph.load({"Person": [{"name": "bob", "size": 1.0}]})
    graph.schema.apply(BASE)
    assert graph.rows("edge:Knows").num_rows == 1


def test_a_node_that_goes_while_its_edges_come_back_is_noticed(graph: Graph) -> None:
    graph.schema.apply(NO_KNOWS, drop=["Knows"])
    with workers(2) as (one, other):
        one.send("schema", graph.uri, text=BASE, hold=Point.CONTRACT_WRITTEN)
        assert one.receive() == {"held": Point.CONTRACT_WRITTEN}
        assert other.call("delete", graph.uri, type_name="Person", ids=["bob"])["ok"] == [1, 0]
        one.say()
        assert one.receive()["error"] == "missing_endpoint"
    check_every_version(graph.uri)


def test_edges_of_another_node_type_of_the_same_name_do_not_come_back(graph: Graph) -> None:
    graph.schema.apply("node Pet { name: String @key }", drop=["Person", "Knows"])
    assert shown(graph, BASE) == ["restore node Person: 3 rows", "restore edge Knows: 1 rows"]
    assert shown(graph, BASE, fresh=["Person"]) == ["add node Person", "add edge Knows"]
    graph.schema.apply(BASE)
    assert graph.rows("edge:Knows").num_rows == 1
    assert ages(graph)["ann"] == 30


def test_what_cleanup_has_reclaimed_is_not_offered(graph: Graph) -> None:
    graph.schema.apply(NO_PET, drop=["Pet"])
    graph.load({"Person": [{"name": "dan", "size": 1.0}]})
    plan = graph.schema.plan(BASE)
    sweep(graph)
    [step] = shown(graph, BASE)
    assert step.startswith("add node Pet (the rows")
    assert "reclaimed by cleanup" in step
    with pytest.raises(PlanMoved):
        graph.schema.apply(BASE, plan=plan.digest)
    graph.schema.apply(BASE)
    assert graph.rows("node:Pet").num_rows == 0
    check_every_version(graph.uri)


def test_a_cleanup_beside_a_restore_takes_its_rows_or_leaves_them(graph: Graph) -> None:
    """The rows go after they were planned with and before the intent roots them: the apply is refused."""
    graph.schema.apply(NO_PET, drop=["Pet"])
    graph.load({"Person": [{"name": "dan", "size": 1.0}]})
    with workers(1) as (one,):
        one.send("schema", graph.uri, text=BASE, hold=Point.CONTRACT_WRITTEN)
        assert one.receive() == {"held": Point.CONTRACT_WRITTEN}
        sweep(graph)
        one.say()
        answer = one.receive()
    assert answer["error"] == "historical_version_reclaimed"
    assert "node:Pet" not in graph.snapshot().tables
    check_every_version(graph.uri)


def test_a_restore_on_a_branch_is_merged_with_its_rows(graph: Graph) -> None:
    graph.schema.apply(NO_AGE.replace("node Pet { name: String @key }\n", ""), drop=["Person.age", "Pet"])
    graph.branches.create("dev")
    graph.schema.apply(BASE, branch="dev")
    graph.load({"Person": [{"name": "dan", "size": 1.0}]})
    graph.branches.merge("dev")
    assert ages(graph) == {"ann": 30, "bob": None, "cyd": 7, "dan": None}
    assert graph.rows("node:Pet").num_rows == 1
    check_every_version(graph.uri)


def test_a_schema_may_be_a_file(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key }")
    file = tmp_path / "next.pg"
    file.write_text("node Person { name: String @key  age: I32? }")
    assert graph.schema.plan(file) == graph.schema.plan(str(file)) == graph.schema.plan(file.read_text())
    assert graph.schema.apply(file).applied
    file.write_text("node Person { name: Strin @key }")
    with pytest.raises(OmnigraphError, match=r"next\.pg:1:"):
        graph.schema.plan(file)
    with pytest.raises(OmnigraphError, match="there is no schema file"):
        graph.schema.apply("nowhere.pg")
