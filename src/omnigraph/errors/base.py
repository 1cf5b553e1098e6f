"""The root of all errors."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, ClassVar

from omnigraph.errors.codec import decode_value, encode_value


class _Brief(reprlib.Repr):
    """A bounded `repr`: long values and deep nesting are cut, huge numbers are shown as their number of digits."""

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 256:
            return f"a number of {x.bit_length() * 30103 // 100000 + 1} digits"
        return repr(x)


_BRIEF = _Brief()
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = _BRIEF.maxset = 20
_BRIEF.maxstring = _BRIEF.maxother = 200
_MAX_MESSAGE = 2_000


def show_value(value: Any, width: int = 60) -> str:
    """Return a value as text for a message, cut to `width`; huge numbers and deep nesting are shortened.

    >>> show_value("Ann"), show_value([1, [2]]), show_value("x" * 99, 12)
    ("'Ann'", '[1, [2]]', "'xxxxxxxx...")
    """
    text = repr(value) if isinstance(value, str | bytes) and len(value) <= width else _BRIEF.repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _printable(text: str) -> str:
    """Return a text that can be printed and sent: no halves of surrogate pairs, and of bounded length."""
    cut = text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 3]}..."
    return cut if cut.isascii() else cut.encode(errors="backslashreplace").decode()


class OmnigraphError(Exception):
    """Root of all errors. `hint` is the advised next action, if there is one."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _CLASSES[cls.__name__] = cls

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = _printable(message)
        self.hint = None if hint is None else _printable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def details(self) -> dict[str, Any]:
        """Structured fields for `--json` and HTTP bodies."""
        return {}

    def as_dict(self) -> dict[str, Any]:
        """The error as one JSON-ready object."""
        body: dict[str, Any] = {"error": self.message, "code": self.code, "retryable": self.retryable}
        if self.hint:
            body["hint"] = self.hint
        return body | self.details()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by attributes, because constructors take parts of the message instead of the message."""
        return _restore, (type(self), dict(vars(self)))

    def to_wire(self) -> dict[str, Any]:
        """Return the error as JSON that `from_wire` decodes to an equal one, in another process or on another host."""
        return {
            "class": type(self).__name__,
            "fields": {name: encode_value(value) for name, value in vars(self).items()},
        }

    @staticmethod
    def from_wire(body: Mapping[str, Any]) -> OmnigraphError:
        """Decode the output of `to_wire` to an error of its own class; an unknown class becomes the root class."""
        cls = _CLASSES.get(body["class"], OmnigraphError)
        return _restore(cls, {name: decode_value(value) for name, value in body["fields"].items()})


_CLASSES: dict[str, type[OmnigraphError]] = {}


def _restore(cls: type[OmnigraphError], fields: dict[str, Any]) -> OmnigraphError:
    error = cls.__new__(cls, fields["message"])
    for name, value in fields.items():
        setattr(error, name, value)
    return error
