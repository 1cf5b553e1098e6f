"""Explain syntax errors: detect the usual slips of users of other query languages, with a message and a hint.

Each function examines the token at the error and returns a message and a hint, or None when it has no better one.
"""

from __future__ import annotations

import re

from omnigraph.query.grammar import FUNCTIONS
from omnigraph.schema.names import suggest

Slip = tuple[str, str]

_KEYWORDS = frozenset({
    "query", "match", "return", "not", "optional", "having", "order", "offset", "limit", "insert", "update", "set",
    "delete", "where", "and", "or", "in", "is", "null", "as", "asc", "desc", "distinct", "contains", "starts_with",
    "true", "false", "count", "sum", "avg", "min", "max", "collect", "shortest", "now", "nearest", "search", "bm25",
})  # fmt: skip

_MARKS = {
    "==": ("`==` is not an operator", "write `=`"),
    "<>": ("`<>` is not an operator", "write `!=`"),
    "&&": ("`&&` is not an operator", "write `and`"),
    "&": ("`&` is not an operator", "write `and`"),
    "||": ("`||` is not an operator", "write `or`; alternatives of an edge take a single `|`"),
    "!": ("`!` is not an operator", "write `not`, or `!=` to compare"),
    ";": ("nothing is closed with `;`", "leave it out"),
    "*": ("`*` stands in `count(*)` only", "write `$p` for a whole node, `knows{1,}` for any number of hops"),
    "^": ("`^` is not an operator", "the operators are `+ - * / %`"),
    "~": ("`~` is not an operator", 'write `contains "..."` or `starts_with "..."`'),
}  # fmt: skip

_WORDS = {
    "where": ("a read has no `where`", "put the condition into `match { ... }`"),
    "select": ("there is no `select`", "write `match { ... } return { ... }`"),
    "from": ("there is no `from` here", "write `match { $x: Type }`"),
    "with": ("there is no `with`", "do it in one `match`, or in two queries"),
    "by": ("there is no `by`", "write `order { $p.name desc }`; groups follow from `return`"),
    "group": ("there is no `group`", "the items of `return` without an aggregate are the groups"),
    "skip": ("there is no `skip`", "write `offset 10`"),
    "between": ("there is no `between`", "write `$p.age >= 1 and $p.age <= 9`"),
    "like": ("there is no `like`", 'write `contains "..."` or `starts_with "..."`'),
    "ilike": ("there is no `ilike`", "write `search($d.title, $text)` to ignore case"),
    "exists": ("there is no `exists`", "a clause in `match` demands a match, `not { ... }` that there is none"),
    "create": ("there is no `create`", "write `insert Type { ... }`"),
    "merge": ("there is no `merge`", "write `insert Type { ... }`: with a `@key` it updates what is there"),
    "remove": ("there is no `remove`", "write `delete Type where ...`"),
    "union": ("there is no `union`", "write `or` in a filter, or `knows|follows` for edges"),
    "mutation": ("there is no `mutation` block", "write the statements directly: `query name() { insert ... }`"),
}  # fmt: skip


def foreign_character(text: str, offset: int) -> tuple[str, int, str]:
    """Return the message, width and hint for a character that starts no token."""
    character = text[offset]
    match character:
        case "#":
            return "`#` does not start a comment", 1, "write `// ...` or `/* ... */`"
        case "'":
            return "strings take double quotes", 1, "write \"...\" instead of '...'"
        case "`":
            return "names take no quotes", 1, "write the name as it is"
        case '"':
            return "this string is never closed", 1, 'close it with `"`'
        case "$":
            word = re.match(r"\$([A-Za-z0-9_]*)", text[offset:])
            name = word[1] if word else ""
            if not name or name[0].isdigit():
                return "a variable is `$` and a name", max(1, len(name) + 1), "write for example `$p`"
            lower = name[0].lower() + name[1:]
            return f"the variable `${name}` does not start in lower case", len(name) + 1, f"write `${lower}`"
        case _:
            return f"unexpected character `{character}`", 1, "only strings may hold it"


def foreign_token(kind: str, text: str, follows: str) -> Slip | None:
    """Explain a token that is wrong in any place where it is not expected."""
    if kind == "MARK":
        return _MARKS.get(text)
    if kind == "TYPE" and text.lower() in _KEYWORDS | set(_WORDS):
        meant = text.lower()
        if meant in _WORDS:
            return _WORDS[meant]
        return f"keywords are written in lower case: `{text}`", f"write `{meant}`"
    if kind == "IDENT" and text in _WORDS:
        return _WORDS[text]
    return None


def unknown_function(name: str) -> Slip:
    """Explain a call of an unknown function."""
    lower = name.lower()
    others = {
        "exists": "a clause in `match` demands a match, `not { ... }` that there is none",
        "average": "write `avg(...)`",
        "mean": "write `avg(...)`",
        "id": "write `$p.@id`",
        "size": "write `count(...)` or `length($path)`",
        "len": "write `count(...)` or `length($path)`",
        "distance": "write `nearest($d.embedding, $q)`",
        "similarity": "write `nearest($d.embedding, $q)`",
        "timestamp": 'write `datetime("2024-01-31T12:00:00Z")` or `now()`',
        "today": "write `now()` for the moment, or pass a Date parameter",
    }
    hint = others.get(lower) or (f"write `{lower}`" if lower in FUNCTIONS else None)
    return f"there is no function `{name}`", hint or suggest(
        name, FUNCTIONS, f"functions: {', '.join(FUNCTIONS)}"
    ) or ""


def bare_word(word: str, follows: str, then: str) -> Slip:
    """Explain a bare word in the place of a value."""
    if follows == ".":
        return f"`{word}` is not a variable", f"variables start with `$`: write `${word}.{then}`"
    variable = word[:1].lower() + word[1:]
    return f"`{word}` is not a value", f'write `"{word}"` for text, `${variable}` for a variable or parameter'
