"""Explain syntax errors: detect the usual slips of users of other languages, with a message and a hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.datatypes import Scalar
from omnigraph.parsing.source_text import MAX_NAME, word_before
from omnigraph.schema.names import nearest, suggest

_OTHER_NAMES = {
    "int": "I64", "integer": "I64", "long": "I64", "bigint": "I64", "int64": "I64", "number": "F64 or I64",
    "int32": "I32", "short": "I32", "smallint": "I32", "uint": "U64", "uint32": "U32", "uint64": "U64",
    "float": "F64", "double": "F64", "decimal": "F64", "real": "F64", "float64": "F64", "float32": "F32",
    "boolean": "Bool", "text": "String", "str": "String", "varchar": "String", "char": "String", "uuid": "String",
    "id": "String", "json": "String", "timestamp": "DateTime", "time": "DateTime", "instant": "DateTime",
    "bytes": "Blob", "binary": "Blob", "bytea": "Blob", "embedding": "Vector(n)", "vec": "Vector(n)",
    "list": "[String]", "array": "[String]",
}  # fmt: skip

_DECLARATIONS = ("node", "edge", "interface")
_TYPES = (*Scalar, "Vector")

_WORDS = {
    "enum": "`enum(...)`", "TYPE_NAME": "a capitalised name", "IDENT": "a lower-case name", "ENUM_VALUE": "a value",
    "STRING": "a double-quoted string", "INT": "a number", "FLOAT": "a number", "-": "a number",
    "END": "the end of the text",
}  # fmt: skip
Slip = tuple[str, int, str | None]
"""A syntax error in words: a message, the number of characters it covers, and a hint."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The place where the parser stopped: the next tokens, the previous ones, the expected ones."""

    rest: str
    before: str
    expected: frozenset[str]

    @property
    def word(self) -> str:
        found = re.match(r"[A-Za-z_][A-Za-z0-9_]{0,199}", self.rest)
        return found[0] if found else ""

    @property
    def previous(self) -> str:
        return word_before(self.before[-MAX_NAME:])

    @property
    def in_body(self) -> bool:
        return "}" in self.expected

    @property
    def at_top(self) -> bool:
        return "node" in self.expected


def diagnose(text: str, offset: int, expected: frozenset[str]) -> Slip:
    """Explain why the parser stopped; `expected` are the marks, words and kinds that were possible."""
    place = _Place(text[offset:], text[:offset].rstrip(), expected)
    width = max(1, len(place.word))
    for rule in (_end, _foreign_mark, _body_mark, _top_level, _type_name, _missing_mark, _member, _value):
        found = rule(place)
        if found is not None:
            return found[0], width, found[1]
    return f"unexpected `{place.word or place.rest[0]}`", width, f"expected {_listed(expected)}"


def type_hint(name: str) -> str:
    """Suggest a type for an unknown one.

    >>> type_hint("Integer")
    'write `I64`'
    """
    wanted = _OTHER_NAMES.get(name.lower()) or nearest(name, _TYPES)
    if wanted is None:
        return f"the types are {', '.join(Scalar)}, Vector(n), enum(a, b) and lists such as [String]"
    return f"write `{'Vector(n)' if wanted == 'Vector' else wanted}`"


_Found = tuple[str, str | None] | None
_Rule = Callable[[_Place], _Found]


def _end(place: _Place) -> _Found:
    if place.rest.strip():
        return None
    if place.in_body:
        return "the text ends inside a body", "close it with `}`"
    return "the text ends in the middle of a declaration", f"expected {_listed(place.expected)}"


def _foreign_mark(place: _Place) -> _Found:
    match place.rest[0]:
        case "#":
            return "`#` does not start a comment", "write `// ...` or `/* ... */`"
        case "'":
            return "strings take double quotes", "write \"...\" instead of '...'"
        case "/" if place.rest.startswith("/*"):
            return "this comment is never closed", "close it with `*/`; comments do not nest"
        case '"' if "ENUM_VALUE" in place.expected:
            return "enum values are bare words", "write `enum(draft, live)`, without quotes"
        case '"' if not re.match(r'"(\\.|[^"\\])*"', place.rest, flags=re.DOTALL):
            return "this string is never closed", 'close it with `"`'
        case "," | ";" if place.at_top:
            return f"declarations are not separated by `{place.rest[0]}`", "leave it out"
        case _:
            return None


def _body_mark(place: _Place) -> _Found:
    if not place.in_body:
        return None
    match place.rest[0]:
        case "," | ";":
            return f"members are not separated by `{place.rest[0]}`", "put each on its own line, with nothing between"
        case "=":
            return "a property takes no `=`", "write `@default(...)` after the type"
        case "[" if place.previous[:1].isupper():
            return "a list is written with its type inside the brackets", f"write `[{place.previous}]`"
        case "!":
            return "a property takes no `!`", "properties are required unless the type ends in `?`"
        case _:
            return None


def _top_level(place: _Place) -> _Found:
    if not place.at_top:
        return None
    word = place.word
    if place.rest[0] == "}":
        return "this `}` closes nothing", "remove it, or look for a `}` too many above"
    if word == "enum":
        return "enums are not declared by themselves", "write the values in place: `status: enum(draft, live)`"
    if not word:
        return f"unexpected `{place.rest[0]}`", "a declaration starts with `node`, `edge` or `interface`"
    meant = {"vertex": "node", "type": "node", "class": "node", "table": "node", "relation": "edge"}.get(word.lower())
    meant = meant or nearest(word, _DECLARATIONS)
    hint = f"write `{meant}`" if meant else "a declaration starts with `node`, `edge` or `interface`"
    return f"`{word}` does not start a declaration", hint


def _type_name(place: _Place) -> _Found:
    if place.expected != {"TYPE_NAME"}:
        return None
    if not place.word:
        return f"expected a type name, found `{place.rest[0]}`", "type names are words that start with a capital"
    bare = place.word.strip("_")
    capital = (bare[:1].upper() + bare[1:]) or "Name"
    return f"the type name `{place.word}` does not start with a capital", f"write `{capital}`"


def _missing_mark(place: _Place) -> _Found:
    if place.expected == {"->"}:
        mark = re.match(r"[-=<>]+", place.rest)
        seen = f", not `{mark[0]}`" if mark else ""
        return f"an edge needs `->` between its endpoints{seen}", "write `edge Knows: Person -> Person`"
    if place.expected != {":"}:
        return None
    if place.previous in _DECLARATIONS and place.word[:1].isupper():
        return "the body above is never closed", f"put a `}}` before `{place.previous} {place.word}`"
    if place.previous[:1].isupper():
        return f"expected `:` after `{place.previous}`", f"write `edge {place.previous}: Source -> Target`"
    follows = place.word if place.word[:1].isupper() else "Type"
    return f"expected `:` after `{place.previous}`", f"write `{place.previous}: {follows}`"


def _member(place: _Place) -> _Found:
    if place.in_body and place.word[:1].isupper():
        lower = place.word[:1].lower() + place.word[1:]
        return f"the property name `{place.word}` does not start in lower case", f"write `{lower}`"
    if "{" in place.expected and "implements" in place.expected:
        if place.word in ("extends", "implement", "is", "with"):
            return f"unexpected `{place.word}`", "write `implements`"
        if place.rest[0] == ":":
            return "a node type takes no `:`", "write `implements Name`, or `edge` if this is an edge type"
    if place.expected == {"("} and place.previous == "enum":
        return "an enum lists its values in parentheses", "write `status: enum(draft, live)`"
    return None


def _value(place: _Place) -> _Found:
    if place.before.endswith(".."):
        return "a range needs a number on at least one side of `..`", "write `0..`, `..10` or `0..10`"
    if {"TYPE_NAME", "enum", "["} <= place.expected:
        return f"expected a type, found `{place.word or place.rest[0]}`", type_hint(place.word)
    if "STRING" in place.expected and "IDENT" in place.expected:
        hint = suggest(place.word, (), "arguments are names, double-quoted strings, numbers, ranges or true/false")
        return f"unexpected `{place.word or place.rest[0]}` in the arguments", hint
    return None


def _listed(expected: frozenset[str]) -> str:
    words = sorted({_WORDS.get(name, f"`{name}`") for name in expected})
    if not words:
        return "something else"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
