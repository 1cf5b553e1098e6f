"""Base x ours x theirs, for every kind of property: what a merge makes of one entity."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import MergeConflict

ABSENT = "absent"
KINDS: dict[str, tuple[str, list[Any]]] = {
    "String": ("String?", ["", "a", None]),
    "Bool": ("Bool?", [True, False, None]),
    "I32": ("I32?", [0, -1, None]),
    "U64": ("U64?", [0, 2**64 - 1, None]),
    "F32": ("F32?", [0.5, 1.5, None]),
    "F64": ("F64?", [0.0, -0.0, None]),
    "Date": ("Date?", [dt.date(1970, 1, 1), dt.date(2020, 2, 29), None]),
    "DateTime": ("DateTime?", [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None]),
    "enum": ("enum(x, y, z)?", ["x", "y", None]),
    "list": ("[I32]?", [[], [1, 2], None]),
    "list of text": ("[String]?", [[""], ["a"], None]),
    "Vector": ("Vector(2)?", [[0.0, 0.0], [-0.0, 0.0], None]),
    "Blob": ("Blob?", [b"", b"\x00\xff", None]),
}


def expected(base: Any, ours: Any, theirs: Any) -> Any:
    """The rule, said once more: the side that changed wins, the same change is no conflict."""
    if same(ours, theirs) or same(base, theirs):
        return ours
    return theirs if same(base, ours) else "conflict"


def same(a: Any, b: Any) -> bool:
    a, b = (v.timestamp() if isinstance(v, dt.datetime) else v for v in (a, b))
    return repr(a) == repr(b)


@pytest.mark.parametrize("kind", KINDS)
def test_every_combination(kind: str, tmp_path: Path) -> None:
    declared, values = KINDS[kind]
    choices = [ABSENT, *values]
    graph = Graph.init(tmp_path / "g", f"node N {{ k: String @key  v: {declared}  _x: I32? }}")
    cases = {f"{b}{o}{t}": (choices[b], choices[o], choices[t]) for b in range(4) for o in range(4) for t in range(4)}

    def write(branch: str, side: int) -> None:
        rows = [{"k": k, "v": c[side]} for k, c in cases.items() if c[side] is not ABSENT]
        gone = [k for k, c in cases.items() if c[side] is ABSENT and c[0] is not ABSENT]
        graph.load({"N": rows}, "merge", branch)
        if gone and side:
            graph.delete("N", gone, branch)

    write("main", 0)
    graph.branches.create("dev")
    write("dev", 2)
    write("main", 1)
    wanted = {k: expected(*c) for k, c in cases.items()}
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev")
    conflicts = {c.entity_id: c for c in caught.value.conflicts}
    assert set(conflicts) == {k for k, v in wanted.items() if v == "conflict"}
    for k, conflict in conflicts.items():
        base, ours, theirs = cases[k]
        kinds = (
            "DivergentInsert" if base is ABSENT else "DeleteVsUpdate" if ABSENT in (ours, theirs) else "DivergentUpdate"
        )
        assert str(conflict.kind) == kinds
        shown = (conflict.base, conflict.ours, conflict.theirs)
        assert all(same(ABSENT if s is None else s["v"], c) for s, c in zip(shown, cases[k], strict=True))
    for side, at in (("ours", 1), ("theirs", 2)):
        graph.branches.create(side)
        graph.branches.merge("dev", into=side, strategy=side)
        rows = {r["k"]: r["v"] for r in graph.rows("node:N", side).to_pylist()}
        for k, c in cases.items():
            want = c[at] if wanted[k] == "conflict" else wanted[k]
            assert same(rows.get(k, ABSENT), want), (k, c)
