"""Five questions of growing difficulty to a social graph, with the time each takes: first, and again.

python examples/tour.py [PERSONS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.query_engines import EDGES, NODES, SCHEMA
from benchmarks.social import social

from omnigraph import Graph

QUESTIONS = {
    "who is person 42": "match { $p: Person { num: 42 } } return { $p.name, $p.age }",
    "whom do they follow, by age": """match { $p: Person { num: 42 }  $p follows $q  $q.age < 40 }
        return { $q.name, $q.age } order { $q.age, $q.name } limit 3""",
    "who has the most followers": """match { $f: Person  $f follows $p }
        return { $p.num, $p.name, count($f) as followers } order { followers desc, $p.num } limit 3""",
    "tennis players by city whom nobody under 25 follows": """match {
            $p: Person  $p hasInterest $i  $i.interest = "Tennis"  $p livesIn $c
            not { $q follows $p  $q.age < 25 }
        }
        return { $c.city, count($p) as players } order { players desc, $c.city } limit 3""",
    "how far apart are 1 and 1000, and on which way": """match {
            $a: Person { num: 1 }  $b: Person { num: 1000 }
            $way: shortest $a follows{1,} $b
        }
        return { length($way) as steps, nodes($way) as ids }""",
}


def load(directory: str, persons: int) -> Graph:
    tables = social(persons, 7)
    data = {}
    for kind, file in NODES.items():
        rows = tables[f"nodes/{file}"]
        data[kind] = rows.rename_columns(["num" if c == "id" else c for c in rows.column_names])
    for kind, (file, _, _) in EDGES.items():
        rows = tables[f"edges/{file}"]
        data[kind] = pa.table({end: rows[end].cast(pa.string()) for end in ("from", "to")})
    graph = Graph.init(f"{directory}/social.omni", SCHEMA)
    graph.load(data)
    return graph


def main(persons: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        graph = load(directory, persons)
        follows = graph.snapshot().table("edge:Follows").row_count
        print(f"{persons:,} persons, {follows:,} follows")
        for question, inside in QUESTIONS.items():
            text = f"query it() {{ {inside} }}"
            times = []
            for _ in range(5):
                begun = time.perf_counter()
                found = graph.query(text)
                times.append((time.perf_counter() - begun) * 1000)
            print(f"\n{question}? First {times[0]:.0f} ms, again {min(times):.1f} ms")
            for row in found.to_pylist():
                print(f"  {row}")
        graph.local.executor.topologies.wait_until_kept()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
