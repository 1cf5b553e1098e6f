"""Random query texts over a world: patterns of up to three edges, blocks, filters, aggregates, order.

One seed gives one text: all parts of a query draw from the same numbers, in a fixed order.
"""

from __future__ import annotations

import random

from tests.reference.query_expressions import Expressions
from tests.reference.query_outputs import Outputs
from tests.reference.query_patterns import Patterns
from tests.reference.query_text import QueryText
from tests.reference.worlds import World

__all__ = ["QueryText", "make_query"]


def make_query(rng: random.Random, world: World) -> QueryText:
    expressions = Expressions(rng, world)
    block, scope = Patterns(expressions).match()
    outputs, tails, distinct = Outputs(expressions).returned(scope)
    return QueryText(block, outputs, tails, distinct, expressions.params, expressions.features)
