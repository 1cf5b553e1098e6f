"""Weights of edges: a numeric property, checked to be finite and not negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument, InvalidValue
from omnigraph.execution.analytics.blocks import Floats
from omnigraph.schema.catalog import EdgeType


def weight_column(edge: EdgeType, name: str) -> str:
    """Return the column of the property that weighs an edge type."""
    if all(each.name != name for each in edge.properties):
        numeric = sorted(each.name for each in edge.properties if each.type.is_numeric)
        known = f"numeric properties: {', '.join(numeric)}" if numeric else "it has no numeric property"
        raise InvalidArgument(f"{edge.name} has no property {name!r} to weigh its edges by", hint=known)
    prop = edge.property(name)
    if not prop.type.is_numeric:
        raise InvalidArgument(
            f"{edge.name}.{name} is {prop.type} and cannot weigh edges", hint="weights are numbers: I32 to F64"
        )
    return prop.column


def checked_weights(
    column: pa.Array | pa.ChunkedArray, edge: EdgeType, name: str, ends: Callable[[int], tuple[str, str]]
) -> Floats:
    """Return a column of weights as floats: each finite and none negative. `ends` names a row in the error."""
    values = pc.cast(column, pa.float64(), safe=False)
    found: Floats = pc.fill_null(values, np.nan).to_numpy()
    wrong = np.flatnonzero(~((found >= 0) & np.isfinite(found)))
    if len(wrong):
        row = int(wrong[0])
        source, target = ends(row)
        shown = "no weight" if not values[row].is_valid else f"the weight {found[row]}"
        raise InvalidValue(
            f"the {edge.name} edge from {source!r} to {target!r} has {shown} in {name!r}",
            type_key=edge.table_key, field=name, hint="weights are finite numbers that are not negative",
        )  # fmt: skip
    return found
