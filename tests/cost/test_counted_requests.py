"""The requests that the process counts are those that the server got."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.cli.main import run
from omnigraph.storage import requests
from tests.support.graphs import knows, people
from tests.support.s3 import Request, S3Server
from tests.support.s3_faults import REFUSE, fault_proxy

pytestmark = [pytest.mark.s3, pytest.mark.filterwarnings("ignore:keeping:UserWarning")]
SCHEMA = "node Person { name: String @key  age: I32? @index }\nedge Knows: Person -> Person"
HOP = 'query hop() { match { $p: Person { name: "ann" }  $p knows $q } return { $q.name } }'
ACTIONS: dict[str, Callable[[Graph], Any]] = {
    "load": lambda g: g.load({"Person": people("ann")}),
    "two tables": lambda g: g.load({"Person": people("bob", "cyd"), "Knows": knows(("ann", "bob"))}),
    "many rows": lambda g: g.load({"Person": people(*(f"p{i}" for i in range(70_000)))}),
    "open": lambda g: Graph.open(g.uri).rows("node:Person"),
    "query": lambda g: Graph.open(g.uri).query(HOP).to_pylist(),
    "branch": lambda g: g.branches.create("dev"),
    "upsert": lambda g: g.load({"Person": people("ann", age=3)}, "merge", branch="dev"),
    "merge": lambda g: g.branches.merge("dev"),
    "delete": lambda g: g.delete("Person", ["cyd"]),
    "branch delete": lambda g: g.branches.delete("dev"),
    "optimize": lambda g: g.maintenance.optimize(),
    "fsck": lambda g: g.maintenance.fsck(),
    "stats": lambda g: g.maintenance.stats(),
    "cleanup": lambda g: g.maintenance.cleanup(1, grace=0, force=True, confirm=True),
}


def kind_of(request: Request) -> str:
    if request.is_list:
        return "list"
    return "delete" if request.method == "POST" else request.method.lower()


def kinds(server: S3Server, since: int) -> Counter[str]:
    return Counter(map(kind_of, server.requests()[since:]))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"s3://graphs/{tmp_path.name}-counted"


def test_every_request_is_counted(s3: S3Server, uri: str) -> None:
    graph = Graph.init(uri, SCHEMA)
    for name, act in ACTIONS.items():
        graph.repository.store.wait_for_background_work()
        before, since = requests.so_far(), len(s3.requests())
        act(graph)
        graph.repository.store.wait_for_background_work()
        assert requests.so_far() - before == kinds(s3, since), name


def test_a_listing_of_several_pages_is_several_requests(s3: S3Server, uri: str) -> None:
    objects = Graph.init(uri, SCHEMA).repository.store.objects
    for number in range(1_001):
        objects.put_new(f"__staging/many/{number:04}", b"x")
    before, since = requests.so_far(), len(s3.requests())
    assert len(objects.list("__staging/many/")) == 1_001
    objects.delete_prefix("__staging/many/")
    assert requests.so_far() - before == kinds(s3, since) == {"list": 4, "delete": 2}


def test_a_command_prints_what_the_server_got(s3: S3Server, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    Graph.init(uri, SCHEMA).load({"Person": people("ann")})
    since = len(s3.requests())
    assert run(["--trace-io", "snapshot", uri, "--json"]) == 0
    found = re.search(r"requests to the object store: (\d+) \((.*)\)", capsys.readouterr().err)
    assert found is not None
    server = kinds(s3, since)
    assert int(found[1]) == server.total()
    assert found[2] == ", ".join(f"{kind} {count}" for kind, count in sorted(server.items()))


def test_a_write_logs_what_the_server_got(s3: S3Server, uri: str, caplog: pytest.LogCaptureFixture) -> None:
    graph = Graph.init(uri, SCHEMA)
    graph.load({"Person": people("ann")})
    caplog.set_level(logging.INFO, logger="omnigraph")
    caplog.clear()
    since = len(s3.requests())
    graph.load({"Person": people("bob")})
    [fields] = [r.fields for r in caplog.records if getattr(r, "event", "") == "commit.published"]
    assert fields["requests"] == kinds(s3, since).total()


def test_attempts_that_the_client_repeats_are_counted(s3: S3Server, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Graph.init(uri, SCHEMA).load({"Person": people("ann")})
    with fault_proxy(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        graph = Graph.open(uri)
        graph.load({"Person": people("bob")})
        rule = proxy.add(action=REFUSE, method="PUT", path=r"/data/", times=2)
        before, since = requests.so_far(), len(s3.requests())
        graph.load({"Person": people("cyd")})
        found = requests.so_far() - before
        assert found["repeated"] == rule.used == 2
        assert found.total() - rule.used == kinds(s3, since).total(), "what was refused did not reach the server"


def test_on_a_local_disk_there_are_no_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="omnigraph")
    before = requests.so_far()
    Graph.init(tmp_path / "g", SCHEMA).load({"Person": people("ann")})
    assert requests.so_far() == before
    assert all("requests" not in r.fields for r in caplog.records if getattr(r, "event", "") == "commit.published")
