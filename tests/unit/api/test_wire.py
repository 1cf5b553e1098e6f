"""Every request and every kind of result survives JSON; what is not as the class says is refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.api import wire
from omnigraph.api.arguments import EntityId
from omnigraph.api.conflicts import Conflict, ConflictKind
from omnigraph.api.requests import CheckGraph, GetBlob, ReadEntity, RunQuery
from omnigraph.api.service import Request
from omnigraph.api.target import Place, Target
from omnigraph.api.verbs import VERBS, Verb
from omnigraph.api.write_requests import CleanUp, DeleteEntities, LoadRows, MergeBranch
from omnigraph.errors import ArgumentRefused, InvalidArgument, KeyConflict

MOMENT = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CONFLICT = Conflict(
    kind=ConflictKind.DIVERGENT_UPDATE, entity_kind="node", type_name="Person", message="both changed it",
    entity_id="Ada", base={"born": None}, ours={"born": dt.date(2024, 2, 29)}, theirs={"born": 1.5},
)  # fmt: skip
TABLE = pa.table({"type": ["Person"], "id": ["Ada"], "rank": [0.5]})
ENTITY_ID = st.one_of(TEXTS, st.integers(-(2**63), 2**63), st.booleans(), st.dates())


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation of a request, as callers of `Graph` pass them."""
    if annotation is Any:
        return st.sampled_from([TABLE.to_pylist(), {"Person": TABLE}, None])
    if annotation is pa.Table:
        return st.just(TABLE)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        least = getattr(arguments[1], "least", None)
        return values(arguments[0]) if least is None else st.integers(least, 99)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple or origin is Sequence:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if arguments:
        return st.one_of([values(each) for each in arguments if "PathLike" not in str(each) and "IO" not in str(each)])
    simple = {
        str: TEXTS, bool: st.booleans(), int: st.integers(1, 99), Conflict: st.just(CONFLICT),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(), Place: st.builds(Place, st.none() | TEXTS, st.integers(1, 99)),
        dt.datetime: st.datetimes(timezones=st.just(dt.UTC)), dt.date: st.dates(),
        dt.timedelta: st.timedeltas(dt.timedelta(0), dt.timedelta(99)).map(lambda d: dt.timedelta(seconds=d.seconds)),
    }  # fmt: skip
    return simple[annotation]


@st.composite
def requests_of(draw: st.DrawFn, verb: Verb) -> Request[Any]:
    hints = typing.get_type_hints(verb.request, include_extras=True)
    names = [each.name for each in dataclasses.fields(verb.request)]  # type: ignore[arg-type]
    return verb.request(**{name: draw(ENTITY_ID if hints[name] is EntityId else values(hints[name])) for name in names})


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_request_survives(verb: Verb, data: st.DataObject) -> None:
    asked = data.draw(requests_of(verb))
    text = json.dumps(wire.encode_request(asked), allow_nan=False)
    assert wire.decode_request(json.loads(text)) == asked


@pytest.mark.parametrize(
    "at", [None, "main~1", 17, dt.datetime(2026, 1, 31, tzinfo=dt.UTC), Place("dev", 3), Place(None, MOMENT)], ids=str
)
def test_targets_keep_their_kind(at: Target) -> None:
    found = wire.decode_request(wire.encode_request(RunQuery(query="q", at=at)))
    assert found == RunQuery(query="q", at=at)


def test_only_what_differs_from_the_default_travels() -> None:
    assert wire.encode_request(CheckGraph()) == {"verb": "check_graph", "fields": {}}
    body = wire.encode_request(CleanUp(keep=None, older_than=dt.timedelta(hours=1)))
    assert body == {"verb": "clean_up", "fields": {"keep": None, "older_than": {"$seconds": 3600.0}}}
    assert wire.decode_request(body) == CleanUp(keep=None, older_than=dt.timedelta(hours=1))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"verb": "delete_entities", "fields": {"type_name": "Person", "ids": "12"}}, "ids"),
        ({"verb": "delete_entities", "fields": {"type_name": "Person"}}, "needs `ids`"),
        ({"verb": "load_rows", "fields": {"data": [], "mode": "upsert"}}, "mode"),
        ({"verb": "load_rows", "fields": {"data": [], "dryrun": True}}, "did you mean `dry_run`"),
        ({"verb": "explain_query", "fields": {"query": "q", "analyze": "yes"}}, "analyze"),
        ({"verb": "run_query", "fields": {"query": 1}}, "query"),
        ({"verb": "run_querry", "fields": {}}, "run_query"),
        ({"verb": ["run_query"]}, "`verb` and `fields`"),
        ({"verb": "list_tags", "fields": {}, "actor": "me"}, "`verb` and `fields`"),
    ],
)  # fmt: skip
def test_what_others_send_is_checked(body: Any, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wire.decode_request(body)
    assert says in str(caught.value)


TAGS = ("$datetime", "$date", "$bytes", "$decimal", "$float", "$seconds", "$arrow", "$set", "$tuple", "$dict",
        "$Catalog", "$Conflict", "$ConflictKind", "$Place", "$GraphCommit", "$LoadRows", "$nothing")  # fmt: skip
DAMAGED = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**30) | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS, inner, max_size=2)
        | st.dictionaries(st.sampled_from(TAGS), inner, min_size=1, max_size=1)
    ),
    max_leaves=6,
)


@settings(max_examples=1500, deadline=None)
@given(fields=st.dictionaries(st.sampled_from(["data", "at", "resolutions", "source", "ids", "query"]), DAMAGED))
@pytest.mark.parametrize("verb", ["load_rows", "merge_branch", "run_query", "delete_entities"])
def test_whatever_others_send_is_a_request_or_one_refusal(verb: str, fields: dict[str, Any]) -> None:
    try:
        found = wire.decode_request({"verb": verb, "fields": fields})
    except InvalidArgument:
        return
    assert isinstance(found, Request)


def test_deep_nesting_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArgument, match="`data` cannot be decoded"):
        wire.decode_request({"verb": "load_rows", "fields": {"data": deep}})


def test_texts_of_requests_stay_texts() -> None:
    """A text that looks like a day is no day, and a mapping whose keys look like tags is that mapping."""
    asked = ReadEntity(table_key="node:Person", entity_id="2026-01-31")
    assert wire.decode_request(wire.encode_request(asked)) == asked
    rows = LoadRows(data=[{"type": "Person", "data": {"$date": "x", "name": "$Conflict"}}])
    assert wire.decode_request(json.loads(json.dumps(wire.encode_request(rows)))) == rows


def test_what_cannot_travel_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="does not leave this process"):
        wire.encode_request(LoadRows(data=object()))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = Graph.init(tmp_path / "g", SCHEMA)
    made.load([{"type": "Person", "data": {"name": "Ada", "age": 36, "born": "1815-12-10"}}], message="first")
    made.load([{"type": "Person", "data": {"name": "Bob"}}, {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {}}])
    made.branches.create("dev")
    made.tags.create("v1")
    return made


def answers(graph: Graph) -> Iterator[Any]:
    yield graph.query("query q() { match { $p: Person } return { $p.name, $p.born } }")
    yield graph.explain("query q() { match { $p: Person } return { $p.name } }", analyze=True)
    yield graph.rows("node:Person")
    yield graph.entity_at("node:Person", "Ada")
    yield graph.catalog()
    yield graph.branches.list()
    yield graph.tags.list()
    yield graph.commits.list()
    yield graph.commits.changes(graph.commits.head().graph_commit_id)
    yield list(graph.changes(start="beginning"))
    yield graph.schema.show()
    yield graph.schema.plan(SCHEMA + "node City { name: String @key }")
    yield graph.load([{"type": "Person", "data": {"name": 3}}], dry_run=True, max_errors=5)
    yield graph.mutate('query m() { insert Person { name: "Cy" } }')
    yield graph.delete("Person", ["Cy"])
    yield graph.branches.merge("dev", dry_run=True)
    yield graph.maintenance.stats()
    yield graph.maintenance.fsck()
    yield graph.maintenance.repair()
    yield graph.maintenance.optimize(dry_run=True)
    yield graph.maintenance.ensure_indices()
    yield graph.maintenance.cleanup()
    yield graph.recovery.list()
    yield graph.recovery.audit()
    yield graph.restore("v1", dry_run=True)
    yield graph.analytics.degrees("Knows")


def test_every_kind_of_result_survives(graph: Graph) -> None:
    for answer in answers(graph):
        text = json.dumps(wire.encode_result(answer), allow_nan=False)
        found = wire.decode_result(json.loads(text))
        assert type(found) is type(answer)
        assert found.to_json() == answer.to_json() if hasattr(answer, "to_json") else found == answer


def test_errors_keep_their_class(graph: Graph) -> None:
    with pytest.raises(KeyConflict) as caught:
        graph.load([{"type": "Person", "data": {"name": "Ada"}}])
    found = wire.decode_error(json.loads(json.dumps(wire.encode_error(caught.value))))
    assert type(found) is KeyConflict
    assert str(found) == str(caught.value)


def test_a_decoded_request_is_answered_like_the_call(graph: Graph) -> None:
    body = {"verb": "read_entity", "fields": {"table_key": "Person", "entity_id": "Ada"}}
    assert graph.service.call(wire.decode_request(body)) == graph.entity_at("Person", "Ada")
    with pytest.raises(ArgumentRefused):
        wire.decode_request({"verb": "delete_entities", "fields": {"type_name": "Person", "ids": "Ada"}})
    asked = MergeBranch(source="dev", resolutions=(CONFLICT,))
    assert wire.decode_request(wire.encode_request(asked)) == asked
    assert wire.decode_request(wire.encode_request(GetBlob(table_key="P", entity_id=1, property_name="x"))).offset == 0
    assert DeleteEntities(type_name="P", ids=("a",)) == DeleteEntities(type_name="P", ids=("a",))
