"""Keep pandas from being imported by the program."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType


class _Hidden:
    """A finder that reports one module as not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise for the hidden name; leave every other to the next finder."""
        if name == self._name:
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)


@contextmanager
def without_pandas(arguments: Sequence[str]) -> Iterator[None]:
    """Run a command line as if pandas were not installed.

    If it is, pyarrow imports it for the first scalar, which takes longer than all other work of a short command. Only
    this program may hide it: it passes no pandas values to Arrow, and Spark, which does, is started by commands that
    name it. A program that has imported Arrow or pandas itself is left as it is.
    """
    if "pyarrow" in sys.modules or "pandas" in sys.modules or _names_spark(arguments):
        yield
        return
    hidden = _Hidden("pandas")
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)


def _names_spark(arguments: Sequence[str]) -> bool:
    return any("spark" in argument or argument == "pipeline" for argument in arguments)
