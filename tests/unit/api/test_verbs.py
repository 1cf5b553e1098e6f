"""The table of verbs is whole: every request has a verb, every verb a handler, no two a route."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from omnigraph.api import analytics_requests, requests, write_requests
from omnigraph.api.service import Request
from omnigraph.api.verbs import VERBS, Verb, verb_of, verb_of_request
from omnigraph.errors import InvalidArgument
from omnigraph.local.service import TOPICS, handler_of

REQUESTS = {
    found
    for module in (requests, write_requests, analytics_requests)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Request) and found.__module__ == module.__name__
} - {analytics_requests.Algorithm}
EVERY_VERB = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)


def test_every_request_has_one_verb_and_one_handler() -> None:
    assert len(REQUESTS) > 50
    assert {verb.request for verb in VERBS} == REQUESTS
    assert set(TOPICS) == {request.__name__ for request in REQUESTS}
    assert len({handler_of(request.__name__) for request in REQUESTS}) > 45  # algorithms share one
    assert len({verb.name for verb in VERBS}) == len(VERBS) == len(REQUESTS)


def test_no_two_verbs_share_a_route() -> None:
    routes = [(verb.method, re.sub(r"\{\w+\}", "{}", verb.path)) for verb in VERBS]
    assert sorted(set(routes)) == sorted(routes)


@EVERY_VERB
def test_a_path_names_fields_of_the_request(verb: Verb) -> None:
    fields = {each.name for each in dataclasses.fields(verb.request)}  # type: ignore[arg-type]
    assert set(re.findall(r"\{(\w+)\}", verb.path)) <= fields
    assert verb.description.endswith(".")


@EVERY_VERB
def test_what_writes_is_no_get(verb: Verb) -> None:
    assert not (verb.is_write and (verb.method == "GET" or verb.capability == "read"))
    makes_a_commit = {"actor", "message"} <= {each.name for each in dataclasses.fields(verb.request)}  # type: ignore[arg-type]
    assert verb.is_write or not makes_a_commit


def test_an_unknown_verb_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="run_query"):
        verb_of("run_qery")
    assert verb_of_request(requests.RunQuery).name == "run_query"


def test_requests_are_frozen() -> None:
    asked: Any = requests.RunQuery(query="x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        asked.query = "y"
