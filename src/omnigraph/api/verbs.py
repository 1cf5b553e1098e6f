"""The table of verbs: for each class of request its name, the capability required, its route, and its kind of answer.

Command lines, HTTP routes and MCP tools are made from this table; the description of a verb is the docstring of its
request. Paths are below that of a graph. `{name}` in a path is a field of the request.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.api import analytics_requests as analytics
from omnigraph.api import requests as reads
from omnigraph.api import write_requests as writes
from omnigraph.api.service import Request
from omnigraph.errors import InvalidArgument
from omnigraph.schema.names import suggest

Capability = Literal[
    "read", "export", "change", "schema_apply", "branch_create", "branch_delete", "branch_merge", "maintain",
]  # fmt: skip
"""The capability that an actor needs."""
Method = Literal["GET", "POST", "DELETE"]
Answer = Literal["value", "stream", "here"]
"""One value; a stream of items; or a value that stays in the process, such as a local file."""


@dataclass(frozen=True, slots=True)
class Verb:
    """The entry of one class of requests."""

    name: str
    request: type[Request[Any]]
    capability: Capability
    method: Method
    path: str
    is_write: bool = False
    answer: Answer = "value"

    @property
    def description(self) -> str:
        """Return the description of the verb: the docstring of its request."""
        return inspect.getdoc(self.request) or ""


def _read(name: str, request: type[Request[Any]], method: Method, path: str, answer: Answer = "value") -> Verb:
    return Verb(name, request, "read", method, path, answer=answer)


def _write(name: str, request: type[Request[Any]], capability: Capability, path: str, method: Method = "POST") -> Verb:
    return Verb(name, request, capability, method, path, is_write=True)


VERBS: tuple[Verb, ...] = (
    _read("run_query", reads.RunQuery, "POST", "/query"),
    _read("stream_query", reads.StreamQuery, "POST", "/query/stream", "stream"),
    _read("explain_query", reads.ExplainQuery, "POST", "/explain"),
    _read("read_rows", reads.ReadRows, "GET", "/entities/{table_key}"),
    _read("read_entity", reads.ReadEntity, "GET", "/entities/{table_key}/{entity_id}"),
    _read("read_snapshot", reads.ReadSnapshot, "GET", "/snapshot", "here"),
    _read("locate_table", reads.LocateTable, "GET", "/tables/{table_key}"),
    _read("read_catalog", reads.ReadCatalog, "GET", "/catalog"),
    _read("show_schema", reads.ShowSchema, "GET", "/schema"),
    _read("plan_schema", reads.PlanSchema, "POST", "/schema/plan"),
    _read("diff_targets", reads.DiffTargets, "GET", "/diff", "stream"),
    _read("poll_changes", reads.PollChanges, "GET", "/changes", "stream"),
    _read("list_branches", reads.ListBranches, "GET", "/branches"),
    _read("get_branch", reads.GetBranch, "GET", "/branches/{name}"),
    _read("list_tags", reads.ListTags, "GET", "/tags"),
    _read("list_commits", reads.ListCommits, "GET", "/commits", "stream"),
    _read("get_commit", reads.GetCommit, "GET", "/commits/{commit_id}"),
    _read("get_head", reads.GetHead, "GET", "/branches/{branch}/head"),
    _read("commit_changes", reads.CommitChanges, "GET", "/commits/{commit_id}/changes"),
    _read("get_blob", reads.GetBlob, "GET", "/blob"),
    _read("stat_blob", reads.StatBlob, "GET", "/blob/info"),
    _read("get_stats", reads.GetStats, "GET", "/stats"),
    _read("list_indexes", reads.GetIndexStatus, "GET", "/indexes"),
    _read("compute_degrees", analytics.Degrees, "POST", "/analytics/degrees"),
    _read("compute_pagerank", analytics.PageRank, "POST", "/analytics/pagerank"),
    _read("find_components", analytics.Components, "POST", "/analytics/components"),
    _read("find_communities", analytics.Communities, "POST", "/analytics/communities"),
    _read("count_triangles", analytics.Triangles, "POST", "/analytics/triangles"),
    _read("find_shortest_paths", analytics.ShortestPaths, "POST", "/analytics/shortest-paths"),
    Verb("export_rows", reads.ExportRows, "export", "POST", "/export", answer="here"),
    Verb("export_history", writes.ExportHistory, "export", "POST", "/export/history", answer="here"),
    Verb("back_up", writes.BackUp, "export", "POST", "/maintenance/backup", answer="here"),
    _write("load_rows", writes.LoadRows, "change", "/load"),
    _write("run_mutation", writes.RunMutation, "change", "/mutate"),
    _write("delete_entities", writes.DeleteEntities, "change", "/delete"),
    _write("revert_commit", writes.RevertCommit, "change", "/revert"),
    _write("cherry_pick", writes.CherryPick, "change", "/cherry-pick"),
    _write("restore_target", writes.RestoreTarget, "change", "/restore"),
    _write("write_column", analytics.WriteColumn, "change", "/analytics/write"),
    _write("apply_schema", writes.ApplySchema, "schema_apply", "/schema/apply"),
    _write("create_branch", writes.CreateBranch, "branch_create", "/branches"),
    _write("delete_branch", writes.DeleteBranch, "branch_delete", "/branches/{name}", "DELETE"),
    _write("merge_branch", writes.MergeBranch, "branch_merge", "/branches/merge"),
    _write("create_tag", writes.CreateTag, "branch_create", "/tags"),
    _write("delete_tag", writes.DeleteTag, "branch_delete", "/tags/{name}", "DELETE"),
    _write("ensure_indices", writes.EnsureIndices, "maintain", "/maintenance/ensure-indices"),
    _write("optimize_tables", writes.OptimizeTables, "maintain", "/maintenance/optimize"),
    _write("clean_up", writes.CleanUp, "maintain", "/maintenance/cleanup"),
    _write("repair_graph", writes.RepairGraph, "maintain", "/maintenance/repair"),
    Verb("check_graph", reads.CheckGraph, "maintain", "POST", "/maintenance/fsck"),
    _write("run_recovery", writes.RunRecovery, "maintain", "/recovery/run"),
    _write("discard_intent", writes.DiscardIntent, "maintain", "/recovery/{operation_id}", "DELETE"),
    Verb("list_intents", reads.ListIntents, "maintain", "GET", "/recovery"),
    Verb("audit_recovery", reads.AuditRecovery, "maintain", "GET", "/recovery/audit"),
)
_BY_NAME = {verb.name: verb for verb in VERBS}
_BY_REQUEST = {verb.request: verb for verb in VERBS}


def verb_of(name: str) -> Verb:
    """Return the verb of a name."""
    found = _BY_NAME.get(name)
    if found is None:
        raise InvalidArgument(
            f"there is no verb {name[:80]!r}", hint=suggest(name, _BY_NAME, "see omnigraph.api.verbs")
        )
    return found


def verb_of_request(request: type[Request[Any]]) -> Verb:
    """Return the verb of a class of requests."""
    return _BY_REQUEST[request]
