"""A whole branch as JSON lines, with the place in the feed at which it stands."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.cli.formats import cell_json

if TYPE_CHECKING:
    from omnigraph.graph import Graph


def write_baseline(graph: Graph, branch: str, out: Path) -> tuple[str, str, int]:
    """Write every row of a branch's head; returns its commit, the cursor after it, and the number of rows.

    The file appears whole or not at all: it is written beside its place, flushed and moved there.
    """
    graph.branches.get(branch)
    snapshot = graph.snapshot(branch)
    cursor = graph.changes(start=f"after:{snapshot.commit_id}", branch=branch).cursor
    written = 0
    draft = out.with_name(f"{out.name}.tmp")
    with draft.open("w", encoding="utf-8") as file:
        for row in _rows(graph, snapshot.commit_id, sorted(snapshot.tables, key=lambda key: (key[0] != "n", key))):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            written += 1
        file.flush()
        os.fsync(file.fileno())
    draft.replace(out)
    return snapshot.commit_id, str(cursor), written


def _rows(graph: Graph, commit_id: str, keys: list[str]) -> Iterator[dict[str, Any]]:
    for key in keys:
        kind, _, name = key.partition(":")
        for row in graph.rows(key, commit_id).to_pylist():
            data = {k: _value(v) for k, v in row.items() if v is not None and k not in ("src", "dst")}
            if kind == "node":
                yield {"type": name, "data": data}
            else:
                yield {"edge": name, "from": row["src"], "to": row["dst"], "data": data}


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    # Whole numbers stay numbers here: the loader reads them exactly.
    return value if isinstance(value, int) else cell_json(value)
