"""Vectors of `@embed` properties that a row leaves out, computed from their source text as the row is written.

Only when the environment names a provider: a key for queries that happens to be set is not an order to send every
loaded text to a service.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Unsupported
from omnigraph.execution.embedding import EmbeddingProvider, provider_from_env
from omnigraph.schema.catalog import EntityType, Property

_ORDERS = ("OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBEDDINGS_MOCK")


def with_vectors(entity: EntityType, rows: pa.Table, env: Mapping[str, str] | None = None) -> pa.Table:
    """The rows (physical columns) with the vectors that can be computed."""
    wanted = [prop for prop in entity.properties if prop.embed is not None]
    settings = os.environ if env is None else env
    if not wanted or not any(settings.get(name, "").strip() for name in _ORDERS):
        return rows
    provider = provider_from_env(settings)
    for prop in wanted:
        if provider is not None:
            rows = _filled(entity, prop, rows, provider)
    return rows


def _filled(entity: EntityType, prop: Property, rows: pa.Table, provider: EmbeddingProvider) -> pa.Table:
    assert prop.embed is not None, f"{prop.name} has no @embed"
    assert prop.type.dimension is not None, f"{prop.name} is no vector"
    vectors, texts = rows[prop.column], rows[entity.property(prop.embed.source).column]
    missing = pc.and_(pc.is_null(vectors), pc.is_valid(texts)).to_numpy()
    if not missing.any():
        return rows
    if prop.embed.model is not None and prop.embed.model != provider.model:
        raise Unsupported(
            f"{entity.name}.{prop.name} is made by the model {prop.embed.model!r}, not by {provider.model!r}",
            hint=f"set OMNIGRAPH_EMBED_MODEL={prop.embed.model}, or give the vectors",
        )
    chosen = np.flatnonzero(missing)
    made = provider.embed(texts.take(pa.array(chosen)).to_pylist(), prop.type.dimension)
    values = vectors.to_pylist()
    for index, vector in zip(chosen.tolist(), made, strict=True):
        values[index] = vector.tolist()
    column = pa.array(values, prop.type.to_arrow())
    return rows.set_column(rows.column_names.index(prop.column), rows.schema.field(prop.column), column)
