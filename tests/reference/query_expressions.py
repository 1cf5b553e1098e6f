"""Random expressions over the variables of a query: tests, numbers, literals, parameters."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from collections import Counter
from typing import Any

from tests.reference.query_text import Var
from tests.reference.worlds import POOLS, World

NUMBERS = ("num", "big", "size", "ratio", "single")
TEXTS = ("word", "color", "name")
SCALARS = (*NUMBERS, *TEXTS, "huge", "flag", "day", "moment")
COMPARISONS = ("=", "!=", "!=", "<", "<=", ">", ">=")


class Expressions:
    """Writes the expressions of one query, and keeps its parameters and what it has of the language."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self.rng = rng
        self.catalog = world.catalog
        self.params: dict[str, tuple[str, Any]] = {}
        self.features: Counter[str] = Counter()
        self.numbers = iter(range(1000))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def count(self, **found: bool) -> None:
        for name, is_there in found.items():
            if is_there:
                self.features[name] += 1

    def properties(self, var: Var) -> list[str]:
        if var.kind == "path" or not var.types:
            return []
        owners = self.catalog.edges if var.kind == "edge" else self.catalog.nodes
        sets = [{each.name for each in owners[name].properties} for name in var.types]
        return sorted(set.intersection(*sets))

    def refs(self, scope: dict[str, Var], wanted: tuple[str, ...]) -> list[str]:
        """`$var.property` of everything in scope whose property is among the wanted."""
        return [f"${v.name}.{name}" for v in scope.values() for name in self.properties(v) if name in wanted]

    def filter(self, scope: dict[str, Var]) -> str:
        self.features["filter"] += 1
        return self.boolean(scope, 2)

    def boolean(self, scope: dict[str, Var], depth: int) -> str:
        choice = self.rng.random()
        if depth and choice < 0.15:
            self.features["or"] += 1
            return f"({self.boolean(scope, depth - 1)} or {self.boolean(scope, depth - 1)})"
        if depth and choice < 0.25:
            return f"({self.boolean(scope, depth - 1)} and {self.boolean(scope, depth - 1)})"
        if depth and choice < 0.4:
            self.features["not expression"] += 1
            return f"not ({self.boolean(scope, depth - 1)})"
        makers = [self._comparison, self._comparison, self._null_test, self._membership, self._text_test, self._flag]
        self.rng.shuffle(makers)
        return next(text for text in (maker(scope) for maker in [*makers, self._id_comparison]) if text)

    def _comparison(self, scope: dict[str, Var]) -> str | None:
        refs = self.refs(scope, SCALARS)
        if not refs:
            return None
        op = self.rng.choice(COMPARISONS)
        left = self.rng.choice(refs)
        kind = left.rpartition(".")[2]
        if kind in NUMBERS:
            return f"{self.number(scope, 1)} {op} {self.number(scope, 1)}"
        others = self.refs(scope, TEXTS if kind in TEXTS else (kind,))
        if self.chance(0.3):
            self.features["cross-variable comparison"] += 1
            return f"{left} {op} {self.rng.choice(others)}"
        return f"{left} {op} {self.literal(kind)}"

    def _id_comparison(self, scope: dict[str, Var]) -> str:
        refs = [f"${each.name}.@id" for each in scope.values() if each.kind != "path"]
        return f"{self.rng.choice(refs)} {self.rng.choice(COMPARISONS)} {self.literal('name')}"

    def _null_test(self, scope: dict[str, Var]) -> str | None:
        refs = self.refs(scope, tuple(POOLS)) + [f"${each.name}" for each in scope.values() if each.kind == "node"]
        self.features["is null"] += bool(refs)
        return f"{self.rng.choice(refs)} is {self.rng.choice(['', 'not '])}null" if refs else None

    def _membership(self, scope: dict[str, Var]) -> str | None:
        self.features["membership"] += 1
        lists = self.refs(scope, ("tags", "codes"))
        if lists and self.chance(0.6):
            found = self.rng.choice(lists)
            kind = "word" if found.endswith("tags") else "num"
            others = self.refs(scope, (kind,))
            item = self.rng.choice(others) if others and self.chance(0.4) else self.literal(kind)
            return self.rng.choice([f"{found} contains {item}", f"{item} in {found}"])
        refs = self.refs(scope, ("num", "big", "size", "ratio", "word", "day", "name"))
        if not refs:
            return None
        found = self.rng.choice(refs)
        kind = found.rpartition(".")[2]
        values = self.rng.sample(self._pool(kind), self.rng.randint(0, 3))
        if self.chance(0.3):
            scalar = "String" if kind == "name" else POOLS[kind][0]
            return f"{found} in {self.param(f'[{scalar}]', values)}"
        return f"{found} in [{', '.join(_written(each) for each in values)}]"

    def _text_test(self, scope: dict[str, Var]) -> str | None:
        refs = self.refs(scope, TEXTS)
        if not refs:
            return None
        self.features["text test"] += 1
        op = self.rng.choice(["contains", "starts_with"])
        needle = self.rng.choice([*refs, '"a"', '"alp"', '"%"', '"n"', '""', '"ta"'])
        return f"{self.rng.choice(refs)} {op} {needle}"

    def _flag(self, scope: dict[str, Var]) -> str | None:
        refs = self.refs(scope, ("flag",))
        if not refs:
            return None
        self.features["bare flag"] += 1
        return self.rng.choice([self.rng.choice(refs), f"not {self.rng.choice(refs)}"])

    def number(self, scope: dict[str, Var], depth: int) -> str:
        refs = self.refs(scope, NUMBERS) + [f"length(${each.name})" for each in scope.values() if each.kind == "path"]
        if depth and refs and self.chance(0.5):
            self.features["arithmetic"] += 1
            left, right = self.number(scope, depth - 1), self.number(scope, depth - 1)
            return self.rng.choice([
                f"({left} + {right})",
                f"({left} - {right})",
                f"{left} * {self.rng.choice(['2', '0.5', '(-1)'])}",
                f"{left} / {self.rng.choice(['2', '3', '0.5', '(-2)'])}",
                f"{left} % {self.rng.choice(['2', '3', '(-2)'])}",
                f"(-{self.rng.choice(refs)})",
            ])  # fmt: skip
        if refs and self.chance(0.7):
            return self.rng.choice(refs)
        return self.literal(self.rng.choice(["num", "num", "ratio"]))

    def _pool(self, kind: str) -> list[Any]:
        return ["n0", "n1", "n2", "n3", "none"] if kind == "name" else POOLS[kind][1]

    def literal(self, kind: str) -> str:
        value = self.rng.choice(self._pool(kind))
        if self.chance(0.2):
            scalar = "String" if kind in TEXTS else POOLS[kind][0]
            if self.chance(0.1):
                return self.param(f"{scalar}?", None)
            return self.param(scalar, value)
        return _written(value)

    def param(self, kind: str, value: Any) -> str:
        name = f"k{next(self.numbers)}k"
        self.features["parameter"] += 1
        self.params[name] = (kind, value)
        return f"${name}"


def _written(value: Any) -> str:
    """A value as a literal of the language."""
    match value:
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return f'datetime("{value.isoformat()}")'
        case dt.date():
            return f'date("{value.isoformat()}")'
        case str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float() if math.copysign(1, value) < 0:
            return f"(-{abs(value)})"
        case _:
            return str(value)
