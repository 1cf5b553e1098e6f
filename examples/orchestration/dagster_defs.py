"""Dagster: the branch and main as two assets, with the numbers of the run as metadata.

`dagster dev -f dagster_defs.py` shows them. Without Dagster the module can still be imported; `defs` is then None.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import people_job

try:
    import dagster
except ImportError:  # Dagster is not installed here
    dagster = None


def folder() -> Path:
    """Where the graph and its files lie."""
    return Path(os.environ.get("PEOPLE_FOLDER", "/data/people"))


def incoming_metadata() -> dict[str, Any]:
    """Load new files into the branch; what Dagster shows of it."""
    people_job.prepare(folder())
    run = people_job.load(folder())
    written = sum(each["written"] for each in run["types"])
    rejected = sum(each["rejected"] for each in run["types"])
    return {"written": written, "rejected": rejected, "seconds": run["seconds"], "run_id": run["run_id"]}


def people_metadata() -> dict[str, Any]:
    """Check the branch and merge it."""
    return {"people": people_job.check(folder()), "merge": people_job.publish(folder())}


def make_definitions() -> Any:
    """The assets."""

    @dagster.asset(group_name="people")
    def incoming() -> Any:
        return dagster.MaterializeResult(metadata=incoming_metadata())

    @dagster.asset(group_name="people", deps=[incoming])
    def people() -> Any:
        return dagster.MaterializeResult(metadata=people_metadata())

    return dagster.Definitions(assets=[incoming, people])


defs = None if dagster is None else make_definitions()
