"""Bringing a table to the columns of a type: missing ones are added as null, with a default, or as a wider copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omnigraph.schema.catalog import EntityType, Property
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.columns import NewColumn, add_columns, relax
from omnigraph.storage.effects import AppendRows
from omnigraph.storage.indexes import high_water
from omnigraph.storage.layout import detached_file, table_path
from omnigraph.storage.tables import Table
from omnigraph.versioning.diff import columns_of, in_shape
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import entry_at_birth, extend_digests, open_table, stage_change
from omnigraph.versioning.store import GraphStore, mint


@dataclass(frozen=True, slots=True)
class Reshaped:
    """An entry that holds all columns of a type, and the files that must be on disk before it is published."""

    entry: TableEntry
    files: tuple[str, ...] = ()


def missing_columns(have: EntityType, want: EntityType) -> list[NewColumn]:
    """The columns of `want` that a table of `have` lacks. A property is identified by its id, whatever its column."""
    present = set(columns_of(have))
    own = {p.property_id: p for p in have.properties}
    return [_new_column(p, own.get(p.property_id)) for p in want.properties if p.column not in present]


def _new_column(prop: Property, earlier: Property | None) -> NewColumn:
    if earlier is not None:
        # In a required property, rows that were written while it was dropped get its default.
        default = None if prop.type.nullable else prop.default
        return NewColumn(prop.arrow_field, copy_of=earlier.column, default=default)
    return NewColumn(prop.arrow_field, default=prop.default)


def tight_columns(have: EntityType, want: EntityType) -> list[str]:
    """Columns of `have` that take no nulls, but must from now on: nullable in `want`, or no longer part of it."""
    wanted = {p.column: p.type.nullable for p in want.properties}
    return [p.column for p in have.properties if not p.type.nullable and wanted.get(p.column, True)]


def with_columns(entity: EntityType, hidden: Iterable[Property]) -> EntityType:
    """The type with properties that were dropped from it: their columns are in its table, and take nulls."""
    nullable = (replace(p, type=replace(p.type, nullable=True)) for p in hidden)
    return replace(entity, properties=(*entity.properties, *nullable))


def fits(have: EntityType, want: EntityType) -> bool:
    """True when a table of `have` can serve as a table of `want` without any change."""
    return not missing_columns(have, want) and not tight_columns(have, want)


def clashes(table: Table, have: EntityType, want: EntityType) -> bool:
    """True when a column to be added is already in the table, hidden: dropped here, and kept elsewhere."""
    present = set(table.schema.names)
    return any(column.field.name in present for column in missing_columns(have, want))


def reshape_table(store: GraphStore, entry: TableEntry, have: EntityType, want: EntityType) -> Reshaped:
    """The table with every column of `want`. Its rows, and so its content version, stay the same."""
    if fits(have, want):
        return Reshaped(replace(entry, table_key=want.table_key))
    base = table = open_table(store, entry)
    tight = [name for name in tight_columns(have, want) if not base.schema.field(name).nullable]
    if tight:
        table = relax(store.tables, table, tight)
    columns = missing_columns(have, want)
    if columns:
        table = add_columns(store.tables, table, columns)
    if table is base:
        return Reshaped(replace(entry, table_key=want.table_key))
    files = new_files(base, table)
    changed = replace(
        entry,
        table_key=want.table_key,
        staged_version=table.version,
        row_count=table.row_count,
        high_water=high_water(table, entry.high_water),
        tail=entry.tail.restricted(table.uncovered_fragments),
        digests=extend_digests(store, entry.digests, table, files),
    )
    return Reshaped(changed, files)


def born(store: GraphStore, entity: EntityType, commit_id: str) -> TableEntry:
    """A new, empty table for a type."""
    location = table_path(entity.table_key, mint())
    table = store.tables.create(location, entity.arrow_schema)
    return entry_at_birth(store, table, entity.table_key, entity.type_id, commit_id)


def rewrite_table(store: GraphStore, entry: TableEntry, have: EntityType, want: EntityType, commit_id: str) -> Reshaped:
    """A new table with exactly the columns of `want` and the rows of the old one; no other data is left in it."""
    fresh = replace(born(store, want, commit_id), table_version=entry.table_version)
    source = open_table(store, entry)
    if not source.row_count:
        return Reshaped(replace(fresh, content_version=entry.content_version))
    rows = in_shape(source.scan(columns_of(have)), have, want)
    fragments = write_rows(store.tables, open_table(store, fresh), rows)
    change = stage_change(store, fresh, AppendRows(fragments), commit_id)
    changed = replace(
        fresh, staged_version=change.staged_version, row_count=change.row_count, high_water=change.high_water,
        tail=change.tail, content_version=entry.content_version, digests=change.digests,
    )  # fmt: skip
    return Reshaped(changed, change.files)


def new_files(base: Table, table: Table) -> tuple[str, ...]:
    """Files of a version that the version before it did not have."""
    old: Sequence[str] = base.data_files()
    known = set(old)
    fresh = [f"{table.path}/{name}" for name in table.data_files() if name not in known]
    return (*fresh, f"{table.path}/{detached_file(table.version)}")
