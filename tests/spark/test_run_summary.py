"""What a run tells others: a summary in numbers, OpenLineage events, log records, and lines of progress."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import JobError, OmnigraphError
from omnigraph.pipeline.job import parse_job
from omnigraph.pipeline.lineage import dataset_name, lineage_of

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
JOB = """
name: people
on_error: reject
lineage: {url: "%s", namespace: crm}
sources: {people: {path: people.parquet, expect: [{rule: age > 0, on_fail: drop}]}}
steps: {adults: "select name, age from people"}
nodes: {Person: [{input: adults}, more.csv]}
edges: {Knows: knows.csv}
"""


class Receiver(BaseHTTPRequestHandler):
    """An endpoint that keeps what it gets, and answers what it is told to."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def endpoint() -> Iterator[Any]:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.status = [], 201  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    pq.write_table(pa.table({"name": ["a", "b", "c"], "age": [1, 2, -1]}), tmp_path / "people.parquet")
    (tmp_path / "more.csv").write_text("name,age\nd,old\ne,5\n")
    (tmp_path / "knows.csv").write_text("from,to\na,b\n")
    return Graph.init(tmp_path / "g", SCHEMA)


def test_a_run_in_numbers_and_events(
    spark: Any, tmp_path: Path, graph: Graph, endpoint: Any, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")
    monkeypatch.setenv("OMNIGRAPH_PROGRESS_SECONDS", "0.001")
    job = parse_job(JOB % f"http://127.0.0.1:{endpoint.server_port}/api/v1/lineage", tmp_path / "job.yaml")
    with caplog.at_level(logging.INFO, "omnigraph"):
        result = pipeline.run(spark, job, graph)

    summary = result.summary
    assert summary is not None
    assert (summary.job, summary.lineage_error, UUID(summary.run_id).version) == ("people", None, 4)
    types = {each.name: (each.kind, each.read, each.written, each.rejected, each.dropped) for each in summary.types}
    assert types == {"Person": ("node", 4, 3, 1, 0), "Knows": ("edge", 1, 1, 0, 0)}
    assert all(each.bytes > 0 for each in summary.types)
    assert set(summary.phases) == {"plan", "load files", "load Person from adults", "check and publish"}
    assert 0 < sum(summary.phases.values()) <= summary.seconds
    assert json.loads(json.dumps(summary.as_dict()))["types"][0]["type"] == "Person"

    paths, headers, events = zip(*endpoint.got, strict=True)
    assert set(paths) == {"/api/v1/lineage"}
    assert headers[0]["Authorization"] == "Bearer secret"
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"]
    assert {each["run"]["runId"] for each in events} == {summary.run_id}
    start, done = events
    assert (done["job"]["namespace"], done["job"]["name"]) == ("crm", "people")
    inputs = {each["name"].rpartition("/")[2]: each for each in done["inputs"]}
    assert set(inputs) == {"people.parquet", "more.csv", "knows.csv"}
    assert inputs["people.parquet"]["namespace"] == "file"
    columns = inputs["people.parquet"]["facets"]["schema"]["fields"]
    assert columns == [{"name": "name", "type": "string"}, {"name": "age", "type": "int64"}]
    assert inputs["people.parquet"]["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert inputs["more.csv"]["inputFacets"]["inputStatistics"]["rowCount"] == 2
    people, knows = done["outputs"]
    assert (people["namespace"], people["name"]) == ("file", f"{graph.uri}/nodes/Person")
    assert [each["name"] for each in knows["facets"]["schema"]["fields"]] == ["id", "from", "to"]
    assert result.commit is not None
    assert people["facets"]["version"]["datasetVersion"] == result.commit.graph_commit_id
    assert people["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert "outputFacets" not in start["outputs"][0]
    for event in events:
        every = [event, *facets_in(event)]
        assert all({"producer", "schemaURL"} <= set(each) or {"_producer", "_schemaURL"} <= set(each) for each in every)

    told = [(r.event, r.fields) for r in caplog.records if r.name == "omnigraph"]  # type: ignore[attr-defined]
    names = [name for name, _ in told if name.startswith("pipeline.")]
    assert (names[0], names[-1]) == ("pipeline.started", "pipeline.finished")
    assert {"pipeline.phase", "pipeline.progress"} <= set(names)
    assert dict(told)["pipeline.finished"]["rows"] == 4


def facets_in(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from part.get(kind, {}).values()


def test_failures_and_endpoints_that_fail(spark: Any, tmp_path: Path, graph: Graph, endpoint: Any) -> None:
    """An event that does not arrive is told of and nothing more; a load that fails is an event."""
    endpoint.status = 503
    url = f"http://127.0.0.1:{endpoint.server_port}/"
    result = pipeline.run(spark, parse_job(JOB % url, tmp_path / "job.yaml"), graph)
    assert result.commit is not None
    assert result.summary is not None
    assert "COMPLETE was not delivered: HTTP Error 503" in str(result.summary.lineage_error)
    text = "lineage: events.jsonl\nnodes: {Person: more.csv}"
    with pytest.raises(OmnigraphError):
        pipeline.run(spark, parse_job(text, tmp_path / "job.yaml"), graph)
    start, failed = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert (start["eventType"], failed["eventType"]) == ("START", "FAIL")
    assert "more.csv:2" in failed["run"]["facets"]["errorMessage"]["message"]
    assert failed["inputs"][0]["facets"]["schema"]["fields"][1] == {"name": "age", "type": "string"}


def test_where_events_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = parse_job("nodes: {P: a.csv}", tmp_path / "job.yaml")
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    assert lineage_of(job) is None
    monkeypatch.setenv("OPENLINEAGE_URL", "http://host:5000/")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "crm")
    found = lineage_of(job)
    assert found is not None
    assert (found.url, found.namespace) == ("http://host:5000/api/v1/lineage", "crm")
    own = parse_job("lineage: {file: a.jsonl, namespace: n}\nnodes: {P: a.csv}", tmp_path / "job.yaml")
    assert lineage_of(own) == pipeline.Lineage(file="a.jsonl", namespace="n")
    for text, words in (
        ("lineage: {namespace: n}", "needs a url or a file"),
        ("lineage: ftp://host", "no URL of HTTP"),
        ("lineage: {urls: n}", "'urls' is unknown in lineage"),
    ):
        with pytest.raises(JobError, match=words):
            parse_job(f"{text}\nnodes: {{P: a.csv}}", tmp_path / "job.yaml")
    assert dataset_name("s3://bucket/a/b.csv") == ("s3://bucket", "a/b.csv")
