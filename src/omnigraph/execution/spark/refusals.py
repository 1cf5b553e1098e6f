"""Errors on their way from a task to the driver.

An error of a query or a load is a Python exception in a worker, which Spark hands over as text; it carries what it
takes to raise it again in the driver. Every task imports this, so it imports nothing of the engines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from omnigraph import errors

_MARK = re.compile(r"omnigraph-refusal (\{.*?\}) end")


class TaskRefusal(Exception):
    """A refusal on its way from a worker to the driver."""

    def __init__(self, error: errors.OmnigraphError) -> None:
        said = {"class": type(error).__name__, "message": error.message, "hint": error.hint}
        super().__init__(f"omnigraph-refusal {json.dumps(said)} end")


def refusal_in(text: str) -> errors.OmnigraphError | None:
    """The refusal that a failure of Spark tells of."""
    found = _MARK.search(text)
    if found is None:
        return None
    said = json.loads(found.group(1))
    error: errors.OmnigraphError = getattr(errors, said["class"])(said["message"], hint=said["hint"])
    return error


def answered(work: Callable[[], Any]) -> Any:
    """What a task found, or the error that stopped it, which Spark would show as a stack of two languages.

    An error of the store is raised: it may answer the next attempt, and Spark makes one.
    """
    try:
        return work()
    except errors.StorageError as error:
        raise TaskRefusal(error) from error
    except errors.OmnigraphError as error:
        return error


def accepted(answers: list[Any]) -> list[Any]:
    """The answers of tasks, unless one of them is an error."""
    for each in answers:
        if isinstance(each, errors.OmnigraphError):
            raise each
    return answers
