"""Resolve an argument that is a text, the path of a file, or a directory of stored queries."""

from __future__ import annotations

import os
from pathlib import Path

from omnigraph import query as language
from omnigraph.errors import InvalidArgument
from omnigraph.schema.names import suggest
from omnigraph.write.user_files import read_text


def source_of(query: str | os.PathLike[str], name: str | None) -> tuple[str, str | None]:
    """Return the text that holds a query, and its path when it came from a file; a directory is searched."""
    if name is not None and not isinstance(name, str):  # probably parameters in the place of the name
        raise InvalidArgument(
            f"the name of a query is a text, got {name!r}", hint="parameters have a name of their own: params={...}"
        )
    text = os.fspath(query)
    if not _is_text(query) and Path(text).is_dir():
        return _stored(Path(text), name)
    return text_of(query, "query", ".gq")


def _stored(directory: Path, name: str | None) -> tuple[str, str]:
    """Return the file in or below a directory that holds a query of that name."""
    holders = _holders(directory)
    if name is None:
        raise InvalidArgument(
            f"{directory} holds stored queries: {', '.join(sorted(holders)) or 'none'}", hint="name one of them"
        )
    found = holders.get(name, [])
    if not found:
        fallback = f"it holds: {', '.join(sorted(holders)) or 'none'}"
        raise InvalidArgument(f"{directory} holds no query `{name}`", hint=suggest(name, holders, fallback))
    if len(found) > 1:
        raise InvalidArgument(
            f"`{name}` is stored twice: in {found[0][1]} and in {found[1][1]}", hint="rename or remove one of them"
        )
    return found[0]


def stored_queries(path: str) -> list[str]:
    """Return the names of the queries of a `.gq` file, or of those in and below a directory."""
    return sorted(_holders(path if "://" in path else Path(path)))


def _holders(where: str | Path) -> dict[str, list[tuple[str, str]]]:
    """Return the query names of a file or directory, each with the texts that hold it and their paths."""
    holders: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(where.rglob("*.gq")) if isinstance(where, Path) and where.is_dir() else [where]:
        source, _ = text_of(path, "query", ".gq")
        for query in language.parse_queries(source, str(path)).queries:
            holders.setdefault(query.name.text, []).append((source, str(path)))
    return holders


def text_of(source: str | os.PathLike[str], noun: str, suffix: str) -> tuple[str, str | None]:
    """Return the text and, when it came from a file, its path."""
    text = os.fspath(source)
    if _is_text(source):
        return text, None
    hint = f"pass the path of a {suffix} file, or {noun} text"
    return read_text(text, missing=InvalidArgument(f"there is no {noun} file {text!r}", hint=hint)), text


def _is_text(source: str | os.PathLike[str]) -> bool:
    text = os.fspath(source)
    return isinstance(source, str) and (not text.strip() or any(mark in text for mark in ("{", "->", "\n")))
