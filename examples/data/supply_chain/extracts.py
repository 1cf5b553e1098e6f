"""The sample graph as files that `pipeline.yaml` loads: one per type, in the formats that other systems would give."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

HERE = Path(__file__).parent
NAMES = {
    "Package": "packages.csv", "Release": "releases.parquet", "Maintainer": "people.csv",
    "Organization": "organizations.csv", "Advisory": "advisories.jsonl", "ReleaseOf": "release_of.parquet",
    "DependsOn": "depends_on.parquet", "Maintains": "maintains.csv", "MemberOf": "member_of.csv",
    "Affects": "affects.csv", "FixedIn": "fixed_in.csv",
}  # fmt: skip
RENAMED = {
    "Release": {"published": "released_at", "yanked": "withdrawn"},
    "Maintainer": {"handle": "login", "display_name": "name", "two_factor": "2fa"},
    "Maintains": {"from": "person", "to": "package"},
}


def write_extracts(folder: Path) -> dict[str, int]:
    """Write the files; returns how many rows each has."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for line in (HERE / "graph.jsonl").read_text().splitlines():
        row = json.loads(line)
        ends = {"from": row["from"], "to": row["to"]} if "edge" in row else {}
        found = {**ends, **row.get("data", {})}
        type_name = row.get("type") or row["edge"]
        renamed = RENAMED.get(type_name, {})
        rows[type_name].append({renamed.get(name, name): value for name, value in found.items()})
    for type_name, name in NAMES.items():
        _write(folder / name, rows[type_name])
    return {NAMES[type_name]: len(found) for type_name, found in rows.items()}


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [_value(name, row.get(name)) for row in rows] for name in columns})
    if path.suffix == ".csv":
        pacsv.write_csv(table, path)
    else:
        pq.write_table(table, path)


def _value(name: str, value: Any) -> Any:
    return dt.datetime.fromisoformat(value) if name == "released_at" else value
