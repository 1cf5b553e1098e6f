"""Values in the JSON of results, changes and exports. Loads nothing of the engine: the command line starts with it."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

_SAFE_INTEGER = 2**53 - 1


def json_value(value: Any) -> Any:
    """Return a value in the JSON of results: dates as ISO text, numbers beyond JSON's range as text."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE_INTEGER:
        return str(value)
    if isinstance(value, dict):
        return {k: json_value(v) for k, v in value.items()}
    return [json_value(v) for v in value] if isinstance(value, list) else value
