"""Transport of errors from a task to the driver.

An error of a query or a load is a Python exception in a worker, which Spark passes on as text; the text contains the
encoded error, so that the driver can raise it again. Every task imports this module, so it imports nothing of the
engines.
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
    """A refusal in transport from a worker to the driver."""

    def __init__(self, error: errors.OmnigraphError) -> None:
        super().__init__(f"omnigraph-refusal {json.dumps(error.to_wire())}")


def refusal_in(text: str) -> errors.OmnigraphError | None:
    """Return the refusal inside a failure of Spark, or None."""
    found = _MARK.search(text)
    if found is None:
        return None
    body, _ = json.JSONDecoder().raw_decode(text, found.end())
    return errors.OmnigraphError.from_wire(body)


def reason_in(text: str) -> str:
    """Return the line of a failure of Spark with the reason: `[CONDITION] ...`, else the first."""
    found = _CONDITION.search(text)
    return found.group() if found else text.strip().partition("\n")[0]


def error_of(failure: BaseException | None) -> errors.OmnigraphError | None:
    """Return the graph error inside a failure of Spark, such as `query.exception()`; None for other failures."""
    return None if failure is None else refusal_in(str(failure))


def run_work(work: Callable[[], Any]) -> Any:
    """Return a task's answer, or the error that stopped it, which Spark would show as a stack trace of two languages.

    An error of the store is raised: it may not recur in the next attempt, and Spark makes one.
    """
    try:
        return work()
    except errors.StorageError as error:
        raise TaskRefusal(error) from error
    except errors.OmnigraphError as error:
        return error


def require_answers(answers: list[Any]) -> list[Any]:
    """Return the answers of tasks. Raises the first of them that is an error."""
    for each in answers:
        if isinstance(each, errors.OmnigraphError):
            raise each
    return answers
