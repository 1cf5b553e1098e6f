"""doltlite in a process of its own (it replaces the SQLite of its interpreter). One timed commit per line of input.

Each commit is made either on a connection that stays open ("kept") or on one opened for it ("opened").
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import doltlite  # noqa: F401 - replaces the SQLite library before it is first used

import sqlite3  # isort: skip


def main(directory: str, mode: str) -> None:
    """Two tables, one row in each per commit; answers every line with the milliseconds it took."""
    path = Path(directory) / f"{mode}.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age INT)")
    connection.execute("CREATE TABLE knows (id TEXT PRIMARY KEY, src TEXT, dst TEXT)")
    connection.execute("SELECT dolt_commit('-A', '-m', 'init')").fetchall()
    connection.commit()
    for number, _ in enumerate(sys.stdin):
        begun = time.perf_counter()
        if mode == "opened":
            connection = sqlite3.connect(path)
        connection.execute("INSERT INTO person VALUES (?, ?)", (f"p{number}", number))
        connection.execute("INSERT INTO knows VALUES (?, ?, ?)", (f"e{number}", f"p{number}", "p0"))
        connection.commit()
        connection.execute("SELECT dolt_commit('-A', '-m', 'one')").fetchall()
        connection.commit()
        print((time.perf_counter() - begun) * 1000, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
