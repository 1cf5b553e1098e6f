"""The grammar of `.pg` schemas, in lark's notation.                    (text -> GRAMMAR -> parser -> ast -> catalog)

It accepts a little more than the language: any annotation anywhere, any word as a type. `parser` and `checks` refuse
the rest with errors that name the mistake, which a syntax error could not.

Annotations are members of a body in their own right; `parser` hangs them on the property they follow. That keeps
`name: String @unique` (about `name`) and `name: String @unique(a, b)` (about the type) apart without lookahead.
"""

from __future__ import annotations

GRAMMAR = r"""
start: (interface | node | edge)*

interface: INTERFACE TYPE_NAME header* body
node: NODE TYPE_NAME header* (implements header*)? body
edge: EDGE TYPE_NAME ":" TYPE_NAME ARROW TYPE_NAME header* body?

implements: IMPLEMENTS TYPE_NAME ("," TYPE_NAME)*
body: "{" (property | annotation)* "}"
property: IDENT ":" type

type: (list | enum | vector | named) OPTIONAL?
list: "[" type "]"
enum: ENUM "(" ENUM_VALUE ("," ENUM_VALUE)* ")"
vector: TYPE_NAME "(" INT ")"
named: TYPE_NAME | IDENT

// Two rules of one shape: a shared one would merge their parser states, and the lexer could no longer tell the keyword
// that follows a header from a property called `node` or `implements` in a body.
header: "@" IDENT (OPEN (_argument ("," _argument)*)? ")")?
annotation: "@" IDENT (OPEN (_argument ("," _argument)*)? ")")?

_argument: range | literal | name | endpoint | keyword
keyword: IDENT "=" (literal | name)
endpoint: "@" IDENT
name: IDENT | TYPE_NAME
range: number DOTS number? | DOTS number
literal: number | STRING
number: MINUS? (INT | FLOAT)

// A capital may follow at once: `nodePerson` is two words, `nodes` is not one of ours.
INTERFACE: /interface(?![a-z0-9_])/
NODE: /node(?![a-z0-9_])/
EDGE: /edge(?![a-z0-9_])/
IMPLEMENTS: /implements(?![a-z0-9_])/
ENUM: "enum"

TYPE_NAME: /[A-Z][A-Za-z0-9_]*/
IDENT: /[a-z_][A-Za-z0-9_]*/
ENUM_VALUE: /[A-Za-z0-9_-]+/
STRING: /"(\\(.|\n)|[^"\\])*"/
FLOAT.2: /[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
INT: /[0-9]+/
MINUS: "-"
OPEN: "("
DOTS: ".."
ARROW: "->"
OPTIONAL: "?"

COMMENT: /\/\/[^\n]*/ | /\/\*(.|\n)*?\*\//
%ignore COMMENT
// Some editors begin a file with a byte-order mark.
%ignore /[ \t\r\n\ufeff]+/
"""
