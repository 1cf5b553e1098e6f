"""Events of graphs on the logger `omnigraph`. Silent until an application or `OMNIGRAPH_LOG` attaches a handler.

Applications attach the handlers: only `OMNIGRAPH_LOG` makes the library attach one, to its own logger and never to the
root. An event has a name and fields; they are the record's `event` and `fields`, and its message is both as text.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
from typing import Any

from omnigraph.errors import InvalidArgument

VARIABLE = "OMNIGRAPH_LOG"
PROGRESS_VARIABLE = "OMNIGRAPH_PROGRESS_SECONDS"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FORMATS = ("text", "json")
_logger = logging.getLogger("omnigraph")
_logger.addHandler(logging.NullHandler())
_attached: dict[str, logging.Handler] = {}


def event(name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event; fields that are None are left out. Costs next to nothing when no handler takes its level."""
    if _logger.isEnabledFor(level):
        told = {key: value for key, value in fields.items() if value is not None}
        text = " ".join((name, *(f"{key}={_plain(value)}" for key, value in told.items())))
        _logger.log(level, "%s", text, extra={"event": name, "fields": told})


def is_heard(level: int) -> bool:
    """Return whether the logger takes events of a level."""
    return _logger.isEnabledFor(level) and any(not isinstance(h, logging.NullHandler) for h in _handlers())


def _handlers() -> list[logging.Handler]:
    return [*_logger.handlers, *(logging.getLogger().handlers if _logger.propagate else ())]


def configure() -> None:
    """Attach the handler that `OMNIGRAPH_LOG` describes: a level, `json` or `text`, or both with a comma."""
    text = os.environ.get(VARIABLE, "").strip().lower()
    if text in _attached:
        return
    for handler in _attached.values():
        _logger.removeHandler(handler)
    _attached.clear()
    if text in ("", "off"):
        return
    level, form = _parsed(text)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    _logger.addHandler(handler)
    _logger.setLevel(level)
    _attached[text] = handler


def progress_seconds() -> float:
    """Return the seconds between progress lines where no bar shows progress; 0 for never."""
    text = os.environ.get(PROGRESS_VARIABLE, "30")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidArgument(f"{PROGRESS_VARIABLE} is {text!r}", hint="seconds between lines; 0 for none")
    return seconds


def _parsed(text: str) -> tuple[int, str]:
    level, form = logging.INFO, "text"
    for word in (part.strip() for part in text.split(",")):
        if word in LEVELS:
            level = LEVELS[word]
        elif word in _FORMATS:
            form = word
        else:
            raise InvalidArgument(
                f"{VARIABLE} is {text!r}", hint=f"use {', '.join(LEVELS)}, {', '.join(_FORMATS)}, or a pair: info,json"
            )
    return level, form


def _plain(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if any(c.isspace() or c in '"=' for c in text) or not text else text


def _moment(record: logging.LogRecord) -> str:
    return dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_moment(record)} {record.levelname} {record.getMessage()}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = {"time": _moment(record), "level": record.levelname.lower(), "process": record.process}
        name = getattr(record, "event", record.getMessage())
        return json.dumps({**head, "event": name, **getattr(record, "fields", {})}, default=str)
