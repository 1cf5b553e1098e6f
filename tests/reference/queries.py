"""Random query texts over a world: patterns of up to three edges, blocks, filters, aggregates, order."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.schema.catalog import EdgeType
from tests.reference.worlds import POOLS, World

NUMBERS = ("num", "big", "size", "ratio", "single")
TEXTS = ("word", "color", "name")
SCALARS = (*NUMBERS, *TEXTS, "huge", "flag", "day", "moment")
COMPARISONS = ("=", "!=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Var:
    """A variable while a query is written: what it is and which types it may have."""

    name: str
    kind: str
    types: tuple[str, ...] = ()
    # Whether no other traversal may start here, because it would take types away from the one that found it.
    is_end: bool = False


@dataclass
class BlockText:
    """The clauses of one block. Their order means nothing, so they are written in any."""

    clauses: list[str] = field(default_factory=list)
    inner: list[tuple[str, BlockText]] = field(default_factory=list)

    def render(self) -> str:
        parts = [*self.clauses, *(f"{word} {{ {block.render()} }}" for word, block in self.inner)]
        return "\n    ".join(parts)

    def smaller(self) -> list[BlockText]:
        """The block with one thing less, in every way."""
        found = [BlockText(self.clauses[:at] + self.clauses[at + 1 :], self.inner) for at in range(len(self.clauses))]
        found += [BlockText(self.clauses, self.inner[:at] + self.inner[at + 1 :]) for at in range(len(self.inner))]
        for at, (word, block) in enumerate(self.inner):
            for less in block.smaller():
                found.append(BlockText(self.clauses, [*self.inner[:at], (word, less), *self.inner[at + 1 :]]))
        return found


@dataclass
class QueryText:
    """A query in pieces, so that a failing one can be cut down."""

    block: BlockText
    outputs: list[str]
    tails: list[str]
    distinct: bool
    params: dict[str, tuple[str, Any]]
    features: Counter[str]

    def text(self) -> str:
        body = self.block.render()
        outputs = ", ".join(self.outputs)
        tails = " ".join(self.tails)
        written = f"{body} {outputs} {tails}"
        declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in self.used(written).items())
        head = "return distinct" if self.distinct else "return"
        return f"query q({declared}) {{\n  match {{\n    {body}\n  }}\n  {head} {{ {outputs} }} {tails}\n}}"

    def given(self) -> dict[str, Any]:
        return {name: value for name, (_, value) in self.used(self.text()).items()}

    def used(self, written: str) -> dict[str, tuple[str, Any]]:
        return {name: each for name, each in self.params.items() if f"${name}" in written}

    def smaller(self) -> list[QueryText]:
        """The query with one thing less, in every way."""
        found = [replace(self, block=less) for less in self.block.smaller()]
        if len(self.outputs) > 1:
            found += [
                replace(self, outputs=self.outputs[:at] + self.outputs[at + 1 :]) for at in range(len(self.outputs))
            ]
        found += [replace(self, tails=self.tails[:at] + self.tails[at + 1 :]) for at in range(len(self.tails))]
        return [*found, replace(self, distinct=False)] if self.distinct else found


def make_query(rng: random.Random, world: World) -> QueryText:
    return QueryWriter(rng, world).query()


class QueryWriter:
    """Writes one query."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self.rng = rng
        self.world = world
        self.catalog = world.catalog
        self.params: dict[str, tuple[str, Any]] = {}
        self.features: Counter[str] = Counter()
        self.names = iter("abcdfghijklmorstuvw")
        self.numbers = iter(range(1000))

    def query(self) -> QueryText:
        scope: dict[str, Var] = {}
        block = BlockText()
        self._binding(block, scope)
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3])):
            self._step(block, scope, scope)
        if self._chance(0.08):
            self.features["cross product"] += 1
            self._binding(block, scope)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            self._optional(block, scope, 1)
        for _ in range(self.rng.choice([0, 0, 0, 0, 1, 2])):
            self._negation(block, scope, 1)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            block.clauses.append(self._filter(scope))
        self._shuffle(block)
        outputs, tails, distinct = self._returned(scope)
        return QueryText(block, outputs, tails, distinct, self.params, self.features)

    # --- pattern ------------------------------------------------------------------------------------------------------

    def _binding(self, block: BlockText, scope: dict[str, Var]) -> Var:
        kinds = [*self.catalog.nodes, *(name for name in self.catalog.interfaces if self._chance(0.4))]
        name = self.rng.choice(kinds)
        types = (name,)
        if name in self.catalog.interfaces:
            self.features["interface"] += 1
            types = tuple(each.name for each in self.catalog.implementers(name))
        var = Var(next(self.names), "node", types)
        scope[var.name] = var
        block.clauses.append(f"${var.name}: {name}{self._braces(var)}")
        return var

    def _braces(self, var: Var) -> str:
        properties = [each for each in self._properties(var) if each != "moment"]
        if not properties or not self._chance(0.1):
            return ""
        self.features["inline match"] += 1
        name = self.rng.choice(properties)
        if name in ("tags", "codes"):
            return f" {{ {name}: {self._literal('word' if name == 'tags' else 'num')} }}"
        return f" {{ {name}: {self._literal(name)} }}"

    def _step(self, block: BlockText, scope: dict[str, Var], own: dict[str, Var]) -> bool:
        """One traversal from a variable in scope to a new one, or back to one; `own` are those of the block."""
        edges = list(self.catalog.edges.values())
        nodes = [each for each in scope.values() if each.kind == "node" and not each.is_end]
        self.rng.shuffle(edges)
        self.rng.shuffle(nodes)
        for start in nodes:
            for edge in edges:
                if edge.source in start.types or edge.target in start.types:
                    self._traversal(block, scope, own, start, edge)
                    return True
        return False

    def _traversal(
        self, block: BlockText, scope: dict[str, Var], own: dict[str, Var], start: Var, edge: EdgeType
    ) -> None:
        undirected = edge.source == edge.target and self._chance(0.3)
        start_first = self._chance(0.6)
        alternatives = self._alternatives(edge)
        fan = self._fan(start, edge) if start_first and not undirected else []
        if fan and self._chance(0.3):
            self.features["alternatives to several types"] += 1
            alternatives = [edge, *fan]
        written = "|".join(each.name[0].lower() + each.name[1:] for each in alternatives)
        self._count(undirected=undirected, alternatives=len(alternatives) > 1)
        kind = self.rng.choice(["plain", "plain", "named", "named", "hops", "hops", "open hops", "path"])
        self.features[f"{kind} traversal"] += 1
        hops, name, path = "", "", ""
        if kind == "named":
            edge_var = Var(f"e{next(self.numbers)}", "edge", tuple(each.name for each in alternatives))
            own[edge_var.name] = scope[edge_var.name] = edge_var
            name = f"${edge_var.name}:"
        elif kind != "plain":
            low = self.rng.choice([1, 1, 1, 2])
            high = "" if kind == "open hops" else self._hop(low + self.rng.choice([0, 1, 2]))
            hops = f"{{{self._hop(low)},{high}}}"
        if kind == "path":
            path_var = Var(f"x{next(self.numbers)}", "path")
            own[path_var.name] = scope[path_var.name] = path_var
            path, hops = f"${path_var.name}: shortest ", self.rng.choice(["", hops])
        edges = f"<{written}>" if undirected else written
        targets = tuple(sorted({each.target for each in alternatives}))
        if len(targets) > 1:
            end_var = Var(next(self.names), "node", targets, is_end=True)
            own[end_var.name] = scope[end_var.name] = end_var
            block.clauses.append(f"{path}${start.name} {name}{edges}{hops} ${end_var.name}")
            return
        end = self._end(scope, own, start, edge, start_first, undirected)
        if start.name in own:
            self._narrow(own, scope, start, edge, start_first, undirected)
        left, right = (start.name, end) if start_first else (end, start.name)
        block.clauses.append(f"{path}${left} {name}{edges}{hops} ${right}")
        if end != "_" and self._chance(0.5) and end not in self._declared(block) and end in own:
            block.clauses.append(f"${end}: {own[end].types[0]}{self._braces(own[end])}")

    def _alternatives(self, edge: EdgeType) -> list[EdgeType]:
        """Now and then other edges between the same types as well."""
        same = [e for e in self.catalog.edges.values() if (e.source, e.target) == (edge.source, edge.target)]
        others = [each for each in same if each is not edge]
        return [edge, *self.rng.sample(others, 1)] if others and self._chance(0.3) else [edge]

    def _fan(self, start: Var, edge: EdgeType) -> list[EdgeType]:
        """One more edge that leaves the same type for another one."""
        if start.types != (edge.source,):
            return []
        return [e for e in self.catalog.edges.values() if e.source == edge.source and e.target != edge.target][:1]

    def _end(
        self, scope: dict[str, Var], own: dict[str, Var], start: Var, edge: EdgeType, start_first: bool, both: bool
    ) -> str:
        types = self._other_types(start, edge, start_first, both)
        if self._chance(0.08):
            self.features["anonymous end"] += 1
            return "_"
        known = [each for each in scope.values() if each.kind == "node" and each.types == types]
        single = len(start.types) == 1 and edge.source == edge.target
        if known and single and self._chance(0.12):
            self.features["closing a cycle"] += 1
            return self.rng.choice(known).name
        var = Var(next(self.names), "node", types)
        own[var.name] = scope[var.name] = var
        return var.name

    def _other_types(self, start: Var, edge: EdgeType, start_first: bool, both: bool) -> tuple[str, ...]:
        """What the other end is: an edge is followed out wherever the types allow it."""
        if start_first:
            return (edge.target,) if edge.source in start.types or both else (edge.source,)
        return (edge.source,) if edge.target in start.types or both else (edge.target,)

    def _narrow(
        self, own: dict[str, Var], scope: dict[str, Var], start: Var, edge: EdgeType, start_first: bool, both: bool
    ) -> None:
        other = self._other_types(start, edge, start_first, both)
        mine = edge.source if other == (edge.target,) else edge.target
        if edge.source == edge.target:
            mine = edge.source
        own[start.name] = scope[start.name] = replace(start, types=(mine,))

    def _declared(self, block: BlockText) -> set[str]:
        return {each.partition(":")[0][1:] for each in block.clauses if ": " in each and " shortest " not in each}

    def _optional(self, block: BlockText, scope: dict[str, Var], depth: int) -> None:
        self.features["optional"] += 1
        inner, own, seen = BlockText(), {}, dict(scope)
        if not self._step(inner, seen, own):
            return
        if self._chance(0.2):
            self._step(inner, seen, own)
        if self._chance(0.4):
            inner.clauses.append(self._filter(seen))
        if depth and self._chance(0.2):
            self.features["nested block"] += 1
            self._optional(inner, seen, depth - 1)
        if depth and self._chance(0.2):
            self.features["nested block"] += 1
            self._negation(inner, seen, depth - 1)
        self._shuffle(inner)
        block.inner.append(("optional", inner))
        for name, var in seen.items():
            if name not in scope:
                scope[name] = var

    def _negation(self, block: BlockText, scope: dict[str, Var], depth: int) -> None:
        self.features["not block"] += 1
        inner, own, seen = BlockText(), {}, dict(scope)
        # Inner names are not visible outside, so several blocks use the same ones.
        outside, self.names = self.names, iter("zyxwvutsrq" if depth else "ponmlkjihg")
        if self._chance(0.15):
            var = self._binding(inner, seen)
            outer = self.rng.choice([each for each in scope.values() if each.kind == "node"])
            inner.clauses.append(f"${var.name}.name = ${outer.name}.name")
        elif not self._step(inner, seen, own):
            self.names = outside
            return
        if self._chance(0.25):
            self._step(inner, seen, own)
        if self._chance(0.5):
            inner.clauses.append(self._filter(seen))
        if depth and self._chance(0.25):
            self.features["nested block"] += 1
            self._negation(inner, seen, depth - 1)
        self.names = outside
        self._shuffle(inner)
        block.inner.append(("not", inner))

    def _shuffle(self, block: BlockText) -> None:
        """Clauses in any order, but traversals as they were made: their order decides between types of an interface."""
        steps = iter([each for each in block.clauses if _is_traversal(each)])
        self.rng.shuffle(block.clauses)
        block.clauses[:] = [next(steps) if _is_traversal(each) else each for each in block.clauses]

    def _hop(self, number: int) -> str:
        return self._param("I64", number) if self._chance(0.1) else str(number)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _properties(self, var: Var) -> list[str]:
        if var.kind == "path" or not var.types:
            return []
        owners = self.catalog.edges if var.kind == "edge" else self.catalog.nodes
        sets = [{each.name for each in owners[name].properties} for name in var.types]
        return sorted(set.intersection(*sets))

    def _refs(self, scope: dict[str, Var], wanted: tuple[str, ...]) -> list[str]:
        """`$var.property` of everything in scope whose property is among the wanted."""
        return [f"${v.name}.{name}" for v in scope.values() for name in self._properties(v) if name in wanted]

    def _filter(self, scope: dict[str, Var]) -> str:
        self.features["filter"] += 1
        return self._boolean(scope, 2)

    def _boolean(self, scope: dict[str, Var], depth: int) -> str:
        choice = self.rng.random()
        if depth and choice < 0.15:
            self.features["or"] += 1
            return f"({self._boolean(scope, depth - 1)} or {self._boolean(scope, depth - 1)})"
        if depth and choice < 0.25:
            return f"({self._boolean(scope, depth - 1)} and {self._boolean(scope, depth - 1)})"
        if depth and choice < 0.4:
            self.features["not expression"] += 1
            return f"not ({self._boolean(scope, depth - 1)})"
        makers = [self._comparison, self._comparison, self._null_test, self._membership, self._text_test, self._flag]
        self.rng.shuffle(makers)
        return next(text for text in (maker(scope) for maker in [*makers, self._id_comparison]) if text)

    def _comparison(self, scope: dict[str, Var]) -> str | None:
        refs = self._refs(scope, SCALARS)
        if not refs:
            return None
        op = self.rng.choice(COMPARISONS)
        left = self.rng.choice(refs)
        kind = left.rpartition(".")[2]
        if kind in NUMBERS:
            return f"{self._number(scope, 1)} {op} {self._number(scope, 1)}"
        others = self._refs(scope, TEXTS if kind in TEXTS else (kind,))
        if self._chance(0.3):
            self.features["cross-variable comparison"] += 1
            return f"{left} {op} {self.rng.choice(others)}"
        return f"{left} {op} {self._literal(kind)}"

    def _id_comparison(self, scope: dict[str, Var]) -> str:
        refs = [f"${each.name}.@id" for each in scope.values() if each.kind != "path"]
        return f"{self.rng.choice(refs)} {self.rng.choice(COMPARISONS)} {self._literal('name')}"

    def _null_test(self, scope: dict[str, Var]) -> str | None:
        refs = self._refs(scope, tuple(POOLS)) + [f"${each.name}" for each in scope.values() if each.kind == "node"]
        self.features["is null"] += bool(refs)
        return f"{self.rng.choice(refs)} is {self.rng.choice(['', 'not '])}null" if refs else None

    def _membership(self, scope: dict[str, Var]) -> str | None:
        self.features["membership"] += 1
        lists = self._refs(scope, ("tags", "codes"))
        if lists and self._chance(0.6):
            found = self.rng.choice(lists)
            kind = "word" if found.endswith("tags") else "num"
            others = self._refs(scope, (kind,))
            item = self.rng.choice(others) if others and self._chance(0.4) else self._literal(kind)
            return self.rng.choice([f"{found} contains {item}", f"{item} in {found}"])
        refs = self._refs(scope, ("num", "big", "size", "ratio", "word", "day", "name"))
        if not refs:
            return None
        found = self.rng.choice(refs)
        kind = found.rpartition(".")[2]
        values = self.rng.sample(self._pool(kind), self.rng.randint(0, 3))
        if self._chance(0.3):
            scalar = "String" if kind == "name" else POOLS[kind][0]
            return f"{found} in {self._param(f'[{scalar}]', values)}"
        return f"{found} in [{', '.join(_written(each) for each in values)}]"

    def _text_test(self, scope: dict[str, Var]) -> str | None:
        refs = self._refs(scope, TEXTS)
        if not refs:
            return None
        self.features["text test"] += 1
        op = self.rng.choice(["contains", "starts_with"])
        needle = self.rng.choice([*refs, '"a"', '"alp"', '"%"', '"n"', '""', '"ta"'])
        return f"{self.rng.choice(refs)} {op} {needle}"

    def _flag(self, scope: dict[str, Var]) -> str | None:
        refs = self._refs(scope, ("flag",))
        if not refs:
            return None
        self.features["bare flag"] += 1
        return self.rng.choice([self.rng.choice(refs), f"not {self.rng.choice(refs)}"])

    def _number(self, scope: dict[str, Var], depth: int) -> str:
        refs = self._refs(scope, NUMBERS) + [f"length(${each.name})" for each in scope.values() if each.kind == "path"]
        if depth and refs and self._chance(0.5):
            self.features["arithmetic"] += 1
            left, right = self._number(scope, depth - 1), self._number(scope, depth - 1)
            return self.rng.choice([
                f"({left} + {right})",
                f"({left} - {right})",
                f"{left} * {self.rng.choice(['2', '0.5', '(-1)'])}",
                f"{left} / {self.rng.choice(['2', '3', '0.5', '(-2)'])}",
                f"{left} % {self.rng.choice(['2', '3', '(-2)'])}",
                f"(-{self.rng.choice(refs)})",
            ])  # fmt: skip
        if refs and self._chance(0.7):
            return self.rng.choice(refs)
        return self._literal(self.rng.choice(["num", "num", "ratio"]))

    def _pool(self, kind: str) -> list[Any]:
        return ["n0", "n1", "n2", "n3", "none"] if kind == "name" else POOLS[kind][1]

    def _literal(self, kind: str) -> str:
        value = self.rng.choice(self._pool(kind))
        if self._chance(0.2):
            scalar = "String" if kind in TEXTS else POOLS[kind][0]
            if self._chance(0.1):
                return self._param(f"{scalar}?", None)
            return self._param(scalar, value)
        return _written(value)

    def _param(self, kind: str, value: Any) -> str:
        name = f"k{next(self.numbers)}k"
        self.features["parameter"] += 1
        self.params[name] = (kind, value)
        return f"${name}"

    # --- what is returned ---------------------------------------------------------------------------------------------

    def _returned(self, scope: dict[str, Var]) -> tuple[list[str], list[str], bool]:
        if self._chance(0.35):
            return self._aggregated(scope)
        distinct = self._chance(0.2)
        outputs, sortable, whole = [], [], True
        for index in range(self.rng.randint(1, 3)):
            text, is_scalar = self._column(scope)
            name = f"c{index}"
            outputs.append(f"{text} as {name}")
            sortable += [name] if is_scalar else []
            whole = whole and is_scalar
        self._count(distinct=distinct)
        if distinct:
            keys = sortable if whole else []
        else:
            keys = [*sortable, *self._refs(scope, SCALARS)]
            keys = self.rng.sample(keys, min(len(keys), self.rng.randint(1, 2)))
        return outputs, self._tail(keys, must_cut_whole=distinct), distinct

    def _column(self, scope: dict[str, Var]) -> tuple[str, bool]:
        """An expression to return, and whether it can be ordered by."""
        refs = self._refs(scope, (*POOLS, "name"))
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
            return self._number(scope, 2), True
        if choice < 0.68:
            self.features["returned test"] += 1
            return self._boolean(scope, 2), True
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
        if counts and self._chance(0.3):
            self.features["having"] += 1
            tails.append(f"having {{ {counts[0]} {self.rng.choice(['>', '>=', '<', '='])} {self.rng.randint(0, 3)} }}")
        distinct = not keys and self._chance(0.1)
        order = []
        if all(is_scalar for _, is_scalar in keys):
            order = [name for name, _ in keys]
            order += [name for name, _, is_scalar in values if is_scalar and self._chance(0.5)]
            self.rng.shuffle(order)
            if not keys:
                order = []
        return outputs, [*tails, *self._tail(order, must_cut_whole=True)], distinct

    def _reads_row(self, text: str) -> bool:
        """A constant, with parameters or not, is no group."""
        return any(f"${name}" in text for name in self.params) is False and "$" in text

    def _aggregate(self, scope: dict[str, Var]) -> tuple[str, bool]:
        choice = self.rng.random()
        distinct = "distinct " if self._chance(0.3) else ""
        numbers, texts = self._refs(scope, NUMBERS), self._refs(scope, TEXTS)
        if choice < 0.2:
            self.features["count(*)"] += 1
            return "count(*)", True
        if choice < 0.4:
            nodes = [each.name for each in scope.values() if each.kind == "node" and len(each.types) == 1]
            self.features["count($node)"] += 1
            if nodes:
                return f"count({distinct}${self.rng.choice(nodes)})", True
        if choice < 0.55 or not numbers:
            if not texts or self._chance(0.5):
                self.features["count(value)"] += 1
                return f"count({distinct}{self.rng.choice(self._refs(scope, (*SCALARS, 'tags')))})", True
            function = self.rng.choice(["min", "max", "collect"])
            self.features[function] += 1
            return f"{function}({distinct}{self.rng.choice(texts)})", function != "collect"
        function = self.rng.choice(["sum", "avg", "min", "max", "collect"])
        self.features[function] += 1
        return f"{function}({distinct}{self.rng.choice(numbers)})", function != "collect"

    def _tail(self, keys: list[str], *, must_cut_whole: bool) -> list[str]:
        """Order by the keys, and cut. What is grouped or distinct is cut only when its order leaves no ties."""
        tails = []
        if keys and self._chance(0.6):
            self.features["order"] += 1
            written = ", ".join(f"{key}{self.rng.choice(['', ' asc', ' desc'])}" for key in keys)
            tails.append(f"order {{ {written} }}")
        if must_cut_whole and not tails:
            return tails
        for word in ("limit", "offset"):
            if self._chance(0.3):
                self.features[word] += 1
                number = self.rng.choice([0, 1, 2, 3, 5, 8]) if word == "limit" else self.rng.randint(0, 2)
                tails.append(f"{word} {self._param('I64', number) if self._chance(0.3) else number}")
        self.rng.shuffle(tails)
        return tails

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _count(self, **found: bool) -> None:
        for name, is_there in found.items():
            if is_there:
                self.features[name] += 1


def _is_traversal(clause: str) -> bool:
    return re.match(r"(\$\w+: shortest )?\$\w+ (\$\w+:)?<?[a-z]+[a-z|]*>?(\{.*\})? \$\w+$", clause) is not None


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
