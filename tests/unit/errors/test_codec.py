"""Every error class survives pickle, JSON and the way out of a Spark task as the very class with the same fields."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from typing import Any

import pytest

from omnigraph import errors
from omnigraph.api.conflicts import Conflict, ConflictKind
from omnigraph.errors import OmnigraphError, Span, Violation
from omnigraph.errors.codec import decode_value, encode_value
from omnigraph.execution.spark.task_errors import TaskRefusal, refusal_in
from omnigraph.schema.steps import Step

DAY, MOMENT = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 1, 5000, tzinfo=dt.UTC)
WRONG = Violation(
    rule="type", message="expects a date", type_key="node:Person", field="born", value=b"\x00\xff", entity_id="Ada",
    path="a.csv", row=3, column=7, hint="write a date", data={"born": MOMENT, "$odd": [1, None]},
)  # fmt: skip
STEP = Step("drop_type", {"name": "Person", "type_kind": "node", "mode": "soft"})
CONFLICT = Conflict(
    kind=ConflictKind.DIVERGENT_UPDATE, entity_kind="node", type_name="Person", message="both changed it",
    entity_id="Ada", base={"born": None}, ours={"born": DAY, "score": float("nan")}, theirs={"born": MOMENT},
)  # fmt: skip

ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "ArgumentRefused": (("load", "mode", "'x' is unknown"), {"hint": "one of append, merge"}),
    "ChangeFeedGap": (("01ABC",), {}),
    "ChangeFeedSchemaChanged": ((), {"type_name": "P", "commit_id": "01A", "version": 3, "what": "age is new"}),
    "ConstraintConflict": (("two of them",), {"type_key": "node:P"}),
    "DropNotAllowed": ((("P", "P.age"), (STEP,)), {}),
    "EndpointConflict": (("gone",), {"type_key": "edge:K", "entity_id": "Ada"}),
    "ExpectedVersionMismatch": (("node:P",), {"expected": 1, "actual": 2}),
    "KeyConflict": (("node:P", "Ada"), {"violations": (WRONG, WRONG)}),
    "MergeConflict": (("1 conflict", (CONFLICT,)), {}),
    "OutcomeUnknown": (("01ABC",), {}),
    "PlanMoved": ((), {"expected": "a", "actual": "b", "steps": (STEP,)}),
    "PreconditionFailed": ((), {"expected": "01A", "actual": None}),
    "SchemaChangeRefused": (("not supported", (STEP,)), {"hint": "export and load"}),
    "SchemaMoved": ((), {"expected": "a" * 64, "actual": "b" * 64}),
}
SHARED: dict[type[OmnigraphError], dict[str, Any]] = {
    errors.DataError: {"type_key": "node:P", "row": 3, "field": "age", "path": "a.csv", "violations": (WRONG,)},
    errors.LanguageError: {"span": Span(2, 5, 3), "source": "match {\n\t$p: Persn\n}", "path": "q.gq", "rule": "T1"},
}
CLASSES = sorted(
    (c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, OmnigraphError)),
    key=lambda c: c.__name__,
)


def sample(cls: type[OmnigraphError]) -> OmnigraphError:
    if cls.__name__ in ARGUMENTS:
        arguments, named = ARGUMENTS[cls.__name__]
        return cls(*arguments, **named)
    shared = [more for base, more in SHARED.items() if issubclass(cls, base)]
    own = next(base for base in cls.__mro__ if "__init__" in vars(base))
    assert own is OmnigraphError or own in SHARED, f"{cls.__name__} needs arguments in this test"
    return cls("what happened", hint="what to do", **(shared[0] if shared else {}))


def require_same(found: BaseException, given: OmnigraphError) -> None:
    assert type(found) is type(given)
    assert isinstance(found, OmnigraphError)
    assert repr(vars(found)) == repr(vars(given))  # by text, because of NaN
    assert str(found) == str(given)
    assert found.args == given.args
    assert json.dumps(found.as_dict(), default=str) == json.dumps(given.as_dict(), default=str)


def test_every_class_is_tried() -> None:
    assert len(CLASSES) > 40
    assert {cls.__name__ for cls in CLASSES} >= ARGUMENTS.keys()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_an_error_survives_pickle_json_and_tasks(cls: type[OmnigraphError]) -> None:
    error = sample(cls)
    require_same(pickle.loads(pickle.dumps(error)), error)
    require_same(OmnigraphError.from_wire(json.loads(json.dumps(error.to_wire()))), error)
    found = refusal_in(f"org.apache.spark.SparkException: [X] failed\n{TaskRefusal(error)}\n\tat java")
    assert found is not None
    require_same(found, error)


def test_notes_travel_too() -> None:
    error = errors.NotFound("no such thing")
    error.add_note("while looking for it")
    for copy in (pickle.loads(pickle.dumps(error)), OmnigraphError.from_wire(error.to_wire())):
        assert copy.__notes__ == ["while looking for it"]


def test_an_unknown_name_is_the_root_class_with_its_fields() -> None:
    found = OmnigraphError.from_wire({"class": "OfALaterVersion", "fields": {"message": "hm", "hint": None, "at": 3}})
    assert type(found) is OmnigraphError
    assert (found.message, vars(found)["at"]) == ("hm", 3)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, 2**80, 1.5, float("inf"), "a", "\ud800", b"\x00", DAY, MOMENT, Decimal("1.10"), (1, (2,)), [[]],
        {"a": {"b": []}}, {1: "x"}, {"$date": "no date"}, {"$x": 1}, WRONG, Span(1, 2),
    ],
    ids=repr,
)  # fmt: skip
def test_values_are_the_same_after_json(value: Any) -> None:
    assert decode_value(json.loads(json.dumps(encode_value(value)))) == value


def test_what_has_no_form_is_sent_as_text() -> None:
    assert decode_value(encode_value({"a": object})) == {"a": "<class 'object'>"}


def _fail() -> None:
    raise sample(errors.KeyConflict)


@pytest.mark.processes
def test_an_error_leaves_a_worker_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        failed = pool.submit(_fail).exception(timeout=60)
    assert failed is not None
    require_same(failed, sample(errors.KeyConflict))
