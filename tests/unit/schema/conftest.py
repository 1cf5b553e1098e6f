"""Shared by the schema tests: a compiler with counted ids, so that catalogs can be compared."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from omnigraph.schema.catalog import Catalog, compile_schema


@pytest.fixture
def compiled() -> Callable[[str], Catalog]:
    """Compile a text with ids 1, 2, 3, ..."""

    def compile_text(text: str) -> Catalog:
        ids = count(1)
        return compile_schema(text, lambda: f"{next(ids):026}", "schema.pg")

    return compile_text
