"""The grammar of `.gq` queries: its rules in EBNF, its tokens, its words.      (text -> GRAMMAR -> parser -> ast)

`parser` and `parse_expressions` follow `GRAMMAR` rule by rule. It is written by hand rather than generated because
words are reserved only where the grammar uses them (a property may be called `limit`, an edge `contains`), which needs
a look ahead of up to four tokens, and because the rule that finds a mistake explains it best.

If a clause has two readings, the first rule of `clause` that fits applies, so `$q contains $m` is a traversal over an
edge called `contains`; a property on either side (`$q.text contains $m.word`) makes it a filter.
"""

from __future__ import annotations

import re

GRAMMAR = r"""
file       = { query } ;
query      = "query" ident "(" [ param { "," param } [ "," ] ] ")" { note } "{" ( read | mutation { mutation } ) "}" ;
note       = ( "@description" | "@instruction" ) "(" string ")" ;
param      = var ":" ( base | "[" base "]" | "Vector" "(" int ")" ) [ "?" ] ;

read       = "match" "{" clause { clause } "}"
             "return" [ "distinct" ] "{" projection { [ "," ] projection } [ "," ] "}" { tail } ;
tail       = "having" "{" expr { [ "," ] expr } "}" | "order" "{" key { "," key } [ "," ] "}"
           | "offset" count | "limit" count ;
count      = int | var ;
projection = expr [ "as" ident ] ;
key        = expr [ "asc" | "desc" ] ;

clause     = "not" "{" clause { clause } "}" | "optional" "{" clause { clause } "}"
           | binding | path | traversal | expr ;
binding    = var ":" Type [ "{" [ ident ":" sum { "," ident ":" sum } [ "," ] ] "}" ] ;
path       = var ":" "shortest" traversal ;
traversal  = var [ var ":" ] ( edges | "<" edges ">" ) [ "{" count "," [ count ] "}" ] var ;
edges      = ident { "|" ident } ;

mutation   = "insert" Type "{" { assign } "}"
           | "update" Type "set" "{" { assign } "}" "where" expr
           | "delete" Type "where" expr ;
assign     = ident ":" sum [ "," ] ;

expr       = and { "or" and } ;
and        = not { "and" not } ;
not        = "not" not | test ;
test       = sum [ ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "starts_with" | "in" ) sum
                 | "is" [ "not" ] "null" ] ;
sum        = product { ( "+" | "-" ) product } ;
product    = unary { ( "*" | "/" | "%" ) unary } ;
unary      = "-" unary | primary ;
primary    = "(" expr ")" | literal | var [ "." ( ident | "@id" ) ] | call | ident ;
call       = function "(" [ "*" | [ "distinct" ] expr { "," expr } ] ")" ;
literal    = string | number | "true" | "false" | "null" | "date" "(" string ")" | "datetime" "(" string ")"
           | "[" [ literal { "," literal } ] "]" ;
"""

# One alternative per kind of token, tried in this order. A mark outside the language is a token too, so that
# the parser can suggest the right one.
TOKEN = re.compile(
    r"""
    (?P<BLANK>[ \t\r\n\ufeff]+ | //[^\n]* | /\*(?:.|\n)*?\*/)
  | (?P<UNCLOSED>/\*)
  | (?P<VAR>\$[a-z_][A-Za-z0-9_]*)
  | (?P<TYPE>[A-Z][A-Za-z0-9_]*)
  | (?P<IDENT>[a-z_][A-Za-z0-9_]*)
  | (?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
  | (?P<INT>[0-9]+)
  | (?P<STRING>"(?:\\(?:.|\n)|[^"\\])*")
  | (?P<MARK>==|!=|<>|<=|>=|&&|\|\||[{}()\[\],:.;=<>+\-*/%|@!?&^~])
    """,
    re.VERBOSE,
)

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
TEXT_TESTS = ("contains", "starts_with")
INFIX_WORDS = ("and", "or", "in", "is", *TEXT_TESTS)

AGGREGATES = ("count", "sum", "avg", "min", "max", "collect")
TEXT_FUNCTIONS = ("search", "match_text", "fuzzy")
RANKS = ("nearest", "bm25", "rrf")
PATH_FUNCTIONS = ("length", "nodes")
FUNCTIONS = (*AGGREGATES, *TEXT_FUNCTIONS, *RANKS, *PATH_FUNCTIONS, "now", "date", "datetime")


def edge_word(type_name: str) -> str:
    """Return an edge type as queries write it.

    >>> edge_word("WorksAt"), edge_word("WORKS_AT")
    ('worksAt', 'works_at')
    """
    return type_name.lower() if type_name.isupper() else type_name[:1].lower() + type_name[1:]
