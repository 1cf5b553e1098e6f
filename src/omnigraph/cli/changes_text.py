"""Print changes and conflicts: one line each, and values side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.cli.formats import cell_text
from omnigraph.cli.output import clean, count_text, print_line, print_table

if TYPE_CHECKING:
    from omnigraph.api.changes import EntityChange
    from omnigraph.api.conflicts import Conflict
    from omnigraph.api.results import MutationResult

MARKS = {"insert": "+", "update": "~", "delete": "-"}


def print_changes(changes: Iterable[EntityChange]) -> dict[str, int]:
    """Print every change, updates with the values before and after; return how many of each kind there were."""
    counts = dict.fromkeys(MARKS, 0)
    for change in changes:
        counts[change.op] += 1
        print_line(f"{MARKS[change.op]} {change.entity_kind}:{change.type_name} {clean(change.entity_id)}")
        for line in _values(change):
            print_line(f"    {line}")
    return counts


def _values(change: EntityChange) -> Iterator[str]:
    shown = change.as_dict()
    before, after = shown["before"] or {}, shown["after"] or {}
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if name == "id" or (old is None and new is None):
            continue
        if change.op != "update":
            yield f"{name}: {_text(new if change.op == 'insert' else old)}"
        elif old != new:
            yield f"{name}: {_text(old)} -> {_text(new)}"


def print_stat(counts: Mapping[tuple[str, str], Mapping[str, int]]) -> None:
    """Print numbers by type."""
    rows = [(f"{kind}:{name}", c["insert"], c["update"], c["delete"]) for (kind, name), c in counts.items()]
    print_table(["type", "inserted", "updated", "deleted"], rows)


def stat_of(changes: Iterable[EntityChange]) -> dict[tuple[str, str], dict[str, int]]:
    """Count inserted, updated and deleted entities of each type."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for change in changes:
        of_type = counts.setdefault((change.entity_kind, change.type_name), dict.fromkeys(MARKS, 0))
        of_type[change.op] += 1
    return counts


def summary(counts: Mapping[str, int]) -> str:
    """`1 inserted, 2 updated, 0 deleted`."""
    return f"{counts['insert']} inserted, {counts['update']} updated, {counts['delete']} deleted"


def print_conflicts(conflicts: Iterable[Conflict]) -> None:
    """Print every conflict with the values of both sides and of the base, beside each other."""
    for number, conflict in enumerate(conflicts, start=1):
        decided = f" (decided: {conflict.resolution})" if conflict.resolution else ""
        print_line(f"{number}. {conflict.kind}: {clean(conflict.message)}{decided}")
        rows = list(_sides(conflict))
        if rows:
            print_table(["   property", "base", "ours", "theirs"], rows)


def _sides(conflict: Conflict) -> Iterator[tuple[str, str, str, str]]:
    sides = (conflict.base, conflict.ours, conflict.theirs)
    if not any(isinstance(side, Mapping) for side in sides):
        if any(side is not None for side in sides):
            base, ours, theirs = map(_text, sides)
            yield "   value", base, ours, theirs
        return
    images = [side if isinstance(side, Mapping) else {} for side in sides]
    for name in {key: None for image in images for key in image}:
        values = [image.get(name) for image in images]
        if any(value is not None for value in values):
            shown = [_text(v) if image else "(none)" for v, image in zip(values, images, strict=True)]
            mark = " " if shown[1] == shown[2] else "*"
            yield f" {mark} {name}", shown[0], shown[1], shown[2]


def _text(value: Any) -> str:
    return clean(cell_text(value))


def conflict_count(number: int) -> str:
    """`1 conflict`, `2 conflicts`."""
    return count_text(number, "conflict")


def print_mutation(result: MutationResult, actor: str | None) -> None:
    """Print the outcome of a mutation."""
    if result.replayed and result.commit is not None:
        print_line(f"done before, as commit {result.commit.graph_commit_id}")
        return
    by = "" if actor is None else f" as {clean(actor)}"
    counts = f"{count_text(result.affected_nodes, 'node')}, {count_text(result.affected_edges, 'edge')}"
    print_line(f"changed {result.branch} via {result.query_name}: {counts}{by}")
