"""Random patterns: bindings, traversals, `optional` and `not` blocks."""

from __future__ import annotations

import re
from dataclasses import replace

from omnigraph.schema.catalog import EdgeType
from tests.reference.query_expressions import Expressions
from tests.reference.query_text import BlockText, Var


class Patterns:
    """Writes the clauses of one query."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self.rng = expressions.rng
        self.catalog = expressions.catalog
        self.features = expressions.features
        self.numbers = expressions.numbers
        self.names = iter("abcdfghijklmorstuvw")

    def match(self) -> tuple[BlockText, dict[str, Var]]:
        """What is matched, and the variables that are seen by what is returned."""
        scope: dict[str, Var] = {}
        block = BlockText()
        self._binding(block, scope)
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3])):
            self._step(block, scope, scope)
        if self._expressions.chance(0.08):
            self.features["cross product"] += 1
            self._binding(block, scope)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            self._optional(block, scope, 1)
        for _ in range(self.rng.choice([0, 0, 0, 0, 1, 2])):
            self._negation(block, scope, 1)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            block.clauses.append(self._expressions.filter(scope))
        self._shuffle(block)
        return block, scope

    def _binding(self, block: BlockText, scope: dict[str, Var]) -> Var:
        kinds = [*self.catalog.nodes, *(name for name in self.catalog.interfaces if self._expressions.chance(0.4))]
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
        properties = [each for each in self._expressions.properties(var) if each != "moment"]
        if not properties or not self._expressions.chance(0.1):
            return ""
        self.features["inline match"] += 1
        name = self.rng.choice(properties)
        if name in ("tags", "codes"):
            return f" {{ {name}: {self._expressions.literal('word' if name == 'tags' else 'num')} }}"
        return f" {{ {name}: {self._expressions.literal(name)} }}"

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
        undirected = edge.source == edge.target and self._expressions.chance(0.3)
        start_first = self._expressions.chance(0.6)
        alternatives = self._alternatives(edge)
        fan = self._fan(start, edge) if start_first and not undirected else []
        if fan and self._expressions.chance(0.3):
            self.features["alternatives to several types"] += 1
            alternatives = [edge, *fan]
        written = "|".join(each.name[0].lower() + each.name[1:] for each in alternatives)
        self._expressions.count(undirected=undirected, alternatives=len(alternatives) > 1)
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
        if end != "_" and self._expressions.chance(0.5) and end not in self._declared(block) and end in own:
            block.clauses.append(f"${end}: {own[end].types[0]}{self._braces(own[end])}")

    def _alternatives(self, edge: EdgeType) -> list[EdgeType]:
        """Now and then other edges between the same types as well."""
        same = [e for e in self.catalog.edges.values() if (e.source, e.target) == (edge.source, edge.target)]
        others = [each for each in same if each is not edge]
        return [edge, *self.rng.sample(others, 1)] if others and self._expressions.chance(0.3) else [edge]

    def _fan(self, start: Var, edge: EdgeType) -> list[EdgeType]:
        """One more edge that leaves the same type for another one."""
        if start.types != (edge.source,):
            return []
        return [e for e in self.catalog.edges.values() if e.source == edge.source and e.target != edge.target][:1]

    def _end(
        self, scope: dict[str, Var], own: dict[str, Var], start: Var, edge: EdgeType, start_first: bool, both: bool
    ) -> str:
        types = self._other_types(start, edge, start_first, both)
        if self._expressions.chance(0.08):
            self.features["anonymous end"] += 1
            return "_"
        known = [each for each in scope.values() if each.kind == "node" and each.types == types]
        single = len(start.types) == 1 and edge.source == edge.target
        if known and single and self._expressions.chance(0.12):
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
        if self._expressions.chance(0.2):
            self._step(inner, seen, own)
        if self._expressions.chance(0.4):
            inner.clauses.append(self._expressions.filter(seen))
        if depth and self._expressions.chance(0.2):
            self.features["nested block"] += 1
            self._optional(inner, seen, depth - 1)
        if depth and self._expressions.chance(0.2):
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
        if self._expressions.chance(0.15):
            var = self._binding(inner, seen)
            outer = self.rng.choice([each for each in scope.values() if each.kind == "node"])
            inner.clauses.append(f"${var.name}.name = ${outer.name}.name")
        elif not self._step(inner, seen, own):
            self.names = outside
            return
        if self._expressions.chance(0.25):
            self._step(inner, seen, own)
        if self._expressions.chance(0.5):
            inner.clauses.append(self._expressions.filter(seen))
        if depth and self._expressions.chance(0.25):
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
        return self._expressions.param("I64", number) if self._expressions.chance(0.1) else str(number)


def _is_traversal(clause: str) -> bool:
    return re.match(r"(\$\w+: shortest )?\$\w+ (\$\w+:)?<?[a-z]+[a-z|]*>?(\{.*\})? \$\w+$", clause) is not None
