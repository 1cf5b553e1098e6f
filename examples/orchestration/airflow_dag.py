"""An Airflow DAG: load each night, check, publish. Put this file and `people_job.py` into the DAGs folder.

Without Airflow the module can still be imported; `DAG` is then None.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import people_job

try:
    from airflow.sdk import dag, task
except ImportError:  # Airflow is not installed here
    dag = task = None


def folder() -> Path:
    """Where the graph and its files lie."""
    return Path(os.environ.get("PEOPLE_FOLDER", "/data/people"))


def load() -> dict[str, Any]:
    """Task 1. Airflow keeps what it returns, and shows it."""
    people_job.prepare(folder())
    return people_job.load(folder())


def check() -> int:
    """Task 2."""
    return people_job.check(folder())


def publish() -> str:
    """Task 3."""
    return people_job.publish(folder())


def make_dag() -> Any:
    """The DAG. One run at a time is a matter of taste: two at once would load each file once all the same."""

    @dag(dag_id="people", schedule="@daily", catchup=False, default_args={"retries": 2})
    def people() -> None:
        task(load)() >> task(check)() >> task(publish)()

    return people()


DAG = None if dag is None else make_dag()
