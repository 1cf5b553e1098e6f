"""Random results: columns, aggregates, order and cuts."""

from __future__ import annotations

from tests.reference.query_expressions import NUMBERS, SCALARS, TEXTS, Expressions
from tests.reference.query_text import Var
from tests.reference.worlds import POOLS


class Outputs:
    """Writes what one query returns."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self.rng = expressions.rng
        self.params = expressions.params
        self.features = expressions.features

    def returned(self, scope: dict[str, Var]) -> tuple[list[str], list[str], bool]:
        """The columns, what follows the return, and whether it is distinct."""
        if self._expressions.chance(0.35):
            return self._aggregated(scope)
        distinct = self._expressions.chance(0.2)
        outputs, sortable, whole = [], [], True
        for index in range(self.rng.randint(1, 3)):
            text, is_scalar = self._column(scope)
            name = f"c{index}"
            outputs.append(f"{text} as {name}")
            sortable += [name] if is_scalar else []
            whole = whole and is_scalar
        self._expressions.count(distinct=distinct)
        if distinct:
            keys = sortable if whole else []
        else:
            keys = [*sortable, *self._expressions.refs(scope, SCALARS)]
            keys = self.rng.sample(keys, min(len(keys), self.rng.randint(1, 2)))
        return outputs, self._tail(keys, must_cut_whole=distinct), distinct

    def _column(self, scope: dict[str, Var]) -> tuple[str, bool]:
        """An expression to return, and whether it can be ordered by."""
        refs = self._expressions.refs(scope, (*POOLS, "name"))
        nodes = [each.name for each in scope.values() if each.kind == "node"]
        paths = [each.name for each in scope.values() if each.kind == "path"]
        choice = self.rng.random()
        if paths and choice < 0.3:
            function = self.rng.choice(["length", "nodes"])
            self.features[f"{function}($path)"] += 1
            return f"{function}(${self.rng.choice(paths)})", function == "length"
        if choice < 0.15:
            self.features["whole node"] += 1
            return f"${self.rng.choice(nodes)}", False
        if choice < 0.35:
            ids = [each.name for each in scope.values() if each.kind != "path"]
            return f"${self.rng.choice(ids)}.@id", True
        if choice < 0.5:
            return self._expressions.number(scope, 2), True
        if choice < 0.68:
            self.features["returned test"] += 1
            return self._expressions.boolean(scope, 2), True
        ref = self.rng.choice(refs)
        return ref, not ref.endswith(("tags", "codes"))

    def _aggregated(self, scope: dict[str, Var]) -> tuple[list[str], list[str], bool]:
        self.features["aggregate query"] += 1
        keys, outputs = [], []
        for index in range(self.rng.choice([0, 1, 1, 2])):
            text, is_scalar = self._column(scope)
            while "nodes(" in text or text.startswith("nodes") or not self._reads_row(text):
                text, is_scalar = self._column(scope)
            outputs.append(f"{text} as g{index}")
            keys.append((f"g{index}", is_scalar))
        values = [(f"m{index}", *self._aggregate(scope)) for index in range(self.rng.randint(1, 3))]
        outputs += [f"{text} as {name}" for name, text, _ in values]
        tails = []
        counts = [name for name, text, _ in values if text.startswith("count")]
        if counts and self._expressions.chance(0.3):
            self.features["having"] += 1
            tails.append(f"having {{ {counts[0]} {self.rng.choice(['>', '>=', '<', '='])} {self.rng.randint(0, 3)} }}")
        distinct = not keys and self._expressions.chance(0.1)
        order = []
        if all(is_scalar for _, is_scalar in keys):
            order = [name for name, _ in keys]
            order += [name for name, _, is_scalar in values if is_scalar and self._expressions.chance(0.5)]
            self.rng.shuffle(order)
            if not keys:
                order = []
        return outputs, [*tails, *self._tail(order, must_cut_whole=True)], distinct

    def _reads_row(self, text: str) -> bool:
        """A constant, with parameters or not, is no group."""
        return any(f"${name}" in text for name in self.params) is False and "$" in text

    def _aggregate(self, scope: dict[str, Var]) -> tuple[str, bool]:
        choice = self.rng.random()
        distinct = "distinct " if self._expressions.chance(0.3) else ""
        numbers, texts = self._expressions.refs(scope, NUMBERS), self._expressions.refs(scope, TEXTS)
        if choice < 0.2:
            self.features["count(*)"] += 1
            return "count(*)", True
        if choice < 0.4:
            nodes = [each.name for each in scope.values() if each.kind == "node" and len(each.types) == 1]
            self.features["count($node)"] += 1
            if nodes:
                return f"count({distinct}${self.rng.choice(nodes)})", True
        if choice < 0.55 or not numbers:
            if not texts or self._expressions.chance(0.5):
                self.features["count(value)"] += 1
                return f"count({distinct}{self.rng.choice(self._expressions.refs(scope, (*SCALARS, 'tags')))})", True
            function = self.rng.choice(["min", "max", "collect"])
            self.features[function] += 1
            return f"{function}({distinct}{self.rng.choice(texts)})", function != "collect"
        function = self.rng.choice(["sum", "avg", "min", "max", "collect"])
        self.features[function] += 1
        return f"{function}({distinct}{self.rng.choice(numbers)})", function != "collect"

    def _tail(self, keys: list[str], *, must_cut_whole: bool) -> list[str]:
        """Order by the keys, and cut. What is grouped or distinct is cut only when its order leaves no ties."""
        tails = []
        if keys and self._expressions.chance(0.6):
            self.features["order"] += 1
            written = ", ".join(f"{key}{self.rng.choice(['', ' asc', ' desc'])}" for key in keys)
            tails.append(f"order {{ {written} }}")
        if must_cut_whole and not tails:
            return tails
        for word in ("limit", "offset"):
            if self._expressions.chance(0.3):
                self.features[word] += 1
                number = self.rng.choice([0, 1, 2, 3, 5, 8]) if word == "limit" else self.rng.randint(0, 2)
                tails.append(
                    f"{word} {self._expressions.param('I64', number) if self._expressions.chance(0.3) else number}"
                )
        self.rng.shuffle(tails)
        return tails
