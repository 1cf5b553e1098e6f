"""Check the arguments of public methods: the facade refuses values that the annotations exclude.

`@checked` on a class wraps its public methods, `@checked_call` one function. Every refusal is an `InvalidArgument` that
names the method and the argument. A value that has several forms is converted: a list of names becomes a tuple, a whole
number of NumPy an `int`. A text is never a sequence of texts: `ids="12"` is refused and not read as `1` and `2`.
"""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import inspect
import io
import math
import numbers
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from omnigraph.errors import ArgumentRefused, InvalidArgument
from omnigraph.errors.base import show_value
from omnigraph.schema.names import nearest

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[Any], Any]
"""Returns a value as the function takes it, or raises `Refusal`."""


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The least value of a whole number: `Annotated[int, AtLeast(1)]`."""

    least: int


@dataclass(frozen=True, slots=True)
class AtMost:
    """The greatest value of a whole number; without one it is that of 64 bits with a sign."""

    most: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """The advice for an error in which a value of another type is a likely mistake."""

    hint: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A short name of the values that a parameter takes, where the spelled-out types would be long."""

    word: str


Count = Annotated[int, AtLeast(1)]
EntityId = Annotated[str | Annotated[int, AtMost(2**64 - 1)] | float | bool | dt.date, Wanted("an id")]
"""An id: its text, or the value of the key it is derived from."""
_NONE = "None"
_LEAST, _MOST = -(2**63), 2**63 - 1


class Refusal(ValueError):
    """A value that an annotation excludes. `wanted` describes the values taken; `says` is a further sentence."""

    def __init__(self, wanted: str, *, hint: str | None = None, says: str | None = None) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.hint = hint
        self.says = says


def checked(cls: type[C]) -> type[C]:
    """Class decorator: check the arguments of every public method of a class."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(checked_call(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, checked_call(member))
    return cls


def checked_call(function: F) -> F:
    """Check the arguments of a function or of a dataclass. `self` and unannotated parameters are not checked."""
    arguments = Arguments(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(**arguments.bound(args, kwargs))

    call.arguments = arguments  # type: ignore[attr-defined]
    return typing.cast("F", call)


class Arguments:
    """The parameters of a function and the check of each, built from the annotations at the first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in parameters):
            raise TypeError(f"{function.__qualname__} takes arguments without a name: they cannot be checked")
        self._positional = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        self._required = tuple(p.name for p in parameters if p.default is p.empty)
        self._annotations = {p.name: p.annotation for p in parameters}

    @cached_property
    def checks(self) -> dict[str, Check]:
        """Return the check of each parameter, by name."""
        names = _Names(vars(sys.modules[self._function.__module__]))
        return {name: _check_of(_evaluated(text, names)) for name, text in self._annotations.items()}

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, checked and converted. Raises `InvalidArgument`."""
        if len(args) > len(self._positional):
            raise self._misuse(f"takes {len(self._positional)} arguments without a name, got {len(args)}")
        given = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise self._misuse(f"got `{name}` twice")
            if name not in self._annotations:
                close = nearest(name, self._annotations)
                raise self._misuse(f"has no argument `{name}`", None if close is None else f"did you mean `{close}`?")
            given[name] = value
        for name in self._required:
            if name not in given:
                raise self._misuse(f"needs `{name}`")
        checks = self.checks
        for name, value in given.items():
            try:
                given[name] = checks[name](value)
            except Refusal as refusal:
                says = refusal.says or f"is {show_value(value)}, not {refusal.wanted}"
                raise ArgumentRefused(self._name, name, says, hint=refusal.hint) from None
        return given

    @property
    def _name(self) -> str:
        return self._function.__name__

    def _misuse(self, message: str, hint: str | None = None) -> InvalidArgument:
        known = ", ".join(name for name in self._annotations if name not in ("self", "cls"))
        return InvalidArgument(f"{self._name}() {message}", hint=hint or f"it takes {known or 'no arguments'}")


class _Names(dict[str, Any]):
    """The names of a module. Names imported for type checkers only resolve to `Any`."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        super().__init__(module)

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _evaluated(annotation: Any, names: _Names) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    return eval(annotation, {}, names) if isinstance(annotation, str) else annotation


def _check_of(annotation: Any) -> Check:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _noted(*get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        return _any_of([_check_of(each) for each in get_args(annotation)])
    if origin is Literal:
        return _one_of(get_args(annotation))
    return _plain_check(annotation, origin)


def _plain_check(annotation: Any, origin: Any) -> Check:
    if origin in (Sequence, Iterable, list, tuple):
        return _sequence(_check_of(get_args(annotation)[0]))
    if origin in (Mapping, dict):
        key, value = get_args(annotation)
        return _mapping(_check_of(key), _check_of(value))
    found = origin or annotation
    if found in _SIMPLE:
        return _SIMPLE[found]
    if not inspect.isclass(found):
        raise TypeError(f"there is no check for {annotation!r}")
    return functools.partial(_instance, found)


def _noted(annotation: Any, *notes: Any) -> Check:
    least = next((note.least for note in notes if isinstance(note, AtLeast)), _LEAST)
    most = next((note.most for note in notes if isinstance(note, AtMost)), _MOST)
    remedy = next((note.hint for note in notes if isinstance(note, Remedy)), None)
    wanted = next((note.word for note in notes if isinstance(note, Wanted)), None)
    if annotation is int:
        return functools.partial(_whole_number, least=least, most=most)
    check = _check_of(annotation)

    def with_notes(value: Any) -> Any:
        try:
            return check(value)
        except Refusal as refusal:
            raise Refusal(wanted or refusal.wanted, hint=remedy or refusal.hint, says=refusal.says) from None

    return with_notes


def _any_of(checks: Sequence[Check]) -> Check:
    def check(value: Any) -> Any:
        refusals: list[Refusal] = []
        for each in checks:
            try:
                return each(value)
            except Refusal as refusal:
                refusals.append(refusal)
        told = [each for each in refusals if each.wanted != _NONE]
        wanted = " or ".join(dict.fromkeys(each.wanted for each in told))
        best = next((each for each in told if each.says), told[0] if len(told) == 1 else Refusal(wanted))
        raise Refusal(wanted, hint=best.hint, says=best.says)

    return check


def _one_of(words: Sequence[Any]) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, str):
            if value in words:
                return value
            close = nearest(value, words)
            use = f"use one of {', '.join(words)}"
            hint = use if close is None else f"did you mean `{close}`? {use}"
            raise Refusal("a word", hint=hint, says=f"{show_value(value)} is unknown")
        raise Refusal(f"one of {', '.join(words)}")

    return check


def _sequence(item: Check) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, str | bytes):
            raise Refusal("a list", hint=f"a single one is a list too: [{show_value(value)}]")
        if isinstance(value, Mapping) or not isinstance(value, Iterable):
            raise Refusal("a list")
        found = []
        for number, each in enumerate(value, start=1):
            try:
                found.append(item(each))
            except Refusal as refusal:
                says = refusal.says or f"has {show_value(each)} in place {number}, not {refusal.wanted}"
                raise Refusal("a list", hint=refusal.hint, says=says) from None
        return tuple(found)

    return check


def _mapping(key: Check, value: Check) -> Check:
    def check(given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise Refusal("a mapping such as {...}")
        for name, each in given.items():
            try:
                key(name)
            except Refusal as refusal:
                raise Refusal(f"a mapping in which each name is {refusal.wanted}") from None
            try:
                value(each)
            except Refusal as refusal:
                raise Refusal(f"a mapping in which each value is {refusal.wanted}", hint=refusal.hint) from None
        return given

    return check


def _unchanged(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Refusal("a text")
    return value


def _path(value: Any) -> Any:
    if not isinstance(value, os.PathLike):
        raise Refusal("a path")
    return value


def _writable_stream(value: Any) -> Any:
    if not callable(getattr(value, "write", None)) or isinstance(value, io.TextIOBase):
        raise Refusal("a stream that is open for writing bytes")
    return value


def _whole_number(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise Refusal("a whole number")
    number = operator.index(value)
    if not least <= number <= most:
        raise Refusal(f"a whole number of at {f'least {least}' if number < least else f'most {most}'}")
    return number


def _number(value: Any) -> Any:
    try:
        is_finite = not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise Refusal("a finite number")
    return value


def _truth_value(value: Any) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy has a type of its own
        return bool(value)
    raise Refusal("True or False")


def _moment(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime) or value != value:
        raise Refusal("a datetime", hint="write datetime(2026, 1, 31, 12, 0, tzinfo=UTC)")
    return value


def _day(value: Any) -> dt.date:
    if not isinstance(value, dt.date) or value != value:
        raise Refusal("a date")
    return value


def _nothing(value: Any) -> None:
    if value is not None:
        raise Refusal(_NONE)


def _function(value: Any) -> Any:
    if not callable(value):
        raise Refusal("a function")
    return value


def _instance(cls: type, value: Any) -> Any:
    if not isinstance(value, cls):
        raise Refusal(f"a {cls.__name__}")
    return value


_SIMPLE: dict[Any, Check] = {
    Any: _unchanged,
    int: functools.partial(_whole_number, least=_LEAST, most=_MOST),
    str: _text,
    bool: _truth_value,
    float: _number,
    dt.datetime: _moment,
    dt.date: _day,
    types.NoneType: _nothing,
    os.PathLike: _path,
    typing.IO: _writable_stream,
    Callable: _function,
}
