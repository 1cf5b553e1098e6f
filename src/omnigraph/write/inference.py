"""Proposing a schema from files: types, nullability, likely keys and edges, with a comment on each reason."""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.errors import DataError, InvalidArgument
from omnigraph.schema.names import EDGE_WORDS, RESERVED
from omnigraph.write.inference_columns import ColumnProfile, profile
from omnigraph.write.inputs.file_options import NO_OPTIONS, FileOptions
from omnigraph.write.inputs.locations import expand_paths, readable
from omnigraph.write.inputs.objects import object_rows
from omnigraph.write.inputs.suffixes import kind_of
from omnigraph.write.inputs.tables import (
    CSV,
    JSON,
    JSONL,
    FilePart,
    open_stream,
    resolve_part,
    select_columns,
    tables_of,
)
from omnigraph.write.jsonl import parsed_lines
from omnigraph.write.validation import Findings

SAMPLE_ROWS = 200_000
_ENDS = (
    ("from", "to"), ("src", "dst"), ("source", "target"), ("from_id", "to_id"), ("source_id", "target_id"),
    ("src_id", "dst_id"), ("start", "end"), ("start_id", "end_id"),
)  # fmt: skip
_HEAD = "// Proposed from the values of files. Read every line before using it: no value shows what is meant.\n"
_KEYS = ("id", "key", "slug", "code", "uuid", "guid", "email", "name")


@dataclass(frozen=True, slots=True)
class _Sample:
    """The columns of the first rows of one type. `notes` are comments for its head."""

    name: str
    columns: tuple[ColumnProfile, ...]
    notes: tuple[str, ...]
    ends: tuple[str, str] | None

    @property
    def key(self) -> ColumnProfile | None:
        """The column that most likely names an entity."""
        fit = [each for each in self.columns if each.is_unique and each.kind in ("String", "I32", "I64", "U32", "U64")]
        own = f"{self.name.lower().rstrip('s')}_id"
        ranked = (own, *_KEYS)
        by_name = [each for each in fit if each.column.lower() in ranked]
        return min(by_name, key=lambda each: ranked.index(each.column.lower()), default=fit[0] if fit else None)


def infer_schema(files: Sequence[str | os.PathLike[str]], options: FileOptions = NO_OPTIONS) -> str:
    """The text of a schema into which the files could be loaded."""
    paths = expand_paths(list(files))
    if not paths:
        raise InvalidArgument("there are no files", hint="name CSV, Parquet or JSON files")
    samples = [sample for path in paths for sample in _samples(path, options)]
    names = [sample.name for sample in samples]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"two files are of the type {name}", hint="name files after their types")
    nodes = [sample for sample in samples if sample.ends is None]
    edges = [_edge(sample, ends, nodes) for sample in samples if (ends := sample.ends) is not None]
    return "\n".join((_HEAD, *(_node(each, nodes) for each in nodes), *edges))


# --- reading ------------------------------------------------------------------------------------------------------


def _samples(path: str, options: FileOptions) -> Iterator[_Sample]:
    options.require_format(path, kind_of(path))
    part = FilePart(path=path, format=kind_of(path), columns=dict(options.columns), dialect=options.dialect)
    found = Findings(SAMPLE_ROWS)
    with readable(path):
        part, sniffed = resolve_part(part)
        said = tuple(f"{name} {value!r} was sniffed" for name, value in sniffed.items())
        name = _type_name(os.path.basename(path).partition(".")[0])
        if part.format not in (JSON, JSONL):
            table, is_cut = _table(part, found)
            yield _sample(name, path, table, (*said, *_remarks(found, is_cut)), is_text=part.format == CSV)
            return
        rows = list(itertools.islice(_objects(part, found), SAMPLE_ROWS + 1))
        notes = (*said, *_remarks(found, len(rows) > SAMPLE_ROWS))
        for key, mine in _grouped(name, rows[:SAMPLE_ROWS]).items():
            yield _sample(key, path, _columns_of(mine), notes, is_text=False)


def _remarks(found: Findings, is_cut: bool) -> Iterator[str]:
    if is_cut:
        yield f"only the first {SAMPLE_ROWS} rows were read: what is said of all rows is said of these"
    if len(found):
        yield f"{len(found)} rows cannot be read and were left out"


def _table(part: FilePart, found: Findings) -> tuple[pa.Table, bool]:
    pieces: list[pa.Table] = []
    count = 0
    for table, _ in tables_of(part, found):
        pieces.append(select_columns(table, part.columns, part.path))
        count += table.num_rows
        if count > SAMPLE_ROWS:
            break
    if not pieces:
        raise DataError(f"{part.path}: the file is empty", path=part.path, hint="a schema needs rows, or a header")
    return pa.concat_tables(pieces).slice(0, SAMPLE_ROWS), count > SAMPLE_ROWS


def _objects(part: FilePart, found: Findings) -> Iterator[dict[str, Any]]:
    if part.format == JSON:
        yield from (row for parsed in object_rows(part, found) for _, row in parsed)
        return
    with open_stream(part) as stream:
        lines = io.BufferedReader(stream, 1 << 20)
        yield from (row for _, row in parsed_lines(enumerate(lines, 1), part.path, found))


def _grouped(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows by type: envelopes name theirs, other objects have the type that the file is named after."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if isinstance(row.get("edge"), str) and "from" in row and "to" in row:
            data = row.get("data") or {}
            groups.setdefault(row["edge"], []).append({"from": row["from"], "to": row["to"], **data})
        elif isinstance(row.get("type"), str) and isinstance(row.get("data"), dict):
            groups.setdefault(row["type"], []).append(row["data"])
        else:
            groups.setdefault(name, []).append(row)
    return groups


def _columns_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):  # values of several kinds, which a struct stands for here
        return pa.array([None if value is None else {"several kinds": True} for value in values])


def _sample(name: str, path: str, table: pa.Table, notes: Iterable[str], *, is_text: bool) -> _Sample:
    twice = sorted({each for each in table.column_names if table.column_names.count(each) > 1})
    if twice:
        raise DataError(f"{path}: column {twice[0]!r} appears twice", path=path, hint="rename one of them")
    columns = tuple(profile(each, table[each], is_text=is_text) for each in table.column_names)
    by_name = {each.column.lower(): each.column for each in columns}
    ends = next(((by_name[a], by_name[b]) for a, b in _ENDS if a in by_name and b in by_name), None)
    return _Sample(name, columns, (f"{os.path.basename(path)}, {table.num_rows} rows", *notes), ends)


# --- writing ------------------------------------------------------------------------------------------------------


def _node(sample: _Sample, nodes: Sequence[_Sample]) -> str:
    key = sample.key
    comments = [f"// {note}" for note in sample.notes]
    if key is None:
        comments.append("// No @key: no column has a different value in every row. Rows loaded twice become two nodes.")
    body = [line for each in sample.columns for line in _property(sample, each, nodes, is_key=each is key)]
    return "\n".join((*comments, f"node {sample.name} {{", *body, "}\n"))


def _edge(sample: _Sample, ends: tuple[str, str], nodes: Sequence[_Sample]) -> str:
    found = [_end_type(next(c for c in sample.columns if c.column == end), nodes) for end in ends]
    comments = [f"// {note}" for note in sample.notes]
    comments.append(f"// An edge: the columns {ends[0]!r} and {ends[1]!r} look like its ends.")
    if ends != ("from", "to"):
        comments.append(f"// Load with columns from={ends[0]}, to={ends[1]}, or rename them.")
    names = []
    for end, (name, why) in zip(ends, found, strict=True):
        comments.append(f"// {end!r}: {why}")
        names.append(name or "TODO")
    body = [
        line for each in sample.columns if each.column not in ends
        for line in _property(sample, each, nodes, is_key=False)
    ]  # fmt: skip
    lines = [f"edge {sample.name}: {names[0]} -> {names[1]}" + (" {" if body else ""), *body, *(["}"] if body else [])]
    if None in (found[0][0], found[1][0]):
        comments.append("// Commented out: put the types of its ends in the place of TODO.")
        lines = [f"// {line}" for line in lines]
    return "\n".join((*comments, *lines, ""))


def _end_type(column: ColumnProfile, nodes: Sequence[_Sample]) -> tuple[str | None, str]:
    fits = [node.name for node in nodes if node.key is not None and column.values and column.values <= node.key.values]
    if len(fits) == 1:
        return fits[0], f"all {len(column.values)} different values are keys of {fits[0]}"
    if fits:
        return fits[0], f"all values are keys of {' and of '.join(fits)}: the first one is a guess"
    near = [
        (len(column.values & node.key.values), node.name) for node in nodes
        if node.key is not None and column.values & node.key.values
    ]  # fmt: skip
    if near:
        count, name = max(near)
        return (
            name,
            f"{count} of {len(column.values)} different values are keys of {name}; it has no others",
        )
    return None, "its values are keys of no node type of these files"


def _property(sample: _Sample, column: ColumnProfile, nodes: Sequence[_Sample], *, is_key: bool) -> Iterator[str]:
    why = list(column.reasons)
    if column.kind is None:
        yield f"    // {_comment(column.column)} is left out: {_comment(why[0])}"
        return
    name = _property_name(sample, column.column)
    if name != column.column:
        why.append(f"load with column {name}={column.column}")
    if is_key:
        why.append("no value appears twice")
    elif sample.ends is None:
        why += [
            f"every value is a key of {node.name}: an edge to it may fit better" for node in nodes
            if node is not sample and node.key is not None and column.values and column.values <= node.key.values
            and re.search(rf"{node.name.rstrip('s')}|_id$|_key$", column.column, re.IGNORECASE)
        ]  # fmt: skip
    mark = "?" if (column.missing or not column.rows) and not is_key else ""
    yield f"    {name}: {column.kind}{mark}{' @key' if is_key else ''}  // {_comment('; '.join(why))}"


def _comment(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text)


def _property_name(sample: _Sample, column: str) -> str:
    name = re.sub(r"\W+", "_", column.strip(), flags=re.ASCII).strip("_")
    name = name.lower() if name.isupper() or name != column else name[:1].lower() + name[1:]
    if not name or name[0].isdigit():
        name = f"c_{name}" if name else "column"
    if name == "id":
        name = f"{sample.name[:1].lower()}{sample.name[1:].removesuffix('s')}_id"
    if name in RESERVED or (sample.ends is not None and name in EDGE_WORDS):
        name = f"{name}_value"
    others = [each.column for each in sample.columns if each.column != column]
    return f"{name}_2" if name in others else name


def _type_name(stem: str) -> str:
    words = [word for word in re.split(r"\W+|_", stem, flags=re.ASCII) if word]
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name and name[0].isalpha() else f"Type{name}"
