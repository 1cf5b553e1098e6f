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

_MARK = re.compile(r"omnigraph-refusal (?=\{)")
_CONDITION = re.compile(r"\[[A-Z_.]+\].*")


class TaskRefusal(Exception):
    """A refusal on its way from a worker to the driver."""

    def __init__(self, error: errors.OmnigraphError) -> None:
        super().__init__(f"omnigraph-refusal {json.dumps(error.to_wire())}")


def refusal_in(text: str) -> errors.OmnigraphError | None:
    """The refusal that a failure of Spark tells of."""
    found = _MARK.search(text)
    if found is None:
        return None
    body, _ = json.JSONDecoder().raw_decode(text, found.end())
    return errors.OmnigraphError.from_wire(body)


def reason_in(text: str) -> str:
    """The line of a failure of Spark that says what is wrong: `[CONDITION] ...`, else the first."""
    found = _CONDITION.search(text)
    return found.group() if found else text.strip().partition("\n")[0]


def error_of(failure: BaseException | None) -> errors.OmnigraphError | None:
    """The error of a graph that a failure of Spark tells of, such as `query.exception()`; None when it is another."""
    return None if failure is None else refusal_in(str(failure))


def run_work(work: Callable[[], Any]) -> Any:
    """What a task found, or the error that stopped it, which Spark would show as a stack of two languages.

    An error of the store is raised: it may answer the next attempt, and Spark makes one.
    """
    try:
        return work()
    except errors.StorageError as error:
        raise TaskRefusal(error) from error
    except errors.OmnigraphError as error:
        return error


def require_answers(answers: list[Any]) -> list[Any]:
    """The answers of tasks, unless one of them is an error."""
    for each in answers:
        if isinstance(each, errors.OmnigraphError):
            raise each
    return answers
