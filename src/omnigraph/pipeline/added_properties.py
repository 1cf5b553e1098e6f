"""Add columns that a schema lacks as new properties: `unknown: add`, before anything is staged.

The schema change is a commit of its own, because rows are checked and staged under an existing schema; ADR 43. A
property is added with the type of its column, nullable, and never changed: values that do not fit it are bad rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import InvalidArgument, JobError, SchemaMoved
from omnigraph.execution.spark.versions import arrow_schema
from omnigraph.graph import Graph
from omnigraph.pipeline.cdc_frames import Changes
from omnigraph.pipeline.frame_rows import Rows
from omnigraph.pipeline.load_commit import LoadTerms
from omnigraph.pipeline.row_schema import row_schema
from omnigraph.pipeline.sources import plan_splits
from omnigraph.schema import steps
from omnigraph.schema.add_properties import PROPERTY_NAME, with_properties
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType
from omnigraph.write.inputs.expectations import ADD, IGNORE, REFUSE
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.rows import known_fields
from omnigraph.write.sources import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATTEMPTS = 8
_SCALARS: tuple[tuple[Any, Scalar], ...] = (
    (pa.types.is_boolean, Scalar.BOOL), (pa.types.is_int8, Scalar.I32), (pa.types.is_int16, Scalar.I32),
    (pa.types.is_int32, Scalar.I32), (pa.types.is_int64, Scalar.I64), (pa.types.is_uint8, Scalar.U32),
    (pa.types.is_uint16, Scalar.U32), (pa.types.is_uint32, Scalar.U32), (pa.types.is_uint64, Scalar.U64),
    (pa.types.is_float16, Scalar.F32), (pa.types.is_float32, Scalar.F32), (pa.types.is_float64, Scalar.F64),
    (pa.types.is_string, Scalar.STRING), (pa.types.is_large_string, Scalar.STRING), (pa.types.is_date, Scalar.DATE),
    (pa.types.is_timestamp, Scalar.DATETIME), (pa.types.is_binary, Scalar.BLOB),
    (pa.types.is_large_binary, Scalar.BLOB),
)  # fmt: skip
Added = dict[tuple[str, str], dict[str, PropertyType]]
"""New properties by the kind and name of their type."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a source without a property: its type, or None where every value is null."""

    place: str
    name: str
    type: pa.DataType | None


def add_properties(
    spark: SparkSession, graph: Graph, terms: LoadTerms, sources: Sequence[Any], access: S3Access | None
) -> tuple[list[Any], dict[str, str]]:
    """Apply the schema that sources with `unknown: add` need; return the sources to load, and the added properties.

    A dry run changes nothing and leaves the columns out.
    """
    asked = [source for source in sources if _unknown_of(source) == ADD]
    if not asked:
        return list(sources), {}
    columns = {id(source): list(_columns(spark, source, access)) for source in asked}
    added: Added = {}
    for attempt in range(_ATTEMPTS):
        catalog = graph.catalog(terms.branch)
        added = _missing(catalog, [(source, columns[id(source)]) for source in asked])
        if not added or terms.dry_run:
            break
        names = ", ".join(_names(added))
        if terms.expect_head is not None:
            hint = "apply the schema first, or leave expect_head out"
            raise InvalidArgument(f"adding {names} is a commit, and the load expects another head", hint=hint)
        text = with_properties(graph.schema.show(terms.branch), added)
        plan = graph.schema.plan(text, branch=terms.branch)
        _require_additions(plan.steps)
        try:
            graph.schema.apply(
                text, branch=terms.branch, actor=terms.actor, plan=plan.digest, message=f"Add {names} for a load"
            )
            break
        except SchemaMoved:
            if attempt == _ATTEMPTS - 1:
                raise
    catalog = graph.catalog(terms.branch)
    return [_loaded(source, columns.get(id(source)), catalog) for source in sources], _names(added)


def _unknown_of(source: Any) -> str | None:
    given = source if isinstance(source, Files) else source[1]
    found = given.unknown if isinstance(given, (Files, Rows, Changes)) else None  # a frame may have such a column
    if found == ADD and (isinstance(given, Changes) or (isinstance(given, Files) and given.cdc is not None)):
        raise InvalidArgument("unknown: add is not for change events", hint="add the property to the schema first")
    return found


def _columns(spark: SparkSession, source: Any, access: S3Access | None) -> Iterator[_Column]:
    """Return the columns of a source under the names that they have as properties."""
    given: Files | Rows = source if isinstance(source, Files) else source[1]
    if isinstance(given, Files):
        place, schema = given.place, row_schema(spark, plan_splits([given], 0, access))
    else:
        is_spark = hasattr(given.rows, "mapInArrow")
        schema = arrow_schema(given.rows.schema) if is_spark else table_of("the frame", given.rows).schema
        place = given.name or source[0]
    casts = _cast_types(spark, given.cast)
    for name, column in (dict(given.columns) or {column: column for column in schema.names}).items():
        if column in schema.names:
            kind = casts.get(name, schema.field(column).type)
            yield _Column(place, name, None if pa.types.is_null(kind) else kind)


def _cast_types(spark: SparkSession, casts: Mapping[str, str]) -> dict[str, pa.DataType]:
    from pyspark.errors import PySparkException

    if not casts:
        return {}
    chosen = ", ".join(f"CAST(NULL AS {kind}) AS c{number}" for number, kind in enumerate(casts.values()))
    try:
        schema = arrow_schema(spark.sql(f"SELECT {chosen}").schema)
    except PySparkException:
        return {}  # computing the casts later raises the error of this source
    return dict(zip(casts, schema.types, strict=True))


def _missing(catalog: Catalog, sources: Sequence[tuple[Any, list[_Column]]]) -> Added:
    found: Added = {}
    places: dict[tuple[str, str], str] = {}
    for source, columns in sources:
        entity = _entity(source, catalog)
        kind = "edge" if isinstance(entity, EdgeType) else "node"
        for column in columns:
            if column.name in known_fields(entity) or column.type is None:
                continue
            wanted = _property_type(column, entity)
            mine = found.setdefault((kind, entity.name), {})
            if mine.setdefault(column.name, wanted) != wanted:
                other = places[entity.name, column.name]
                raise JobError(
                    f"{column.place}: {column.name!r} is {wanted}, and {mine[column.name]} in {other}",
                    hint="cast it to one type in both",
                )
            places.setdefault((entity.name, column.name), column.place)
    return {name: properties for name, properties in found.items() if properties}


def _property_type(column: _Column, entity: EntityType) -> PropertyType:
    if not PROPERTY_NAME.fullmatch(column.name):
        hint = "give it another name by `columns`: a property begins with a small letter and has letters, digits and _"
        raise JobError(f"{column.place}: {column.name!r} cannot be a property of {entity.name}", hint=hint)
    kind, is_list = column.type, False
    assert kind is not None, f"{column.name} has values"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind, is_list = kind.value_type, True
    if pa.types.is_decimal(kind) and kind.scale == 0 and kind.precision <= 18:
        return PropertyType(Scalar.I64, nullable=True, is_list=is_list)
    scalar = next((scalar for is_kind, scalar in _SCALARS if is_kind(kind)), None)
    if scalar is None or (is_list and scalar is Scalar.BLOB):
        hint = "cast it, or compute text of it by to_json in a step"
        raise JobError(f"{column.place}: no property holds the values of {column.name!r}, {column.type}", hint=hint)
    return PropertyType(scalar, nullable=True, is_list=is_list)


def _entity(source: Any, catalog: Catalog) -> EntityType:
    return catalog.entity(str(source.type_name if isinstance(source, Files) else source[0]))


def _require_additions(planned: Sequence[steps.Step]) -> None:
    """Refuse any other schema change in the same apply. A property that was dropped softly is restored."""
    others = [str(step) for step in planned if step.kind not in (steps.ADD_PROPERTY, steps.RESTORE_PROPERTY)]
    if others:
        raise JobError(f"new properties would change more of the schema: {others[0]}", hint="add them to the schema")


def _names(added: Added) -> dict[str, str]:
    return {f"{type_name}.{name}": str(kind) for (_, type_name), mine in added.items() for name, kind in mine.items()}


def _loaded(source: Any, columns: list[_Column] | None, catalog: Catalog) -> Any:
    """Return a source with its columns resolved. Columns without any value, and those of a dry run, are left out."""
    if columns is None:
        return source
    known = known_fields(_entity(source, catalog))
    unknown = IGNORE if any(column.name not in known for column in columns) else REFUSE
    if isinstance(source, Files):
        mapping = {name: column for name, column in source.columns.items() if name in known}
        return replace(source, unknown=unknown, columns=mapping)
    return source[0], replace(source[1], unknown=unknown)
