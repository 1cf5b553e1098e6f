"""What an indexed filter costs on an object store: requests and bytes, counted at the server."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.versioning.store import Settings
from tests.support.s3 import S3Server

pytestmark = pytest.mark.s3

COUNT = 600_000
URI = "s3://graphs/cost-indexes"
SCHEMA = "node T { key: String @key  at: DateTime @index  size: F64 @index  name: String @index  small: I32 @index }"
FILTERS = [
    '$t.at < datetime("1970-01-01T00:00:05Z")', "$t.size >= 0.5 and $t.size < 1.0", '$t.name = "n0000005"',
    '$t.name starts_with "n000000"', '$t.key starts_with "k000000"', "$t.size in [0.5, 1.0]",
]  # fmt: skip


@pytest.fixture
def graph(s3: S3Server) -> str:
    numbers = np.random.default_rng(3).permutation(COUNT)
    graph = Graph.init(URI, SCHEMA)
    columns = {
        "key": [f"k{n:07d}" for n in numbers],
        "at": pa.array(numbers * 1000, pa.int64()).cast(pa.timestamp("ms", "UTC")),
        "size": numbers / 8,
        "name": [f"n{n:07d}" for n in numbers],
        "small": pa.array(numbers % 7, pa.int32()),
    }
    graph.load({"T": pa.table(columns)})
    graph.maintenance.optimize()
    return URI


def cost(s3: S3Server, uri: str, condition: str, expansion: str) -> tuple[int, int, list[str]]:
    graph = Graph.open(uri, settings=Settings(query_expansion=expansion))
    graph.query("query warm() { match { $t: T } return { count($t) as n } }")
    before = len(s3.requests())
    text = f"query q() {{ match {{ $t: T  {condition} }} return {{ $t.key }} }}"
    found = sorted(row["t.key"] for row in graph.query(text).to_pylist())
    made = s3.requests()[before:]
    return len(made), sum(request.size for request in made if request.method == "GET"), found


def test_an_indexed_filter_reads_little_and_a_small_column_is_read_whole(s3: S3Server, graph: str) -> None:
    for condition in FILTERS:
        requests, read, found = cost(s3, graph, condition, "auto")
        plain_requests, plain_read, expected = cost(s3, graph, condition, "csr")
        assert found == expected
        assert 0 < len(found) <= 10
        assert read < plain_read / 4, (condition, read, plain_read)
        assert requests <= plain_requests + 24, (condition, requests, plain_requests)
    # A request costs more than a column of a few hundred kilobytes: no index is opened for it.
    before = len(s3.requests())
    cost(s3, graph, "$t.small = 3", "auto")
    assert not [r for r in s3.requests()[before:] if "page_lookup" in r.path]
