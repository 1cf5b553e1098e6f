"""Random operations of every kind of writer and reader, as plain data, and how each is run on a graph."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from omnigraph import Graph
from omnigraph.api.commits import GraphCommit
from omnigraph.errors import NotFound
from omnigraph.local.reads import rows_of_state
from tests.history.model import canonical, digest, schema_text

STANDING = ("main", "dev")
SIDES = tuple(f"side-{i}" for i in range(4))
TAGS = tuple(f"tag-{i}" for i in range(4))
NAMES = tuple(f"p{i}" for i in range(12))
HOT = tuple(f"hot-{i}" for i in range(6))
AGES = 4

WEIGHTS = {
    "load_event": 6, "insert_event": 5, "load_twins": 5, "merge_twins": 5, "overwrite": 1, "befriend": 5,
    "upsert_person": 4, "update_person": 4, "update_by_age": 2, "several_statements": 3, "delete_person": 2,
    "delete_by_id": 2, "delete_edges": 1, "branch": 4, "unbranch": 2, "tag": 2, "untag": 1, "merge": 5, "schema": 1,
    "load_scratch": 1, "optimize": 2, "indices": 1, "cleanup": 3, "read": 8, "read_past": 4,
}  # fmt: skip


class Chooser:
    """Chooses operations at random. `seen` are commits that reads may go back to."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.seen: list[str] = []

    def choose(self, op: str, graph: Graph) -> dict[str, Any]:
        """The arguments of the next operation."""
        [kind] = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        arguments: dict[str, Any] = getattr(self, f"_{kind}")(op, graph)
        writes = arguments["do"] in ("load", "mutate", "delete")
        if writes:
            arguments.setdefault("branch", self._target())
        if arguments["do"] in ("load", "mutate") and "message" in arguments and self.chance.random() < 0.1:
            arguments["expect_head"] = True
        if arguments["do"] in ("load", "mutate") and self.chance.random() < 0.15:
            arguments["idempotency_key"] = op
        return arguments

    def _target(self) -> str:
        return self.chance.choices((*STANDING, *SIDES), (12, 5, 1, 1, 1, 1))[0]

    def _name(self) -> str:
        return self.chance.choice(NAMES)

    def _person(self, op: str) -> dict[str, Any]:
        return {"name": self._name(), "age": self.chance.randrange(AGES), "op": op}

    def _load_event(self, op: str, _: Graph) -> dict[str, Any]:
        """Without a message, so that it may share a commit with others."""
        rows = [{"op": op, "number": number} for number in range(self.chance.choice((1, 1, 2)))]
        return {"do": "load", "mode": "append", "rows": {"Event": rows}}

    def _insert_event(self, op: str, _: Graph) -> dict[str, Any]:
        return {"do": "mutate", "steps": [["insert", "Event", {"op": op, "number": 0}]]}

    def _twins(self, op: str, *keys: str) -> dict[str, Any]:
        rows = [{"txn": key, "value": self.chance.randrange(1000), "op": op} for key in keys]
        return {"Left": rows, "Right": rows}

    def _load_twins(self, op: str, _: Graph) -> dict[str, Any]:
        return {"do": "load", "mode": "append", "rows": self._twins(op, op), "message": op}

    def _merge_twins(self, op: str, _: Graph) -> dict[str, Any]:
        return {"do": "load", "mode": "merge", "rows": self._twins(op, self.chance.choice(HOT), op), "message": op}

    def _overwrite(self, op: str, _: Graph) -> dict[str, Any]:
        rows = self._twins(op, *HOT)
        if self.chance.random() < 0.5:
            rows = {"Event": [{"op": op, "number": 0}]}
        return {"do": "load", "mode": "overwrite", "rows": rows, "message": op}

    def _befriend(self, op: str, _: Graph) -> dict[str, Any]:
        one, other = self._person(op), self._name()
        rows: dict[str, Any] = {"Person": [one], "Knows": [{"from": one["name"], "to": other, "op": op}]}
        return {"do": "load", "mode": "merge", "rows": rows, "message": op}

    def _upsert_person(self, op: str, _: Graph) -> dict[str, Any]:
        return {"do": "mutate", "steps": [["insert", "Person", self._person(op)]], "message": op}

    def _update_person(self, op: str, _: Graph) -> dict[str, Any]:
        values = {"age": self.chance.randrange(AGES), "op": op}
        return {"do": "mutate", "steps": [["update", "Person", values, {"name": self._name()}]], "message": op}

    def _update_by_age(self, op: str, _: Graph) -> dict[str, Any]:
        step = [
            "update",
            "Person",
            {"age": self.chance.randrange(AGES), "op": op},
            {"age": self.chance.randrange(AGES)},
        ]
        return {"do": "mutate", "steps": [step], "message": op}

    def _several_statements(self, op: str, _: Graph) -> dict[str, Any]:
        one = self._person(op)
        steps = [
            ["insert", "Person", one],
            ["insert", "Knows", {"from": one["name"], "to": self._name(), "op": op}],
            ["insert", "Event", {"op": op, "number": 0}],
            ["update", "Person", {"op": op}, {"age": one["age"]}],
        ]
        return {"do": "mutate", "steps": steps, "message": op}

    def _delete_person(self, op: str, _: Graph) -> dict[str, Any]:
        return {"do": "mutate", "steps": [["delete", "Person", {}, {"name": self._name()}]], "message": op}

    def _delete_edges(self, op: str, _: Graph) -> dict[str, Any]:
        return {"do": "mutate", "steps": [["delete", "Knows", {}, {"from": self._name()}]], "message": op}

    def _delete_by_id(self, op: str, _: Graph) -> dict[str, Any]:
        ids = sorted({self._name(), self._name()})
        return {"do": "delete", "type": "Person", "ids": ids, "message": op}

    def _branch_source(self) -> str:
        if self.seen and self.chance.random() < 0.3:
            return self.chance.choice(self.seen[-6:])
        return self.chance.choice((*STANDING, *STANDING, self.chance.choice(SIDES), self.chance.choice(TAGS)))

    def _branch(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "branch", "name": self.chance.choice(SIDES), "from": self._branch_source()}

    def _unbranch(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "unbranch", "name": self.chance.choice(SIDES)}

    def _tag(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "tag", "name": self.chance.choice(TAGS), "from": self._branch_source()}

    def _untag(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "untag", "name": self.chance.choice(TAGS)}

    def _merge(self, op: str, _: Graph) -> dict[str, Any]:
        source, into = self.chance.choice(SIDES), self.chance.choice(STANDING)
        if self.chance.random() < 0.15:
            source, into = into, source
        return {
            "do": "merge", "source": source, "into": into, "message": op, "delete_branch": self.chance.random() < 0.3,
            "strategy": self.chance.choice((None, "ours", "theirs", "theirs")),
        }  # fmt: skip

    def _schema(self, op: str, graph: Graph) -> dict[str, Any]:
        """One more type, one fewer, or one more property."""
        branch = self.chance.choice(("main", "main", "dev"))
        catalog = graph.catalog(branch)
        scratch = sorted(name for name in catalog.nodes if name.startswith("Scratch"))
        extras = sorted(p.name for p in catalog.nodes["Person"].properties if p.name.startswith("extra"))
        change = self.chance.random()
        if scratch and (change < 0.3 or len(scratch) > 2):
            scratch.remove(self.chance.choice(scratch))
        elif change < 0.7 or len(extras) > 4:
            scratch.append(f"Scratch{op.replace('-', 'x')}")
        else:
            extras.append(f"extra{op.replace('-', 'x')}")
        return {"do": "schema", "branch": branch, "scratch": scratch, "extras": extras, "message": op}

    def _load_scratch(self, op: str, graph: Graph) -> dict[str, Any]:
        branch = self._target()
        names = [name for name in graph.catalog(branch).nodes if name.startswith("Scratch")]
        if not names:
            return {**self._load_event(op, graph), "branch": branch}
        rows = {self.chance.choice(sorted(names)): [{"name": op, "op": op}]}
        return {"do": "load", "mode": "append", "rows": rows, "message": op, "branch": branch}

    def _optimize(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "optimize", "branch": self._target()}

    def _indices(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "indices", "branch": self._target()}

    def _cleanup(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "cleanup", "keep": self.chance.choice((1, 2, 6))}

    def _read(self, _: str, __: Graph) -> dict[str, Any]:
        return {"do": "read", "at": self._target()}

    def _read_past(self, _: str, __: Graph) -> dict[str, Any]:
        if self.seen and self.chance.random() < 0.5:
            return {"do": "read", "at": self.chance.choice(self.seen[-20:])}
        if self.chance.random() < 0.5:
            return {"do": "read", "at": self.chance.choice(TAGS)}
        return {"do": "read", "back": self.chance.randrange(1, 6), "branch": self.chance.choice(STANDING)}


def run(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one operation; what the log keeps of its result."""
    return _RUNNERS[arguments["do"]](graph, arguments)


def commit_line(commit: GraphCommit | None) -> dict[str, Any]:
    """What the log keeps of a commit."""
    if commit is None:
        return {"commit": None}
    return {"commit": commit.graph_commit_id, "line": commit.to_json()}


def _options(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    options = {name: arguments[name] for name in ("message", "branch", "idempotency_key") if name in arguments}
    if arguments.get("expect_head"):
        options["expect_head"] = graph.commits.head(arguments["branch"]).graph_commit_id
    return options


def _run_load(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    options = _options(graph, arguments)
    result = graph.load(arguments["rows"], arguments["mode"], **options)
    return {**commit_line(result.commit), "expected": options.get("expect_head")}


def mutation_text(steps: list[Any]) -> tuple[str, dict[str, Any]]:
    """A mutation as text, and its parameters."""
    params: dict[str, Any] = {}

    def named(value: Any) -> str:
        params[f"p{len(params)}"] = value
        return f"$p{len(params) - 1}"

    lines = []
    for verb, name, values, *rest in steps:
        inside = ", ".join(f"{key}: {named(value)}" for key, value in values.items())
        where = " and ".join(f"{key} = {named(value)}" for each in rest for key, value in each.items())
        body = {"insert": f"{{ {inside} }}", "update": f"set {{ {inside} }} where {where}", "delete": f"where {where}"}
        lines.append(f"{verb} {name} {body[verb]}")
    types = ", ".join(f"${name}: {'I32' if isinstance(value, int) else 'String'}" for name, value in params.items())
    return f"query q({types}) {{ {' '.join(lines)} }}", params


def _run_mutate(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    text, params = mutation_text(arguments["steps"])
    options = _options(graph, arguments)
    result = graph.mutate(text, params=params, **options)
    return {**commit_line(result.commit), "expected": options.get("expect_head")}


def _run_delete(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    result = graph.delete(arguments["type"], arguments["ids"], arguments["branch"], message=arguments["message"])
    return commit_line(result.commit)


def _run_branch(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    branch = graph.branches.create(arguments["name"], arguments["from"])
    return {"native": branch.native_branch, "base": branch.base_commit}


def _run_unbranch(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    graph.branches.delete(arguments["name"])
    return {}


def _run_tag(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    tag = graph.tags.create(arguments["name"], arguments["from"])
    return {"tag": tag.tag_id, "base": tag.graph_commit_id}


def _run_untag(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    graph.tags.delete(arguments["name"])
    return {}


def _run_merge(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    result = graph.branches.merge(
        arguments["source"], arguments["into"], arguments["strategy"], delete_branch=arguments["delete_branch"],
        message=arguments["message"],
    )  # fmt: skip
    deleted = {"deleted": result.branch_deleted, "delete_error": result.branch_delete_error}
    return {**commit_line(result.commit), **deleted, "base": result.base_commit_id}


def _run_schema(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    text = schema_text(arguments["scratch"], arguments["extras"])
    change = graph.schema.apply(text, branch=arguments["branch"], message=arguments["message"])
    return commit_line(change.commit)


def _run_optimize(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    graph.maintenance.optimize(arguments["branch"])
    return {}


def _run_indices(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    graph.maintenance.ensure_indices(arguments["branch"])
    return {}


def _run_cleanup(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    report = graph.maintenance.cleanup(arguments["keep"], 0, confirm=True)
    errors = [table.error for table in report.tables if table.error]
    return {"removed": report.objects_removed, "versions": report.manifest_versions_removed, "errors": errors}


def _run_read(graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
    if "at" in arguments:
        state = graph.repository.resolve(arguments["at"])
    else:
        version = graph.snapshot(arguments["branch"]).version - arguments["back"]
        if version < 1:
            raise NotFound("the branch is not that old")
        state = graph.repository.at_version(version, arguments["branch"])
    digests = {}
    for key in state.tables:
        rows, twice = canonical(key, rows_of_state(graph.local, state, key).to_pylist())
        digests[key] = digest(rows) if not twice else f"twice: {twice[:3]}"
    return {
        "head": state.head, "version": state.version, "native": state.native_branch, "branch": state.branch,
        "digests": digests,
    }  # fmt: skip


_RUNNERS: dict[str, Callable[[Graph, dict[str, Any]], dict[str, Any]]] = {
    "load": _run_load, "mutate": _run_mutate, "delete": _run_delete, "branch": _run_branch,
    "unbranch": _run_unbranch, "tag": _run_tag, "untag": _run_untag, "merge": _run_merge, "schema": _run_schema,
    "optimize": _run_optimize, "indices": _run_indices, "cleanup": _run_cleanup, "read": _run_read,
}  # fmt: skip
