"""A load of a CSV file in which one row of a hundred is wrong in one of ten ways, beside the same file without them.

The report of the load is compared with what was put into the file: every wrong row by its line, and no other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Row, Table, sized
from omnigraph import Graph

ROWS = sized(2_000_000, quick=20_000)
ROUNDS = sized(3, quick=1)
SCHEMA = """
node Person { name: String @key  title: String  age: I32?  born: Date?  score: F64?  mood: enum(calm, glad)?
  @range(age, 0..150) }
"""
HEADER = b"name,title,age,born,score,mood\n"


def good_row(number: int) -> bytes:
    """A row; some have quotes, and now and then a value over two lines."""
    title = '"Doe, ""J"""' if number % 10 == 0 else '"two\nlines"' if number % 1000 == 7 else "Doe"
    mood = "glad" if number % 2 else ""
    return (
        f"p{number},{title},{number % 100},19{number % 90 + 10}-01-{number % 28 + 1:02},{number / 8},{mood}\n".encode()
    )


def bad_row(number: int) -> bytes:
    """A row that is wrong in one of ten ways, by its number."""
    rest = b"1990-01-01,0.5,calm\n"
    return (
        b"bad%d," % number
        + (
            b"Doe,1\n",
            b"Doe,1,2,3," + rest,
            b'"Doe,1,' + rest,
            b'"Doe"x,1,' + rest,
            b"D\xff,1," + rest,
            b"Doe,old," + rest,
            b"Doe,99999999999," + rest,
            b"Doe,1,1990-02-30,0.5,calm\n",
            b"Doe,1,1990-01-01,0.5,sad\n",
            b"Doe,151," + rest,
        )[number % 10]
    )


def write_files(folder: Path, rows: int) -> tuple[Path, Path, list[int]]:
    """A clean file, a messy one, and the lines of the latter's wrong rows."""
    clean, messy = folder / "clean.csv", folder / "messy.csv"
    wrong: list[int] = []
    line = 2
    with clean.open("wb") as first, messy.open("wb") as second:
        first.write(HEADER)
        second.write(HEADER)
        for number in range(rows):
            row = good_row(number)
            first.write(row)
            if number % 100 == 50:
                wrong.append(line)
                row = bad_row(number // 100)
            second.write(row)
            line += row.count(b"\n")
    return clean, messy, wrong


def timed_load(folder: Path, path: Path, max_errors: int) -> tuple[float, Any]:
    """Seconds of a load into a new graph, and its result."""
    graph = Graph.init(folder, SCHEMA)
    begun = time.perf_counter()
    result = graph.load({"Person": path}, max_errors=max_errors)
    return time.perf_counter() - begun, result


def check_report(result: Any, rows: int, wrong: Sequence[int]) -> None:
    """Raise where the report is not exact."""
    found = [each.row for each in result.rejected]
    if found != list(wrong) or result.total_entities != rows - len(wrong):
        raise AssertionError(f"{len(found)} rejects for {len(wrong)} wrong rows, {result.total_entities} rows loaded")


def measure(folder: Path) -> Table:
    """Loads in turns, so that what the machine does beside them meets both files."""
    clean, messy, wrong = write_files(folder, ROWS)
    seconds: dict[str, list[float]] = {"clean": [], "messy": []}
    for turn in range(ROUNDS):
        seconds["clean"].append(timed_load(folder / f"clean-{turn}", clean, 0)[0])
        took, result = timed_load(folder / f"messy-{turn}", messy, len(wrong))
        check_report(result, ROWS, wrong)
        seconds["messy"].append(took)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return Table(
        f"A CSV file of {ROWS:,} rows, 1% of them wrong in ten ways, median of {ROUNDS}",
        ("file", "seconds", "rows loaded", "rejects"),
        (
            ("clean", f"{medians['clean']:.2f}", f"{ROWS:,}", "0"),
            ("messy", f"{medians['messy']:.2f}", f"{ROWS - len(wrong):,}", f"{len(wrong):,}, each with its line"),
        ),
        (Row("messy / clean, seconds", medians["messy"] / medians["clean"], 1.3),),
    )
