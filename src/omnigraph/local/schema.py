"""Handle requests about the schema of a graph."""

from __future__ import annotations

from omnigraph.api.progress import Listener
from omnigraph.api.requests import PlanSchema, ShowSchema
from omnigraph.api.results import SchemaChange
from omnigraph.api.write_requests import ApplySchema
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.versioning.contracts import load_source
from omnigraph.write.schema_apply import SchemaRequest, apply_schema, plan_schema


def show_schema(graph: LocalGraph, request: ShowSchema, _: Listener | None) -> str:
    """The schema text of a target."""
    return load_source(graph.store.objects, graph.repository.resolve(request.at).schema_hash)


def plan_change(graph: LocalGraph, request: PlanSchema, _: Listener | None) -> SchemaChange:
    """The steps that would bring a branch to a schema."""
    wanted = SchemaRequest.of(
        request.text, request.path, allow_data_loss=request.allow_data_loss, drop=request.drop, fresh=request.fresh
    )
    return plan_schema(graph.repository, wanted, branch=request.branch)


def apply_change(graph: LocalGraph, request: ApplySchema, _: Listener | None) -> SchemaChange:
    """Bring a branch to a schema in one commit."""
    wanted = SchemaRequest.of(
        request.text, request.path, allow_data_loss=request.allow_data_loss, drop=request.drop, fresh=request.fresh,
        allow_drops=request.allow_drops, plan=request.plan,
    )  # fmt: skip
    return apply_schema(graph.repository, wanted, branch=request.branch, actor=request.actor, message=request.message)


HANDLERS: Handlers = {ShowSchema: show_schema, PlanSchema: plan_change, ApplySchema: apply_change}
