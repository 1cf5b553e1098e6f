"""The concurrency rule as tables: each requirement, and each effect, against each way in which the branch moved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    ConstraintConflict,
    EndpointConflict,
    ExpectedVersionMismatch,
    KeyConflict,
    OmnigraphError,
    PlanExpired,
    PreconditionFailed,
    PublishContention,
    SchemaMoved,
)
from omnigraph.storage import failpoints
from omnigraph.storage.apply_effects import mask_rows, write_rows
from omnigraph.storage.effects import AppendRows, Effect, MaskRows, OverwriteRows, ReplaceRows, Reshape, UnwrittenRows
from omnigraph.storage.failpoints import Point
from omnigraph.storage.indexes import fold_tail
from omnigraph.storage.lookup import MAX_LISTED
from omnigraph.versioning.adopted_state import Graft
from omnigraph.versioning.plan import (
    CardinalityWithin,
    KeysAbsent,
    KeysPresent,
    NoIncident,
    Pin,
    PublishPlan,
    Requirement,
    Unmoved,
    ValuesAbsent,
    plan_from_json,
    plan_to_json,
)
from omnigraph.versioning.publish import PUBLISHER_RETRY_BUDGET
from omnigraph.versioning.requirements import rebase
from omnigraph.versioning.staging import open_table, stage_change, stage_reshape
from omnigraph.versioning.store import Settings, mint, ticks
from omnigraph.write.index_fold import fold, key_columns
from omnigraph.write.rows import batch_from_rows
from omnigraph.write.validation import Findings, Places
from tests.support.fixtures import unflushed
from tests.support.graphs import while_armed
from tests.support.invariants import check_every_version
from tests.support.workers import workers

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
node Task { title: String @key }
edge Owns: Person -> Task @card(1..2)
edge Knows: Person -> Person
"""
KEYS = ("node:Person", "node:Task", "edge:Owns", "edge:Knows")

__all__ = ["unflushed"]


def owns(edge_id: str, source: str, target: str) -> dict[str, str]:
    return {"id": edge_id, "from": source, "to": target}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Ann has two tasks, bob one, cy none; ann knows bob."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    persons = [{"name": "ann"}, {"name": "bob", "email": "b@x"}, {"name": "cy"}, {"name": "dee"}]
    tasks = [{"title": f"t{i}"} for i in range(4)]
    edges = [owns("o1", "ann", "t0"), owns("o2", "ann", "t1"), owns("o3", "bob", "t0")]
    graph.load({"Person": persons, "Task": tasks, "Owns": edges, "Knows": [owns("k1", "ann", "bob")]})
    return graph


def plan_with(
    graph: Graph, table_key: str, effect: Effect, *requirements: Requirement, rebase_updates: bool = False
) -> PublishPlan:
    """A staged plan on the newest state that relies on every table."""
    state = graph.repository.head()
    commit_id = mint()
    change = stage_change(graph.repository.store, state.tables[table_key], effect, commit_id)
    return PublishPlan(
        commit_id=commit_id, branch="main", native_branch=None, base_version=state.version, base_head=state.head,
        kind="load", schema_hash=state.schema_hash, changes=(change,), requirements=requirements,
        pins={key: Pin.of(state.tables[key]) for key in KEYS}, rebase_updates=rebase_updates, staged_at=ticks(),
    )  # fmt: skip


def rows_of(graph: Graph, type_name: str, *rows: dict[str, object]) -> object:
    entity = graph.catalog().node(type_name)
    return batch_from_rows(entity, list(rows), Places(((None, list(range(1, len(rows) + 1))),)), Findings()).table


def written(graph: Graph, type_name: str, *rows: dict[str, object]) -> tuple[object, ...]:
    entry = graph.repository.head().tables[f"node:{type_name}"]
    return write_rows(
        graph.repository.store.tables, open_table(graph.repository.store, entry), rows_of(graph, type_name, *rows)
    )


def masked(graph: Graph, type_name: str, *rows: dict[str, object]) -> MaskRows:
    """What tasks leave of an upsert: the deletion files of the rows that are there, and the new rows."""
    table = open_table(graph.repository.store, graph.repository.head().tables[f"node:{type_name}"])
    removed, updated = [], []
    for fragment in table.fragments:
        found = table.scan_addresses(["id"], [fragment]).to_pylist()
        gone = [row["_rowaddr"] & 0xFFFFFFFF for row in found if row["id"] in {each["name"] for each in rows}]
        after = mask_rows(table, fragment, gone) if gone else None
        if after is not None:
            updated.append(after)
        elif gone:
            removed.append(fragment)
    new = written(graph, type_name, *rows)
    return MaskRows(table.version, tuple(removed), tuple(updated), new)  # type: ignore[arg-type]


def publish(graph: Graph, plan: PublishPlan) -> None:
    graph.repository.publisher.publish(plan)


def folded(graph: Graph, table_key: str) -> None:
    """A maintenance commit of one table, which leaves its rows as they are."""
    state = graph.repository.head()
    entry = state.tables[table_key]
    fold(graph.repository, state, entry)
    assert graph.repository.head().tables[table_key].staged_version != entry.staged_version


# --- requirements --------------------------------------------------------------------------------------------------

EDIT = 'query q() {{ update Person set {{ {} }} where name = "{}" }}'
MOVES: dict[str, Callable[[Graph], object]] = {
    "nothing": lambda g: None,
    "a person came": lambda g: g.load({"Person": [{"name": "zoe", "email": "z@x"}]}),
    "cy went": lambda g: g.delete("Person", ["cy"]),
    "cy came back": lambda g: (g.delete("Person", ["cy"]), g.load({"Person": [{"name": "cy"}]})),
    "bob gave his address away": lambda g: g.mutate(EDIT.format('email: "q@x"', "bob")),
    "cy knows dee": lambda g: g.load({"Knows": [owns("k2", "cy", "dee")]}),
    "ann owns less": lambda g: g.delete("Owns", ["o2"]),
    "bob owns more": lambda g: g.load({"Owns": [owns("o4", "bob", "t2")]}),
    "bob owns another": lambda g: (g.load({"Owns": [owns("o4", "bob", "t2")]}), g.delete("Owns", ["o3"])),
    "a fold of persons": lambda g: folded(g, "node:Person"),
    "a fold of edges": lambda g: folded(g, "edge:Owns"),
}
TABLE: list[tuple[str, Requirement, dict[str, type[OmnigraphError]]]] = [
    ("absent, and free", KeysAbsent("node:Person", ("eve",)), {}),
    ("absent, and taken", KeysAbsent("node:Person", ("eve", "zoe")), {"a person came": KeyConflict}),
    ("present", KeysPresent("node:Person", ("ann", "cy")), {"cy went": EndpointConflict}),
    ("no incident", NoIncident("edge:Knows", ("src", "dst"), ("cy",)), {"cy knows dee": EndpointConflict}),
    ("no incident, at the second end", NoIncident("edge:Knows", ("src", "dst"), ("dee",)),
     {"cy knows dee": EndpointConflict}),
    ("no incident, one end", NoIncident("edge:Knows", ("dst",), ("dee",)), {"cy knows dee": EndpointConflict}),
    ("no incident, the other end", NoIncident("edge:Knows", ("src",), ("dee",)), {}),
    ("no incident, excepted", NoIncident("edge:Knows", ("src", "dst"), ("cy",), ("k2",)), {}),
    ("value absent", ValuesAbsent("node:Person", ("email",), (("z@x",),)), {"a person came": ConstraintConflict}),
    ("value absent, excepted", ValuesAbsent("node:Person", ("email",), (("z@x",),), ("zoe",)), {}),
    ("value absent, another excepted", ValuesAbsent("node:Person", ("email",), (("z@x",),), ("bob",)),
     {"a person came": ConstraintConflict}),
    ("values absent, one of them excepted", ValuesAbsent("node:Person", ("email",), (("z@x",), ("b@x",)), ("bob",)),
     {"a person came": ConstraintConflict}),
    ("value passed on", ValuesAbsent("node:Person", ("email",), (("q@x",),)),
     {"bob gave his address away": ConstraintConflict}),
    ("at most two", CardinalityWithin("edge:Owns", 0, 2, (("bob", 1),)), {"bob owns more": ConstraintConflict}),
    ("at most two, one excepted", CardinalityWithin("edge:Owns", 0, 2, (("bob", 1),), ("o3",)), {}),
    ("at most two, a new one excepted", CardinalityWithin("edge:Owns", 0, 2, (("bob", 1),), ("o4",)), {}),
    ("at least two", CardinalityWithin("edge:Owns", 2, None, (("ann", 0),)), {"ann owns less": ConstraintConflict}),
    ("at least one, one excepted", CardinalityWithin("edge:Owns", 1, None, (("ann", 0),), ("o1",)),
     {"ann owns less": ConstraintConflict}),
    ("at least one, one goes", CardinalityWithin("edge:Owns", 1, None, (("ann", 1),), ("o1",)), {}),
    ("no upper bound", CardinalityWithin("edge:Owns", 1, None, (("bob", 5),)), {}),
    ("persons unmoved", Unmoved("node:Person"), {
        "a person came": ExpectedVersionMismatch, "cy went": ExpectedVersionMismatch,
        "cy came back": ExpectedVersionMismatch, "bob gave his address away": ExpectedVersionMismatch}),
    ("edges unmoved", Unmoved("edge:Owns"), {
        "ann owns less": ExpectedVersionMismatch, "bob owns more": ExpectedVersionMismatch,
        "bob owns another": ExpectedVersionMismatch}),
]  # fmt: skip
"""A requirement, and the moves after which it does not hold any more."""


@pytest.mark.parametrize("move", MOVES)
def test_every_requirement_against_every_move(graph: Graph, move: str) -> None:
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    plan = plan_with(graph, "node:Task", effect)
    MOVES[move](Graph.open(graph.uri))
    state = graph.repository.head()
    found = {}
    for name, requirement, _ in TABLE:
        try:
            rebase(graph.repository.store, replace(plan, requirements=(requirement,)), state)
        except OmnigraphError as error:
            found[name] = type(error)
    assert found == {name: errors[move] for name, _, errors in TABLE if move in errors}


def test_a_requirement_is_checked_by_the_publisher_and_nothing_is_published(graph: Graph) -> None:
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    plan = plan_with(graph, "node:Task", effect, CardinalityWithin("edge:Owns", 2, None, (("ann", 0),)))
    MOVES["ann owns less"](Graph.open(graph.uri))
    with pytest.raises(ConstraintConflict, match="'ann' would have 1 edges"):
        publish(graph, plan)
    assert graph.entity_at("node:Task", "mine") is None


def test_all_requirements_survive_serialisation_with_their_exceptions(graph: Graph) -> None:
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    plan = replace(plan_with(graph, "node:Task", effect), requirements=tuple(r for _, r, _ in TABLE), has_intent=True)
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))).requirements == plan.requirements


# --- effects -------------------------------------------------------------------------------------------------------

PERSON_MOVES: dict[str, Callable[[Graph], object]] = {
    "nothing": lambda g: None,
    "another table": lambda g: g.load({"Task": [{"title": "t9"}]}),
    "maintenance": lambda g: folded(g, "node:Person"),
    "another row": lambda g: g.load({"Person": [{"name": "zoe"}]}),
    "its row": lambda g: g.mutate(EDIT.format("age: 7", "cy")),
    "its row there and back": lambda g: (
        g.mutate(EDIT.format("age: 7", "cy")),
        g.mutate(EDIT.format("age: null", "cy")),
    ),
}
MAKERS: dict[str, Callable[[Graph], tuple[Effect, bool]]] = {
    "append": lambda g: (AppendRows(written(g, "Person", {"name": "new"})), False),  # type: ignore[arg-type]
    "replace, strict": lambda g: (ReplaceRows(("cy",), written(g, "Person", {"name": "cy", "age": 5})), False),  # type: ignore[arg-type]
    "replace, willing": lambda g: (ReplaceRows(("cy",), written(g, "Person", {"name": "cy", "age": 5})), True),  # type: ignore[arg-type]
    "replace nothing": lambda g: (ReplaceRows((), written(g, "Person", {"name": "new"})), False),  # type: ignore[arg-type]
    "unwritten, strict": lambda g: (UnwrittenRows(("cy",), rows_of(g, "Person", {"name": "cy", "age": 5})), False),  # type: ignore[arg-type]
    "unwritten, willing": lambda g: (UnwrittenRows(("cy",), rows_of(g, "Person", {"name": "cy", "age": 5})), True),  # type: ignore[arg-type]
    "mask": lambda g: (masked(g, "Person", {"name": "cy", "age": 5}), True),
    "overwrite": lambda g: (OverwriteRows(written(g, "Person", {"name": "only"})), True),  # type: ignore[arg-type]
}
FOLLOWS = {
    "mask": {"nothing", "another table"},
    "append": {"nothing", "another table", "maintenance", "another row", "its row", "its row there and back"},
    "replace nothing": {"nothing", "another table", "maintenance", "another row", "its row", "its row there and back"},
    "replace, strict": {"nothing", "another table", "maintenance"},
    "unwritten, strict": {"nothing", "another table", "maintenance"},
    "replace, willing": {"nothing", "another table", "maintenance", "another row", "its row there and back"},
    "unwritten, willing": {"nothing", "another table", "maintenance", "another row", "its row there and back"},
    "overwrite": {"nothing", "another table", "maintenance"},
}


@pytest.mark.parametrize("move", PERSON_MOVES)
@pytest.mark.parametrize("kind", MAKERS)
def test_every_effect_against_every_move(graph: Graph, kind: str, move: str) -> None:
    graph.load({"Person": [{"name": "late"}]})  # two fragments, so that there is something to fold
    effect, willing = MAKERS[kind](graph)
    plan = plan_with(graph, "node:Person", effect, rebase_updates=willing)
    PERSON_MOVES[move](Graph.open(graph.uri))
    before = {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()}
    if move not in FOLLOWS[kind]:
        with pytest.raises(ExpectedVersionMismatch) as caught:
            publish(graph, plan)
        assert caught.value.retryable
        expected = before
    else:
        publish(graph, plan)
        changed = {"new": None} if kind in ("append", "replace nothing") else {"cy": 5}
        expected = {"only": None} if kind == "overwrite" else {**before, **changed}
    assert {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()} == expected


def test_masked_rows_survive_serialisation_and_later_writes(graph: Graph) -> None:
    """A fragment that loses all of its rows, one that loses some, and one that has lost some before."""
    graph.load({"Person": [{"name": "late"}]})
    for number, names in enumerate((["cy", "late"], ["dee"], ["cy", "ann"])):
        rows = [{"name": name, "age": number} for name in names]
        plan = replace(plan_with(graph, "node:Person", masked(graph, "Person", *rows)), has_intent=True)
        plan = plan_from_json(json.loads(json.dumps(plan_to_json(plan))))
        publish(graph, replace(plan, has_intent=False, staged_at=ticks()))
        table = open_table(graph.repository.store, graph.repository.head().tables["node:Person"])
        for fragment in table.fragments:
            known = table.deleted_offsets(fragment)
            assert known is None or known.tolist() == table.read_deletions(fragment).tolist()
            table.read_deletions(fragment)  # the next version may take over what is known
    graph.mutate(EDIT.format("age: 9", "bob"))
    graph.delete("Person", ["late"])
    graph.maintenance.optimize()
    expected = {"ann": 2, "bob": 9, "cy": 2, "dee": 1}
    for each in (graph, Graph.open(graph.uri)):
        assert {row["name"]: row["age"] for row in each.rows("node:Person").to_pylist()} == expected
        assert each.entity_at("node:Person", "cy")["age"] == 2  # type: ignore[index]
    check_every_version(graph.uri)


@pytest.mark.parametrize(("move", "follows"), [("nothing", True), ("another table", True), ("another row", False)])
def test_a_reshaped_pin_follows_nothing(graph: Graph, move: str, follows: bool) -> None:
    graph.load({"Person": [{"name": "late"}]})
    state = graph.repository.head()
    entry = state.tables["node:Person"]
    base = open_table(graph.repository.store, entry)
    made = fold_tail(graph.repository.store.tables, base, key_columns(graph.catalog().node("Person")), entry.high_water)
    assert made is not None
    plan = plan_with(graph, "node:Task", AppendRows(written(graph, "Task", {"title": "mine"})))  # type: ignore[arg-type]
    plan = replace(plan, changes=(stage_reshape(graph.repository.store, entry, made[0], Reshape("by hand")),))
    PERSON_MOVES[move](Graph.open(graph.uri))
    if follows:
        publish(graph, plan)
    else:
        with pytest.raises(ExpectedVersionMismatch):
            publish(graph, plan)
    names = graph.rows("node:Person")["name"].to_pylist()
    assert sorted(names) == sorted({"ann", "bob", "cy", "dee", "late"} | ({"zoe"} if move == "another row" else set()))


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_replaced_rows_are_compared_and_not_one_more(graph: Graph, more: int) -> None:
    ids = ("cy", *(f"nobody{i}" for i in range(MAX_LISTED - 1 + more)))
    effect = ReplaceRows(ids, written(graph, "Person", {"name": "cy", "age": 5}))  # type: ignore[arg-type]
    plan = plan_with(graph, "node:Person", effect, rebase_updates=True)
    Graph.open(graph.uri).load({"Person": [{"name": "zoe"}]})
    if more:
        with pytest.raises(ExpectedVersionMismatch):
            rebase(graph.repository.store, plan, graph.repository.head())
    else:
        rebase(graph.repository.store, plan, graph.repository.head())


# --- pins that a plan takes over -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graft", "move", "follows"),
    [
        ("adopted", "maintenance", True),
        ("adopted", "another row", False),
        ("reshaped", "maintenance", False),
        ("reshaped", "another row", False),
        ("reshaped", "another table", True),
        ("removed", "maintenance", False),
        ("removed", "another row", False),
    ],
)
def test_what_a_graft_takes_over_follows_maintenance_at_most(
    graph: Graph, graft: str, move: str, follows: bool
) -> None:
    graph.load({"Person": [{"name": "late"}]})
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    entry = graph.repository.head().tables["node:Person"]
    grafts = {
        "adopted": Graft(adopted=(entry,)),
        "reshaped": Graft(reshaped=(entry,)),
        "removed": Graft(removed=(entry.table_key,)),
    }
    plan = replace(plan_with(graph, "node:Task", effect), graft=grafts[graft])
    PERSON_MOVES[move](Graph.open(graph.uri))
    if follows:
        rebase(graph.repository.store, plan, graph.repository.head())
    else:
        with pytest.raises(ExpectedVersionMismatch):
            rebase(graph.repository.store, plan, graph.repository.head())


# --- what else a publish asks --------------------------------------------------------------------------------------


def test_another_schema_is_refused(graph: Graph) -> None:
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    plan = plan_with(graph, "node:Task", effect)
    Graph.open(graph.uri).schema.apply(SCHEMA.replace("age: I32?", "age: I32?  shoe: I32?"))
    with pytest.raises(SchemaMoved):
        publish(graph, plan)


def test_an_expected_head_may_lie_behind_maintenance_only(graph: Graph) -> None:
    graph.load({"Person": [{"name": "late"}]})
    head = graph.commits.head().graph_commit_id
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    plan = replace(plan_with(graph, "node:Task", effect), expect_head=head)
    rival = Graph.open(graph.uri)
    folded(rival, "node:Person")
    publish(graph, plan)
    late = replace(plan_with(graph, "node:Task", effect), expect_head=head)
    with pytest.raises(PreconditionFailed, match=f"not {head}"):
        publish(graph, late)


@pytest.mark.parametrize(("share", "refused"), [(0.4, False), (0.6, True)])
def test_a_plan_may_be_published_for_half_the_staging_grace(graph: Graph, share: float, refused: bool) -> None:
    """A collector spares what is younger than the grace: a plan that may need an older file is refused."""
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    plan = replace(
        plan_with(graph, "node:Task", effect), staged_at=ticks() - share * graph.repository.store.settings.staging_grace
    )
    if refused:
        with pytest.raises(PlanExpired):
            publish(graph, plan)
    else:
        publish(graph, plan)
    assert (graph.entity_at("node:Task", "mine") is None) is refused


def test_a_plan_without_a_time_or_with_an_intent_does_not_expire(graph: Graph) -> None:
    effect = AppendRows(written(graph, "Task", {"title": "mine"}))  # type: ignore[arg-type]
    publish(graph, replace(plan_with(graph, "node:Task", effect), staged_at=0.0))
    assert graph.entity_at("node:Task", "mine") is not None


@pytest.mark.parametrize("moves", [5, 6])
def test_a_table_may_move_five_times_under_a_publish(graph: Graph, moves: int) -> None:
    """A rival moves the table in front of every swap: five times is followed, six is contention."""
    rival = Graph.open(graph.uri, settings=Settings(publish_deadline=600.0))
    mine = Graph.open(graph.uri, settings=Settings(publish_deadline=600.0))
    effect = AppendRows(written(mine, "Person", {"name": "mine"}))  # type: ignore[arg-type]
    plan = plan_with(mine, "node:Person", effect)
    left = moves

    def move() -> None:
        nonlocal left
        failpoints.arm(None)
        if left:
            left -= 1
            rival.load({"Person": [{"name": f"rival{left}"}]})
        failpoints.arm({Point.BEFORE_SWAP: move})

    tip = mine.repository.tips.of("main", None)
    with while_armed({Point.BEFORE_SWAP: move}):
        if moves == 6:
            with pytest.raises(PublishContention, match="moved 6 times"):
                mine.repository.publisher.publish_in_turn(tip, plan)
        else:
            mine.repository.publisher.publish_in_turn(tip, plan)
    assert left == 0
    assert (Graph.open(graph.uri).entity_at("node:Person", "mine") is not None) is (moves == 5)
    check_every_version(graph.uri)


def test_a_restaged_plan_is_judged_by_its_new_pins(graph: Graph) -> None:
    """Its table moves once; that other tables move again and again is none of its business."""
    mine, rival = Graph.open(graph.uri), Graph.open(graph.uri)
    plan = plan_with(mine, "node:Person", AppendRows(written(mine, "Person", {"name": "mine"})))  # type: ignore[arg-type]
    plan = replace(plan, pins={"node:Person": plan.pins["node:Person"]})
    rival.load({"Person": [{"name": "rival"}]})
    left = PUBLISHER_RETRY_BUDGET + 2

    def move() -> None:
        nonlocal left
        failpoints.arm(None)
        if left:
            left -= 1
            rival.load({"Task": [{"title": f"rival{left}"}]})
        failpoints.arm({Point.BEFORE_SWAP: move})

    with while_armed({Point.BEFORE_SWAP: move}):
        mine.repository.publisher.publish_in_turn(mine.repository.tips.of("main", None), plan)
    assert left == 0
    assert graph.entity_at("node:Person", "mine") is not None


@pytest.mark.processes
def test_a_key_that_another_process_took_is_found_in_its_files(graph: Graph) -> None:
    """This process remembers what it wrote itself; here it has to look."""
    effect = AppendRows(written(graph, "Person", {"name": "same"}))  # type: ignore[arg-type]
    plan = plan_with(graph, "node:Person", effect, KeysAbsent("node:Person", ("same",)))
    with workers(1) as (rival,):
        assert "ok" in rival.call("load", graph.uri, data={"Person": [{"name": "same"}]})
    with pytest.raises(KeyConflict):
        publish(graph, plan)
