"""Which tables a query of Spark SQL names, found without Spark."""

from __future__ import annotations

import pytest

from omnigraph.pipeline.sql_names import is_query, table_names

NAMES = {
    "select * from a": "a",
    "SELECT a, b FROM x JOIN y USING (id), z WHERE q IN (SELECT 1 FROM w)": "x y z w",
    "with c as (select * from c0), d(x) as (select 1 from c) select * from c, d, e": "c0 e",
    "with orders as (select * from orders) select * from orders": "orders",
    "with recursive r as (select 1 from base union all select * from r) select * from r": "base",
    "select * from (with a as (select 1) select * from a) x join a on true": "a",
    "select extract(year from t) from s where a is distinct from b or a is not distinct from c": "s",
    "select trim(both 'x' from y), substring(u from 2 for 3) from t": "t",
    "select 'from x', \"from y\", r'\\' from `q r` -- from z\n, k /* from l */": "q r|k",
    "select 'it''s from x', 'a\\'from b' from t": "t",
    "from a select b": "a",
    "table t": "t",
    "select 1 from t union all table u": "t u",
    "values (1), (2)": "",
    "select * from values (1), (2) as v(a), t": "",
    "select * from (a join b on a.x = b.x) c, lateral f(m) l lateral view explode(n) v as p, q2": "a b",
    "select * from crm.people p, range(10), `x`.`y`": "crm.people x.y",
    "from x |> where y > 1 |> join z": "x z",
    "select * from a a1 join a a2 on a1.x = a2.x": "a a",
    "select 1 from t where exists (from u)": "t u",
}


@pytest.mark.parametrize("sql", NAMES)
def test_tables_of_a_query(sql: str) -> None:
    names = NAMES[sql].split("|") if "|" in NAMES[sql] else NAMES[sql].split()
    found = table_names(sql)
    assert [".".join(each.parts) for each in found] == names
    assert is_query(sql)
    for each in found:
        assert sql[each.offset :].lstrip("`").startswith(each.parts[0])


@pytest.mark.parametrize(
    "sql",
    [
        "", "-- nothing", "drop table x", "with x as (select 1) insert into t select * from x", "set a = 1",
        "select 1; drop table x", "from x insert overwrite y select *", "explain select 1", "update t set a = 1",
    ],
)  # fmt: skip
def test_what_is_no_query(sql: str) -> None:
    assert not is_query(sql)


def test_queries_with_words_that_write() -> None:
    assert is_query("select insert, merge from t;")
    assert is_query("(select 1)")
