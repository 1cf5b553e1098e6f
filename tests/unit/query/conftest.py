"""Shared by the query tests: the catalogs of the golden folder, and a compiler for single clauses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from omnigraph.query import compile_query
from omnigraph.query.ir import MutationIR, QueryIR
from omnigraph.schema.catalog import Catalog, compile_schema

GOLDEN = Path(__file__).parent / "golden"


@cache
def catalog(name: str) -> Catalog:
    """The schema `golden/<name>.pg`, with ids 1, 2, 3, ..."""
    ids = count(1)
    return compile_schema((GOLDEN / f"{name}.pg").read_text(), lambda: f"{next(ids):026}", f"{name}.pg")


@pytest.fixture
def people() -> Catalog:
    return catalog("people")


@pytest.fixture
def library() -> Catalog:
    return catalog("library")


@pytest.fixture
def shop() -> Catalog:
    return catalog("shop")


@pytest.fixture
def read() -> Callable[..., QueryIR]:
    """Compile `match { clauses } return { returned } tail` over one of the schemas."""

    def compile_read(
        clauses: str, returned: str = "1 as one", tail: str = "", params: str = "", schema: str = "people"
    ) -> QueryIR:
        text = f"query q({params}) {{ match {{ {clauses} }} return {{ {returned} }} {tail} }}"
        found = compile_query(text, catalog(schema))
        assert isinstance(found, QueryIR)
        return found

    return compile_read


@pytest.fixture
def write() -> Callable[..., MutationIR]:
    """Compile the statements of a mutation over one of the schemas."""

    def compile_write(statements: str, params: str = "", schema: str = "shop") -> MutationIR:
        found = compile_query(f"query q({params}) {{ {statements} }}", catalog(schema))
        assert isinstance(found, MutationIR)
        return found

    return compile_write
