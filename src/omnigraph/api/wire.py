"""Requests, results and errors as JSON and back: one codec for every transport between processes.

A request is `{"verb": "run_query", "fields": {...}}`. JSON values stay as they are; dataclasses and other values are
objects of one member that names them. Arrow tables travel as bytes of an IPC stream. The fields of a decoded request
are checked by the annotations of its class, like the arguments of `Graph`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

import pyarrow as pa

from omnigraph.api import (
    analytics_requests,
    changes,
    commits,
    conflicts,
    explanation,
    query_result,
    reports,
    requests,
    results,
    run_summary,
    target,
    write_requests,
)
from omnigraph.api.arguments import checked_call
from omnigraph.api.service import Request
from omnigraph.api.verbs import verb_of, verb_of_request
from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.errors.base import show_value
from omnigraph.errors.codec import ValueCodec, known_parts
from omnigraph.schema.catalog import Catalog

Json = dict[str, Any]
_MODULES = (
    analytics_requests, changes, commits, conflicts, explanation, query_result, reports, requests, results, run_summary,
    target, write_requests,
)  # fmt: skip


def _is_value(found: Any, module: ModuleType) -> bool:
    return dataclasses.is_dataclass(found) and isinstance(found, type) and found.__module__ == module.__name__


def _encode_other(value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return {"$seconds": value.total_seconds()}
    if isinstance(value, frozenset):
        return {"$set": sorted(_CODEC.encode(each) for each in value)}
    if isinstance(value, pa.Table):
        return {"$arrow": b64encode(table_bytes(value)).decode()}
    if isinstance(value, Catalog):
        return {"$Catalog": value.to_json()}
    raise InvalidArgument(f"a {type(value).__name__} does not leave this process", hint="pass plain values or rows")


_CODEC = ValueCodec(
    {
        **known_parts(),
        "ConflictKind": conflicts.ConflictKind,
        **{name: cls for module in _MODULES for name, cls in vars(module).items() if _is_value(cls, module)},
    },
    _encode_other,
    {
        "$seconds": lambda seconds: dt.timedelta(seconds=seconds),
        "$set": frozenset,
        "$arrow": lambda text: table_of(b64decode(text)),
        "$Catalog": Catalog.from_json,
    },
)


_DAMAGED = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, pa.ArrowException,
)  # fmt: skip
"""Errors of constructors and parsers that are given a damaged value."""


def encode_request(request: Request[Any]) -> Json:
    """Encode a request as JSON. Fields that have their default are left out."""
    fields: Json = {}
    for each in dataclasses.fields(request):  # type: ignore[arg-type]
        value = getattr(request, each.name)
        if not (_default(each) == value and type(_default(each)) is type(value)):
            fields[each.name] = _CODEC.encode(value)
    return {"verb": verb_of_request(type(request)).name, "fields": fields}


def decode_request(body: Mapping[str, Any]) -> Request[Any]:
    """Decode a request and check its fields, whether `encode_request` or another program wrote it."""
    verb, fields = body.get("verb"), body.get("fields", {})
    if not isinstance(verb, str) or not isinstance(fields, Mapping) or set(body) - {"verb", "fields"}:
        raise InvalidArgument("a request is an object of `verb` and `fields`")
    make = _constructor(verb)
    found: Request[Any] = make(**{str(name): _decode_field(str(name), value) for name, value in fields.items()})
    return found


def _decode_field(name: str, value: Any) -> Any:
    """Decode a field that another program wrote; whatever is wrong inside a tagged value is one refusal."""
    try:
        return _CODEC.decode(value)
    except _DAMAGED as error:
        reason = show_value(" ".join(str(error).split()), 200)
        raise InvalidArgument(f"the field `{name}` cannot be decoded: {reason}") from error


@cache
def _constructor(verb: str) -> Any:
    """Return a function that builds a request of keywords, each checked by the annotation of its field."""
    return checked_call(verb_of(verb).request)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING


def encode_result(result: Any) -> Any:
    """Encode a result, or one item of a streamed result, as JSON."""
    return _CODEC.encode(result)


def decode_result(body: Any) -> Any:
    """Decode the output of `encode_result`."""
    return _CODEC.decode(body)


def encode_error(error: OmnigraphError) -> Json:
    """Encode an error as JSON."""
    return error.to_wire()


def decode_error(body: Mapping[str, Any]) -> OmnigraphError:
    """Decode the output of `encode_error`; the error has its original class."""
    return OmnigraphError.from_wire(body)


def table_bytes(table: pa.Table) -> bytes:
    """Encode a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def table_of(data: bytes) -> pa.Table:
    """Decode the table of an Arrow IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
