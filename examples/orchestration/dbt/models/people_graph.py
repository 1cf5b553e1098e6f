"""A dbt model whose table is the log of what it did: the graph gets all rows of its refs in one commit."""

from omnigraph import Graph, pipeline


def model(dbt, session):
    """Load what the models in SQL prepared. A run that dbt repeats is found by its key, and not loaded twice."""
    dbt.config(materialized="table", packages=["omnigraph"], graph="/data/people.omni", key=None)
    graph = Graph.open(dbt.config.get("graph"))
    result = pipeline.load(
        session, graph, nodes={"Person": dbt.ref("adults")}, edges={"Knows": dbt.ref("friends")}, mode="merge",
        actor="dbt", idempotency_key=dbt.config.get("key"),
    )  # fmt: skip
    commit = None if result.commit is None else result.commit.graph_commit_id
    rows = [(name, count, commit) for name, count in (*result.nodes.items(), *result.edges.items())]
    return session.createDataFrame(rows, "type string, rows long, commit string")
