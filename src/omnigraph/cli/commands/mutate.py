"""`mutate`: change a branch by a mutation of the query language."""

from __future__ import annotations

from omnigraph.api.json_shapes import mutation_json
from omnigraph.cli import options
from omnigraph.cli.changes_text import print_mutation
from omnigraph.cli.commands.load import IfCommit, Key, Message, Where
from omnigraph.cli.commands.query import File, Name, Params, ParamsFile, Text, query_params, query_source
from omnigraph.cli.output import print_json


def mutate(
    name: Name = None,
    *,
    file: File = None,
    text: Text = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Where = "main",
    if_commit: IfCommit = None,
    message: Message = None,
    key: Key = None,
    store: options.Store = None,
    actor: options.Actor = None,
    json: options.Json = False,
) -> None:
    """Run a mutation in one commit."""
    from omnigraph.graph import Graph

    source = query_source(name, file, text)
    given = query_params(params, params_file)
    graph = Graph.open(options.location(None, store))
    result = graph.mutate(
        source, name, given, branch=branch, actor=actor, expect_head=if_commit,
        message=message, idempotency_key=key,
    )  # fmt: skip
    if json:
        print_json(mutation_json(result, actor))
        return
    print_mutation(result, actor)
