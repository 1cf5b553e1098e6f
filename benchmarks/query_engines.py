"""The engines of the query benchmark: each loads the same tables, opens its store, and answers the same questions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[tuple[Any, ...]]
NODES = {"Person": "persons", "City": "cities", "State": "states", "Country": "countries", "Interest": "interests"}
EDGES = {
    "Follows": ("follows", "Person", "Person"),
    "LivesIn": ("lives_in", "Person", "City"),
    "HasInterest": ("interested_in", "Person", "Interest"),
    "CityIn": ("city_in", "City", "State"),
    "StateIn": ("state_in", "State", "Country"),
}
SCHEMA = """
node Person { num: I64 @key  name: String  gender: String  birthday: Date  age: I64  isMarried: Bool }
node City { num: I64 @key  city: String  state: String  country: String  lat: F64  lng: F64  population: I32 }
node State { num: I64 @key  state: String  country: String }
node Country { num: I64 @key  country: String }
node Interest { num: I64 @key  interest: String }
edge Follows: Person -> Person
edge LivesIn: Person -> City
edge HasInterest: Person -> Interest
edge CityIn: City -> State
edge StateIn: State -> Country
"""
QUERIES = Path(__file__).with_name("queries.gq")
GRAPH = {
    "q1": "MATCH (f:Person)-[:Follows]->(p:Person) RETURN p.id, p.name, count(f) AS n ORDER BY n DESC, p.id LIMIT 3",
    "q2": "MATCH (f:Person)-[:Follows]->(p:Person) WITH p, count(f) AS n ORDER BY n DESC, p.id LIMIT 1 "
    "MATCH (p)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country) "
    "RETURN p.name, n, c.city, s.state, k.country",
    "q3": "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(:State)-[:StateIn]->(k:Country) "
    "WHERE k.country = 'United States' RETURN c.city, avg(p.age) AS a ORDER BY a, c.city LIMIT 5",
    "q4": "MATCH (p:Person)-[:LivesIn]->(:City)-[:CityIn]->(:State)-[:StateIn]->(k:Country) "
    "WHERE p.age >= 30 AND p.age <= 40 RETURN k.country, count(p) AS n ORDER BY n DESC",
    "q5": "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City) WHERE p.gender = 'male' "
    "AND i.interest = 'Fine Dining' AND c.city = 'London' AND c.country = 'United Kingdom' RETURN count(p)",
    "q6": "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City) WHERE p.gender = 'female' "
    "AND i.interest = 'Tennis' RETURN count(p) AS n, c.city, c.country ORDER BY n DESC, c.city LIMIT 5",
    "q7": "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(:City)-[:CityIn]->(s:State) "
    "WHERE p.age >= 23 AND p.age <= 30 AND i.interest = 'Photography' AND s.country = 'United States' "
    "RETURN count(p) AS n, s.state, s.country ORDER BY n DESC, s.state LIMIT 1",
    "q8": "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN count(*)",
    "q9": "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) "
    "WHERE b.age < 50 AND c.age > 25 RETURN count(*)",
    "lookup": "MATCH (p:Person) WHERE p.id = {k} RETURN p.name, p.age",
    "hop1": "MATCH (p:Person)-[:Follows]->(q:Person) WHERE p.id = {k} RETURN count(q)",
    "hop2": "MATCH (p:Person)-[:Follows]->(:Person)-[:Follows]->(c:Person) "
    "WHERE p.id = {k} RETURN count(DISTINCT c.id)",
    "hop3": "MATCH (p:Person)-[:Follows]->(:Person)-[:Follows]->(:Person)-[:Follows]->(d:Person) "
    "WHERE p.id = {k} RETURN count(*)",
    "within3": "MATCH (p:Person)-[:Follows*1..3]->(d:Person) "
    "WHERE p.id = {k} AND d.id <> {k} RETURN count(DISTINCT d.id)",
    "path": "MATCH (p:Person)-[e:Follows* SHORTEST 1..30]->(q:Person) WHERE p.id = {a} AND q.id = {b} RETURN length(e)",
}
_PLACE = 'JOIN LivesIn l ON l."from" = p.id JOIN City c ON c.id = l."to"'
_STATE = f'{_PLACE} JOIN CityIn ci ON ci."from" = c.id JOIN State s ON s.id = ci."to"'
_COUNTRY = f'{_STATE} JOIN StateIn si ON si."from" = s.id JOIN Country k ON k.id = si."to"'
_INTEREST = 'JOIN HasInterest h ON h."from" = p.id JOIN Interest i ON i.id = h."to"'
_TWO = 'FROM Follows x JOIN Follows y ON y."from" = x."to"'
SQL = {
    "q1": 'SELECT p.id, p.name, t.n FROM (SELECT "to" AS id, count(*) AS n FROM Follows GROUP BY 1) t '
    "JOIN Person p ON p.id = t.id ORDER BY t.n DESC, p.id LIMIT 3",
    "q2": 'WITH top AS (SELECT "to" AS id, count(*) AS n FROM Follows GROUP BY 1 ORDER BY n DESC, 1 LIMIT 1) '
    f"SELECT p.name, t.n, c.city, s.state, k.country FROM top t JOIN Person p ON p.id = t.id {_COUNTRY}",
    "q3": f"SELECT c.city, avg(p.age) AS a FROM Person p {_COUNTRY} WHERE k.country = 'United States' "
    "GROUP BY c.id, c.city ORDER BY a, c.city LIMIT 5",
    "q4": f"SELECT k.country, count(*) AS n FROM Person p {_COUNTRY} WHERE p.age BETWEEN 30 AND 40 "
    "GROUP BY 1 ORDER BY n DESC",
    "q5": f"SELECT count(*) FROM Person p {_INTEREST} {_PLACE} WHERE p.gender = 'male' "
    "AND i.interest = 'Fine Dining' AND c.city = 'London' AND c.country = 'United Kingdom'",
    "q6": f"SELECT count(*) AS n, c.city, c.country FROM Person p {_INTEREST} {_PLACE} WHERE p.gender = 'female' "
    "AND i.interest = 'Tennis' GROUP BY 2, 3 ORDER BY n DESC, c.city LIMIT 5",
    "q7": f"SELECT count(*) AS n, s.state, s.country FROM Person p {_INTEREST} {_STATE} "
    "WHERE p.age BETWEEN 23 AND 30 AND i.interest = 'Photography' AND s.country = 'United States' "
    "GROUP BY 2, 3 ORDER BY n DESC, s.state LIMIT 1",
    "q8": f"SELECT count(*) {_TWO}",
    "q9": f'SELECT count(*) {_TWO} JOIN Person b ON b.id = x."to" JOIN Person c ON c.id = y."to" '
    "WHERE b.age < 50 AND c.age > 25",
    "lookup": "SELECT name, age FROM Person WHERE id = {k}",
    "hop1": 'SELECT count(*) FROM Follows WHERE "from" = {k}',
    "hop2": f'SELECT count(DISTINCT y."to") {_TWO} WHERE x."from" = {{k}}',
    "hop3": f'SELECT count(*) {_TWO} JOIN Follows z ON z."from" = y."to" WHERE x."from" = {{k}}',
}
POLARS = ("q1", "q2", "q4", "q8")


class OmniGraph:
    """Our own, through its public handle."""

    name = "omnigraph"

    @staticmethod
    def load(directory: Path) -> None:
        from omnigraph import Graph

        data = {}
        for kind, file in NODES.items():
            rows = pq.read_table(directory / f"nodes/{file}.parquet")
            data[kind] = rows.rename_columns(["num" if c == "id" else c for c in rows.column_names])
        for kind, (file, _, _) in EDGES.items():
            rows = pq.read_table(directory / f"edges/{file}.parquet")
            data[kind] = pa.table({end: rows[end].cast(pa.string()) for end in ("from", "to")})
        Graph.init(directory / "graph.omni", SCHEMA).load(data)

    def __init__(self, directory: Path) -> None:
        from omnigraph import Graph

        self._graph = Graph.open(directory / "graph.omni")
        self._text = QUERIES.read_text()

    def ask(self, name: str, params: dict[str, int]) -> Rows:
        if name == "q2":  # no query goes on from the result of another, so these are two
            [(num, followers)] = self._rows("most_followed", {})
            return [(person, followers, *home) for person, *home in self._rows("home", {"k": num})]
        return self._rows(name, params)

    def _rows(self, name: str, params: dict[str, int]) -> Rows:
        return [tuple(row.values()) for row in self._graph.query(self._text, name, params).to_pylist()]

    def settle(self) -> None:
        self._graph.local.executor.topologies.wait_until_kept()


class _Cypher:
    """Kuzu and its fork: the same interface."""

    module = ""

    @classmethod
    def load(cls, directory: Path) -> None:
        connection = cls._connect(directory)
        kinds = {"int64": "INT64", "string": "STRING", "bool": "BOOL", "date32[day]": "DATE", "double": "DOUBLE"}
        for kind, file in NODES.items():
            schema = pq.read_schema(directory / f"nodes/{file}.parquet")
            fields = ", ".join(f"{f.name} {kinds.get(str(f.type), 'INT32')}" for f in schema)
            connection.execute(f"CREATE NODE TABLE {kind}({fields}, PRIMARY KEY(id))")
            connection.execute(f"COPY {kind} FROM '{directory}/nodes/{file}.parquet'")
        for kind, (file, source, target) in EDGES.items():
            connection.execute(f"CREATE REL TABLE {kind}(FROM {source} TO {target})")
            connection.execute(f"COPY {kind} FROM '{directory}/edges/{file}.parquet'")

    @classmethod
    def _connect(cls, directory: Path) -> Any:
        module = importlib.import_module(cls.module)
        return module.Connection(module.Database(str(directory / f"{cls.module}.db")))

    def __init__(self, directory: Path) -> None:
        self._connection = self._connect(directory)

    def ask(self, name: str, params: dict[str, int]) -> Rows:
        # Literals: with parameters these engines do not use their key index.
        found = self._connection.execute(GRAPH[name].format(**params))
        rows = []
        while found.has_next():
            rows.append(tuple(found.get_next()))
        return rows

    def settle(self) -> None:
        pass


class Kuzu(_Cypher):
    """Kuzu."""

    name = module = "kuzu"


class Ladybug(_Cypher):
    """Ladybug."""

    name = module = "ladybug"


class DuckDb:
    """DuckDB with indexes on both ends of Follows and on the key."""

    name = "duckdb"

    @staticmethod
    def load(directory: Path) -> None:
        import duckdb

        connection = duckdb.connect(str(directory / "duck.db"))
        files = {**{k: f"nodes/{f}" for k, f in NODES.items()}, **{k: f"edges/{f[0]}" for k, f in EDGES.items()}}
        for kind, file in files.items():
            connection.execute(f"CREATE TABLE {kind} AS SELECT * FROM '{directory}/{file}.parquet'")
        connection.execute('CREATE INDEX fs ON Follows("from")')
        connection.execute('CREATE INDEX ft ON Follows("to")')
        connection.execute("CREATE INDEX pid ON Person(id)")
        connection.close()

    def __init__(self, directory: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(str(directory / "duck.db"), read_only=True)

    def ask(self, name: str, params: dict[str, int]) -> Rows:
        return [tuple(row) for row in self._connection.execute(SQL[name].format(**params)).fetchall()]

    def settle(self) -> None:
        pass


class Polars:
    """Polars on frames in memory; only what needs no recursion."""

    name = "polars"

    @staticmethod
    def load(directory: Path) -> None:
        pass

    def __init__(self, directory: Path) -> None:
        import polars as pl

        self._pl = pl
        self._nodes = {kind: pl.read_parquet(directory / f"nodes/{file}.parquet") for kind, file in NODES.items()}
        self._edges = {kind: pl.read_parquet(directory / f"edges/{f[0]}.parquet") for kind, f in EDGES.items()}

    def ask(self, name: str, params: dict[str, int]) -> Rows:
        questions: dict[str, Callable[[], Any]] = {
            "q1": self._q1, "q2": self._q2, "q4": self._q4, "q8": self._q8,
        }  # fmt: skip
        return [tuple(row) for row in questions[name]().rows()]

    def settle(self) -> None:
        pass

    def _followers(self) -> Any:
        return self._edges["Follows"].lazy().group_by("to").agg(self._pl.len().alias("n"))

    def _q1(self) -> Any:
        top = self._followers().sort(["n", "to"], descending=[True, False]).limit(3)
        joined = top.join(self._nodes["Person"].lazy(), left_on="to", right_on="id")
        return joined.sort(["n", "to"], descending=[True, False]).select("to", "name", "n").collect()

    def _q2(self) -> Any:
        top = self._followers().sort(["n", "to"], descending=[True, False]).limit(1)
        found = top.join(self._nodes["Person"].lazy().select("id", "name"), left_on="to", right_on="id").rename(
            {"to": "id"}
        )
        for edge, kind, named in (
            ("LivesIn", "City", "city"),
            ("CityIn", "State", "state"),
            ("StateIn", "Country", "country"),
        ):
            along = self._edges[edge].lazy().rename({"from": "id"})
            place = self._nodes[kind].lazy().select("id", named)
            found = found.join(along, on="id").drop("id").rename({"to": "id"}).join(place, on="id")
        return found.select("name", "n", "city", "state", "country").collect()

    def _q4(self) -> Any:
        pl = self._pl
        people = self._nodes["Person"].lazy().filter(pl.col("age").is_between(30, 40)).select("id")
        walked = people
        for edge in ("LivesIn", "CityIn", "StateIn"):
            walked = walked.join(self._edges[edge].lazy(), left_on="id", right_on="from").select(id="to")
        named = walked.join(self._nodes["Country"].lazy(), on="id").group_by("country").agg(pl.len().alias("n"))
        return named.sort("n", descending=True).collect()

    def _q8(self) -> Any:
        pl = self._pl
        follows = self._edges["Follows"].lazy()
        came = follows.group_by(id="to").agg(a=pl.len())
        went = follows.group_by(id="from").agg(b=pl.len())
        return came.join(went, on="id").select((pl.col("a").cast(pl.Int64) * pl.col("b")).sum()).collect()


ENGINES: tuple[Any, ...] = (OmniGraph, Kuzu, Ladybug, DuckDb, Polars)


def write_parquet(directory: Path, tables: dict[str, pa.Table]) -> None:
    """The input of every engine that reads files."""
    for name, rows in tables.items():
        path = directory / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
