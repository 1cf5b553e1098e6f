"""The picture of the commit graph, on graphs drawn on paper."""

from __future__ import annotations

import random
from textwrap import dedent

import pytest

from omnigraph.cli.dag import Node, draw, newest_first, without


def paper(text: str) -> list[Node]:
    """`c:b,x b:a a` is three commits, newest first, with their parents."""
    words = text.split()
    nodes = []
    for at, word in enumerate(words):
        name, _, parents = word.partition(":")
        nodes.append(Node(name, tuple(p for p in parents.split(",") if p), len(words) - at))
    return nodes


def picture(nodes: list[Node]) -> str:
    return "\n".join(f"{row.drawing} {row.id or ''}".rstrip() for row in draw(nodes))


PICTURES = {
    "empty": ("", ""),
    "linear": (
        "c:b b:a a",
        """\
        * c
        * b
        * a""",
    ),
    "fork": (
        "m2:m1 x1:m1 m1:a a",
        """\
        * m2
        | * x1
        |/
        * m1
        * a""",
    ),
    "forks from forks": (
        "z1:y1 y2:y1 x2:x1 y1:x1 x1:m1 m2:m1 m1:a a",
        """\
        * z1
        | * y2
        |/
        | * x2
        * | y1
        |/
        * x1
        | * m2
        |/
        * m1
        * a""",
    ),
    "merge": (
        "M:m2,x2 x2:x1 m2:m1 x1:m1 m1",
        """\
        * M
        |\\
        | * x2
        * | m2
        | * x1
        |/
        * m1""",
    ),
    "a branch goes on after it was merged": (
        "x3:x2 M:m1,x2 x2:x1 m1:r x1:r r",
        """\
        * x3
        | * M
        |/|
        * | x2
        | * m1
        * | x1
        |/
        * r""",
    ),
    "criss-cross": (
        "A2:A1,B1 B2:B1,A1 A1:r B1:r r",
        """\
        * A2
        |\\
        | | * B2
        | |/|
        |/| |
        | |/
        * | A1
        | * B1
        |/
        * r""",
    ),
    "criss-cross, then merged": (
        "M:A2,B2 A2:A1,B1 B2:B1,A1 A1:r B1:r r",
        """\
        * M
        |\\
        * | A2
        |\\|
        | |\\
        | * | B2
        |/| |
        | |/
        * | A1
        | * B1
        |/
        * r""",
    ),
    "eight branches of one commit": (
        "h:r g:r f:r e:r d:r c:r b:r a:r r",
        """\
        * h
        | * g
        |/
        | * f
        |/
        | * e
        |/
        | * d
        |/
        | * c
        |/
        | * b
        |/
        | * a
        |/
        * r""",
    ),
    "eight branches side by side": (
        "a2:a1 b2:b1 c2:c1 d2:d1 e2:e1 f2:f1 g2:g1 h2:a1 a1:r b1:r c1:r d1:r e1:r f1:r g1:r r",
        """\
        * a2
        | * b2
        | | * c2
        | | | * d2
        | | | | * e2
        | | | | | * f2
        | | | | | | * g2
        | | | | | | | * h2
        | |_|_|_|_|_|/
        |/| | | | | |
        * | | | | | | a1
        | * | | | | | b1
        |/  | | | | |
        |   * | | | | c1
        | _/  | | | |
        |/    | | | |
        |     * | | | d1
        | ___/  | | |
        |/      | | |
        |       * | | e1
        | _____/  | |
        |/        | |
        |         * | f1
        | _______/  |
        |/          |
        |           * g1
        | _________/
        |/
        * r""",
    ),
    "a merge reaches over lanes to the right": (
        "m2:M a2:a1 b2:b1 c2:c1 M:m1,c1 a1:r b1:r c1:r m1:r r",
        """\
        * m2
        | * a2
        | | * b2
        | | | * c2
        * | | | M
        |\\|_| |
        | | |\\|
        | * | | a1
        | | * | b1
        | |/  |
        | |   * c1
        | | _/
        | |/
        * | m1
        |/
        * r""",
    ),
    "a merge opens a lane beyond others": (
        "m2:M a2:a1 M:m1,x1 a1:r x1:r m1:r r",
        """\
        * m2
        | * a2
        * | M
        |\\|
        | |\\
        | * | a1
        | | * x1
        | |/
        * | m1
        |/
        * r""",
    ),
    "a freed lane is used again": (
        "a3:a2 b1:a2 c2:c1 a2:a1 d1:a1 c1:a1 a1",
        """\
        * a3
        | * b1
        |/
        | * c2
        * | a2
        | | * d1
        | |/
        |/|
        | * c1
        |/
        * a1""",
    ),
    "parents that the list does not hold": (
        "m3:m2 x1:m1",
        """\
        * m3
        | * x1""",
    ),
}


@pytest.mark.parametrize(("commits", "expected"), PICTURES.values(), ids=PICTURES)
def test_picture(commits: str, expected: str) -> None:
    assert picture(paper(commits)) == dedent(expected)


def test_children_come_first_whatever_the_clocks_say() -> None:
    nodes = [Node("parent", (), 9), Node("child", ("parent",), 1)]
    assert [node.id for node in newest_first(nodes)] == ["child", "parent"]


def test_equal_times_are_ordered_by_id() -> None:
    nodes = [Node(name, (), 1) for name in "bca"]
    assert [node.id for node in newest_first(nodes)] == ["c", "b", "a"]


def test_hidden_commits_leave_their_neighbours_connected() -> None:
    nodes, stands_in = without(paper("m3:o2 x1:o2 o2:o1 o1:m1 m1"), {"o1", "o2"})
    assert picture(nodes) == "* m3\n| * x1\n|/\n* m1"
    assert stands_in == {"o1": "m1", "o2": "m1"}


def test_a_hidden_head_is_stood_in_for_by_its_ancestor() -> None:
    nodes, stands_in = without(paper("o2:m1 m1"), {"o2"})
    assert [node.id for node in nodes] == ["m1"]
    assert stands_in == {"o2": "m1"}


def test_a_hidden_root_leaves_no_parent() -> None:
    nodes, stands_in = without(paper("m1:o o"), {"o"})
    assert nodes == [Node("m1", (), 2)]
    assert stands_in == {}


def test_merges_are_never_hidden() -> None:
    nodes, _ = without(paper("M:a,b a:r b:r r"), {"M", "a"})
    assert [(n.id, n.parents) for n in nodes] == [("M", ("r", "b")), ("b", ("r",)), ("r", ())]


@pytest.mark.parametrize("seed", range(40))
def test_in_random_graphs_every_line_comes_from_somewhere(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{i:02}" for i in range(40)]
    nodes = [
        Node(name, tuple(rng.sample(names[max(0, i - 9) : i], k=min(i, rng.choice([1, 1, 1, 2])))), i)
        for i, name in enumerate(names)
    ]
    rows = draw(nodes)
    assert [row.id for row in rows if row.id] == [node.id for node in newest_first(nodes)]
    width = max(len(row.drawing) for row in rows) + 2
    grid = [" " * width, *(f" {row.drawing}".ljust(width) for row in rows)]
    has_children = {parent for node in nodes for parent in node.parents}
    for y, row in enumerate(rows, start=1):
        assert grid[y].count("*") == (row.id is not None)
        for x, cell in enumerate(grid[y]):
            if cell == "|":
                assert arrives(grid, y, x)
            if cell == "*":
                assert arrives(grid, y, x) == (row.id in has_children)


def arrives(grid: list[str], y: int, x: int) -> bool:
    """Whether a stroke of the row above ends in this cell."""
    above = grid[y - 1]
    return above[x] in "|*" or above[x + 1] == "/" or above[x - 1] == "\\"
