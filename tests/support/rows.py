"""Rows of the test schema in envelope form."""

from __future__ import annotations

from typing import Any


def person(name: str, age: int | None = None) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name} | ({} if age is None else {"age": age})}


def company(name: str) -> dict[str, Any]:
    return {"type": "Company", "data": {"name": name}}


def knows(source: str, target: str, since: str | None = None) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target} | ({"data": {"since": since}} if since else {})


def works_at(source: str, target: str) -> dict[str, Any]:
    return {"edge": "WorksAt", "from": source, "to": target}
