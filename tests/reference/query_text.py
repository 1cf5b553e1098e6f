"""A random query in pieces: what is written, and how it is cut down when it fails."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any


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
