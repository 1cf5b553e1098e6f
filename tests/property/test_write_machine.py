"""A graph against a plain model: random loads, mutations, branches, time travel, reopening and crashes.

The model is a dict per branch and version. After every step the graph holds what the model holds; a step that the model
refuses, the graph refuses with the same kind of error and stays as it was.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph import Graph
from omnigraph.errors import CardinalityViolation, DuplicateKey, KeyConflict, MissingEndpoint, OmnigraphError
from omnigraph.storage.failpoints import Point
from tests.support.graphs import EXPIRED, crash_at

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
edge Knows: Person -> Person @card(0..2) { since: I32?  @key(src, dst) }
"""
NAMES = [f"p{i}" for i in range(6)]
EMAILS = [None, None, "e1", "e2", "e3"]

names = st.sampled_from(NAMES)
people = st.builds(lambda n, e, a: {"name": n, "email": e, "age": a}, names, st.sampled_from(EMAILS), st.integers(0, 5))
edges = st.builds(lambda a, b, s: {"from": a, "to": b, "since": s}, names, names, st.integers(0, 3))
loads = st.tuples(
    st.lists(people, max_size=3, unique_by=lambda r: r["name"]),
    st.lists(edges, max_size=3, unique_by=lambda r: (r["from"], r["to"])),
)

State = dict[str, dict[Any, dict[str, Any]]]


def empty() -> State:
    return {"people": {}, "knows": {}}


def problem(state: State) -> type[OmnigraphError] | None:
    """The rule that a state breaks, the way the validator would name it first."""
    emails = Counter(p["email"] for p in state["people"].values() if p["email"] is not None)
    if any(count > 1 for count in emails.values()):
        return DuplicateKey
    if any(a not in state["people"] or b not in state["people"] for a, b in state["knows"]):
        return MissingEndpoint
    if any(count > 2 for count in Counter(a for a, _ in state["knows"]).values()):
        return CardinalityViolation
    return None


class WriteMachine(RuleBasedStateMachine):
    """One graph and its model."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="omnigraph-machine-")
        self.graph = Graph.init(f"{self.folder}/g", SCHEMA)
        self.branches: dict[str, State] = {"main": empty()}
        self.past: dict[str, State] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- steps ----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), rows=loads, mode=st.sampled_from(["append", "merge"]))
    def load(self, data: st.DataObject, rows: Any, mode: str) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        new_people, new_edges = rows
        wanted = copy.deepcopy(self.branches[branch])
        expected: type[OmnigraphError] | None = None
        if mode == "append":
            taken = any(p["name"] in wanted["people"] for p in new_people)
            if taken or any((e["from"], e["to"]) in wanted["knows"] for e in new_edges):
                expected = KeyConflict
        wanted["people"].update({p["name"]: p for p in new_people})
        wanted["knows"].update({(e["from"], e["to"]): e for e in new_edges})
        self._step(
            branch, wanted, expected, lambda: self.graph.load({"Person": new_people, "Knows": new_edges}, mode, branch)
        )

    @rule(data=st.data(), kept=st.lists(people, max_size=4, unique_by=lambda r: r["name"]))
    def overwrite(self, data: st.DataObject, kept: Any) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        wanted = copy.deepcopy(self.branches[branch])
        wanted["people"] = {p["name"]: p for p in kept}
        self._step(branch, wanted, None, lambda: self.graph.load({"Person": kept}, "overwrite", branch))

    @rule(data=st.data(), name=names, email=st.sampled_from(EMAILS), age=st.integers(0, 5))
    def update(self, data: st.DataObject, name: str, email: str | None, age: int) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        wanted = copy.deepcopy(self.branches[branch])
        matched = [p for p in wanted["people"].values() if p["name"] == name or p["age"] == age]
        for person in matched:
            person["email"] = email
        text = (
            "query q($n: String, $e: String?, $a: I64) { update Person set { email: $e } where name = $n or age = $a }"
        )
        params = {"n": name, "e": email, "a": age}
        self._step(branch, wanted, None, lambda: self.graph.mutate(text, params=params, branch=branch))

    @rule(data=st.data(), name=names, age=st.integers(0, 5))
    def insert(self, data: st.DataObject, name: str, age: int) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        wanted = copy.deepcopy(self.branches[branch])
        wanted["people"][name] = {"name": name, "email": None, "age": age}
        text = "query q($n: String, $a: I64) { insert Person { name: $n, age: $a } }"
        params = {"n": name, "a": age}
        self._step(branch, wanted, None, lambda: self.graph.mutate(text, params=params, branch=branch))

    @rule(data=st.data(), name=names, only_edges=st.booleans())
    def delete(self, data: st.DataObject, name: str, only_edges: bool) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        wanted = copy.deepcopy(self.branches[branch])
        if only_edges:
            wanted["knows"] = {k: e for k, e in wanted["knows"].items() if k[0] != name}
        else:
            wanted["people"].pop(name, None)
            wanted["knows"] = {k: e for k, e in wanted["knows"].items() if name not in k}
        what = "Knows where from = $n" if only_edges else "Person where name = $n"
        text = f"query q($n: String) {{ delete {what} }}"
        self._step(branch, wanted, None, lambda: self.graph.mutate(text, params={"n": name}, branch=branch))

    @precondition(lambda self: len(self.branches) < 3)
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(sorted(self.branches)))
        name = f"b{len(self.branches)}"
        self.graph.branches.create(name, source)
        self.branches[name] = copy.deepcopy(self.branches[source])

    @rule()
    def reopen(self) -> None:
        self.graph = Graph.open(self.graph.uri)

    @rule(name=names, point=st.sampled_from([Point.ROWS_WRITTEN, Point.TABLE_STAGED, Point.BEFORE_SWAP]))
    def crash(self, name: str, point: Point) -> None:
        """A writer dies before its swap: nothing of it is ever seen, or recovery finishes all of it."""
        wanted = copy.deepcopy(self.branches["main"])
        wanted["people"][name] = {"name": name, "email": None, "age": 9}
        with crash_at(point):
            self.graph.load({"Person": [{"name": name, "age": 9}]}, "merge")
        self.graph = Graph.open(self.graph.uri, settings=EXPIRED)
        assert self._held("main") in (self.branches["main"], wanted)
        self.branches["main"] = self._held("main")

    # --- comparison -----------------------------------------------------------------------------------------------

    def _step(self, branch: str, wanted: State, expected: type[OmnigraphError] | None, run: Any) -> None:
        before = self.branches[branch]
        expected = expected or problem(wanted)
        version = self.graph.snapshot(branch).version
        refusal: OmnigraphError | None = None
        try:
            run()
        except OmnigraphError as error:
            refusal = error
        if refusal is not None:
            assert expected is not None, f"refused without a reason: {refusal}"
            allowed = (KeyConflict, DuplicateKey, MissingEndpoint, CardinalityViolation)
            assert isinstance(refusal, allowed), f"{type(refusal).__name__}: {refusal}"
            assert self.graph.snapshot(branch).version == version, "a refused write left a version"
            return
        assert expected is None, f"accepted although {expected.__name__} was due: {before} -> {wanted}"
        self.branches[branch] = wanted
        head = self.graph.commits.head(branch).graph_commit_id
        self.past[head] = copy.deepcopy(wanted)

    def _held(self, at: str) -> State:
        rows = self.graph.rows("node:Person", at).to_pylist()
        links = self.graph.rows("edge:Knows", at).to_pylist()
        held = empty()
        held["people"] = {r["name"]: {k: r[k] for k in ("name", "email", "age")} for r in rows}
        held["knows"] = {(r["src"], r["dst"]): {"from": r["src"], "to": r["dst"], "since": r["since"]} for r in links}
        assert len(held["people"]) == len(rows)
        assert len(held["knows"]) == len(links)
        return held

    @invariant()
    def the_graph_is_the_model(self) -> None:
        for branch, state in getattr(self, "branches", {}).items():
            assert self._held(branch) == state, branch

    @rule(data=st.data())
    @precondition(lambda self: self.past)
    def travel(self, data: st.DataObject) -> None:
        commit = data.draw(st.sampled_from(sorted(self.past)))
        assert self._held(commit) == self.past[commit]


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        WriteMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def test_a_few_histories() -> None:
    run(12, 15)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_histories() -> None:
    run(2_000, 15)
