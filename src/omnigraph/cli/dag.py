r"""Draw the commit graph: commits in, rows of text out. Pure, so tests need no graph on disk.

Newest first, one column per open line of history. `*` is a commit, `|` a line that goes on; `|/` joins a line to the
one it was forked from, `|\` opens the second parent of a merge. Only ASCII: the picture is the same in every terminal,
file and diff.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

COMMIT, LINE, JOIN, OPEN, OVER, GAP = "*", "|", "/", "\\", "_", " "


@dataclass(frozen=True, slots=True)
class Node:
    """A commit with the fields that the picture needs. `order` is its time; `parents` has the first parent first."""

    id: str
    parents: tuple[str, ...] = ()
    order: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the picture. Rows between commits have no `id`."""

    drawing: str
    id: str | None = None


def newest_first(nodes: Iterable[Node]) -> list[Node]:
    """Sort by time, but no commit before one of its children (clocks of several machines may disagree)."""
    known = {node.id: node for node in nodes}
    waiting_for = dict.fromkeys(known, 0)
    for node in known.values():
        for parent in set(node.parents) & known.keys():
            waiting_for[parent] += 1
    ready = [_Newest(known[name]) for name, children in waiting_for.items() if children == 0]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        node = heapq.heappop(ready).node
        ordered.append(node)
        for parent in set(node.parents) & known.keys():
            waiting_for[parent] -= 1
            if waiting_for[parent] == 0:
                heapq.heappush(ready, _Newest(known[parent]))
    return ordered


def without(nodes: Sequence[Node], hidden: Collection[str]) -> tuple[list[Node], dict[str, str]]:
    """Leave some commits out and connect their children to the nearest shown ancestors.

    Also returns, for every hidden commit, the shown one that represents it. Merges are never hidden: that would lose
    one of their parents.
    """
    gone = {node.id: node for node in nodes if node.id in hidden and len(node.parents) < 2}

    def shown(name: str) -> str | None:
        while name in gone:
            parents = gone[name].parents
            if not parents:
                return None
            name = parents[0]
        return name

    kept = []
    for node in nodes:
        if node.id not in gone:
            parents = [shown(parent) for parent in node.parents]
            kept.append(Node(node.id, tuple(dict.fromkeys(p for p in parents if p is not None)), node.order))
    stands_in = {name: other for name in gone if (other := shown(name)) is not None}
    return kept, stands_in


def draw(nodes: Iterable[Node]) -> list[Row]:
    """Draw a commit graph.

    >>> for row in draw([Node("c", ("a",), 3), Node("b", ("a",), 2), Node("a", (), 1)]):
    ...     print(f"{row.drawing} {row.id or ''}".rstrip())
    * c
    | * b
    |/
    * a
    """
    picture = _Picture()
    for node in newest_first(nodes):
        picture.add(node)
    return picture.rows


@dataclass(frozen=True, slots=True)
class _Newest:
    """Sorts a heap newest first; ids break ties so that the picture is the same every time."""

    node: Node

    def __lt__(self, other: _Newest) -> bool:
        return (self.node.order, self.node.id) > (other.node.order, other.node.id)


class _Picture:
    """Lanes are columns; each open one holds the id of the commit it will reach. A freed column is used again."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._lanes: list[str | None] = []

    def add(self, node: Node) -> None:
        """Draw a commit and what connects it to the lanes of its parents."""
        at = self._lane_for(node.id)
        self._lanes[at] = node.id
        self.rows.append(Row(self._cells({2 * at: COMMIT}), node.id))
        self._lanes[at] = None
        first, *others = node.parents or (None,)
        if first is not None:
            # A lane that leads to the first parent already is joined below; until then both are open.
            meets = self._lanes.index(first) if first in self._lanes else None
            self._lanes[at] = first
            for parent in others:
                if parent is not None and parent != first:
                    self._open(at, parent)
            if meets is not None:
                self._join(at, meets)
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()

    def _lane_for(self, name: str, after: int = -1) -> int:
        """Return the lane of a commit, or a free one to the right of `after`."""
        if name in self._lanes:
            return self._lanes.index(name)
        for at in range(after + 1, len(self._lanes)):
            if self._lanes[at] is None:
                return at
        self._lanes.append(None)
        return len(self._lanes) - 1

    def _open(self, at: int, parent: str) -> None:
        """Connect a merge to the lane of another parent, which stays or becomes open."""
        to = self._lane_for(parent, after=at)
        if to > at:
            self._slant_right(at, to)
        else:
            self._slant_left(at, to)
        self._lanes[to] = parent

    def _join(self, at: int, meets: int) -> None:
        """Join two lanes that lead to one commit: the right one ends in the left one."""
        left, right = sorted((at, meets))
        name, self._lanes[right] = self._lanes[right], None
        self._slant_left(right, left)
        self._lanes[left] = name

    def _slant_left(self, start: int, end: int) -> None:
        if start - end == 1:
            self._connect({2 * start - 1: JOIN})
            return
        self._connect({2 * start - 1: JOIN} | self._over(2 * end + 2, 2 * start - 1))
        self._connect({2 * end + 1: JOIN})

    def _slant_right(self, start: int, end: int) -> None:
        if end - start == 1:
            self._connect({2 * start + 1: OPEN})
            return
        self._connect({2 * start + 1: OPEN} | self._over(2 * start + 2, 2 * end - 1))
        self._connect({2 * end - 1: OPEN})

    def _over(self, begin: int, end: int) -> dict[int, str]:
        """Draw a horizontal line behind the lanes it crosses."""
        crossed = {2 * at for at, lane in enumerate(self._lanes) if lane is not None}
        return {column: OVER for column in range(begin, end) if column not in crossed}

    def _connect(self, marks: Mapping[int, str]) -> None:
        self.rows.append(Row(self._cells(marks)))

    def _cells(self, marks: Mapping[int, str]) -> str:
        cells = [GAP] * (2 * len(self._lanes))
        for at, lane in enumerate(self._lanes):
            if lane is not None:
                cells[2 * at] = LINE
        for column, mark in marks.items():
            cells[column] = mark
        return "".join(cells).rstrip()
