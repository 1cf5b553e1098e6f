"""Write a whole branch as JSON lines, with the cursor of the feed at its head."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.json_values import json_value

if TYPE_CHECKING:
    from omnigraph.api.changes import Kind, Op
    from omnigraph.graph import Graph


def write_baseline(
    graph: Graph, branch: str, out: str, *, kinds: Sequence[Kind] = (), types: Sequence[str] = (),
    ops: Sequence[Op] = (),
) -> tuple[str, str, int]:  # fmt: skip
    """Write every row of a branch's head; returns its commit, the cursor after it, and the number of rows.

    The cursor goes on under the filter given, and only rows of its kinds and types are written.
    The file appears whole or not at all.
    """
    from omnigraph.write.inputs.suffixes import require_suffix
    from omnigraph.write.user_files import replacing

    require_suffix(out, "jsonl")
    graph.branches.get(branch)
    snapshot = graph.snapshot(branch)
    start = f"after:{snapshot.commit_id}"
    cursor = graph.changes(start=start, branch=branch, kinds=kinds, types=types, ops=ops).cursor
    wanted = [key for key in snapshot.tables if _is_wanted(key, kinds, types)]
    written = 0
    with replacing(out) as part, open(part, "w", encoding="utf-8", newline="\n") as file:
        for row in _rows(graph, snapshot.commit_id, sorted(wanted, key=lambda key: (key[0] != "n", key))):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            written += 1
    return snapshot.commit_id, str(cursor), written


def _is_wanted(table_key: str, kinds: Sequence[str], types: Sequence[str]) -> bool:
    kind, _, name = table_key.partition(":")
    return (not kinds or kind in kinds) and (not types or name in types)


def _rows(graph: Graph, commit_id: str, keys: list[str]) -> Iterator[dict[str, Any]]:
    from omnigraph.datatypes import in_own_widths

    for key in keys:
        kind, _, name = key.partition(":")
        for row in in_own_widths(graph.rows(key, commit_id)).to_pylist():
            data = {k: _value(v) for k, v in row.items() if v is not None and k not in ("src", "dst")}
            if kind == "node":
                yield {"type": name, "data": data}
            else:
                yield {"edge": name, "from": row["src"], "to": row["dst"], "data": data}


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    # Whole numbers stay numbers here: the loader reads them exactly.
    return value if isinstance(value, int) else json_value(value)
