"""doltlite merging in a process of its own. For each line of input: one divergence and one timed merge."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import doltlite  # noqa: F401 - replaces the SQLite library before it is first used

import sqlite3  # isort: skip

from benchmarks.merging import Case


def main(directory: str, case: Case) -> None:
    """The table of a case; every line changes their rows on a branch and ours on main, and merges."""
    connection = sqlite3.connect(Path(directory) / f"{case.name}.db")
    connection.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age INT, about TEXT)")
    people = ((f"p{i:07}", case.about(i)) for i in range(case.rows))
    connection.executemany("INSERT INTO person VALUES (?, 1, ?)", people)
    commit(connection, "init")
    print("ready", flush=True)
    for number, _ in enumerate(sys.stdin):
        branch = f"dev{number}"
        run(connection, "SELECT dolt_branch(?)", branch)
        run(connection, "SELECT dolt_checkout(?)", branch)
        edit(connection, case.theirs(), number + 2)
        run(connection, "SELECT dolt_checkout('main')")
        edit(connection, case.ours(), number + 2)
        begun = time.perf_counter()
        run(connection, "SELECT dolt_merge(?)", branch)
        print((time.perf_counter() - begun) * 1000, flush=True)


def edit(connection: sqlite3.Connection, places: list[int], age: int) -> None:
    names = ((age, f"p{i:07}") for i in places)
    connection.executemany("UPDATE person SET age = ? WHERE name = ?", names)
    commit(connection, "edit")


def commit(connection: sqlite3.Connection, message: str) -> None:
    connection.commit()
    run(connection, "SELECT dolt_commit('-A', '-m', ?)", message)


def run(connection: sqlite3.Connection, statement: str, *arguments: str) -> None:
    connection.execute(statement, arguments).fetchall()
    connection.commit()


if __name__ == "__main__":
    main(sys.argv[1], Case(int(sys.argv[2]), sys.argv[3], sys.argv[4]))
