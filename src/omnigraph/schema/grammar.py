"""The grammar of `.pg` schemas: its rules in EBNF and its tokens.               (text -> GRAMMAR -> parser -> ast)

`parser` follows `GRAMMAR` rule by rule. It accepts slightly more than the language: any annotation anywhere, any word
as a type. `parser` and `checks` refuse the difference with specific errors.

Annotations are separate members of a body; `parser` attaches them to the property before them. That distinguishes
`name: String @unique` (about `name`) and `name: String @unique(a, b)` (about the type) without lookahead.
"""

from __future__ import annotations

import re

GRAMMAR = r"""
file       = { interface | node | edge } ;
interface  = "interface" Type { annotation } body ;
node       = "node" Type { annotation } [ "implements" Type { "," Type } { annotation } ] body ;
edge       = "edge" Type ":" Type "->" Type { annotation } [ body ] ;

body       = "{" { property | annotation } "}" ;
property   = ident ":" type ;
type       = ( "[" type "]" | "enum" "(" value { "," value } ")" | Type "(" int ")" | Type | ident ) [ "?" ] ;

annotation = "@" ident [ "(" [ argument { "," argument } ] ")" ] ;
argument   = range | literal | ident [ "=" ( literal | ident | Type ) ] | Type | "@" ident ;
range      = number ".." [ number ] | ".." number ;
literal    = number | string ;
number     = [ "-" ] ( int | float ) ;
"""

TOKEN = re.compile(
    r"""
    (?P<BLANK>[ \t\r\n\ufeff]+ | //[^\n]* | /\*(?:.|\n)*?\*/)
  | (?P<TYPE_NAME>[A-Z][A-Za-z0-9_]*)
  | (?P<IDENT>[a-z_][A-Za-z0-9_]*)
  | (?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
  | (?P<INT>[0-9]+)
  | (?P<STRING>"(?:\\(?:.|\n)|[^"\\])*")
  | (?P<MARK>\.\.|->|[{}()\[\],:?@=\-])
    """,
    re.VERBOSE,
)
# A capital may follow a keyword directly: `nodePerson` is two words, `nodes` is no keyword.
KEYWORDS = {word: re.compile(rf"{word}(?![a-z0-9_])") for word in ("interface", "node", "edge", "implements")}
ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]+")
DIMENSION = re.compile(r"[0-9]+")
