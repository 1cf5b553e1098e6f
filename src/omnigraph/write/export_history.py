"""Export of history: every commit of a branch with its changes, oldest first, one JSON line each.

Row exports have no history; this file keeps it when a graph is rebuilt elsewhere, or audited without the store. A
commit whose versions cleanup has reclaimed has no changes in it and says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from omnigraph.api.commits import GraphCommit
from omnigraph.api.results import HistoryExport
from omnigraph.errors import ChangeFeedGap
from omnigraph.json_values import json_value
from omnigraph.versioning.changes import changes_of
from omnigraph.versioning.repository import Repository
from omnigraph.write.inputs.suffixes import require_suffix
from omnigraph.write.inputs.tables import JSONL
from omnigraph.write.user_files import replacing


def export_history(repository: Repository, target: str | os.PathLike[str], branch: str) -> HistoryExport:
    """Write the history of a branch to a file, which gets its name when it is complete."""
    path = os.fspath(target)
    require_suffix(path, JSONL)
    commits = changes = reclaimed = 0
    with replacing(path) as part, open(part, "w", encoding="utf-8", newline="\n") as out:
        for line in _lines(repository, branch):
            commits += 1
            changes += len(line["changes"] or ())
            reclaimed += line["changes"] is None
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    return HistoryExport(path, commits, changes, reclaimed)


def _lines(repository: Repository, branch: str) -> Iterator[dict[str, Any]]:
    for commit in reversed(list(repository.commits(branch))):
        yield {"commit": commit.to_json(), "changes": _changes(repository, commit)}


def _changes(repository: Repository, commit: GraphCommit) -> list[dict[str, Any]] | None:
    try:
        return [json_value(change.as_dict()) for change in changes_of(repository, commit)]
    except ChangeFeedGap:
        return None
