"""The lint report: its exact shape, its codes, its order; broken and sound queries side by side."""

from __future__ import annotations

from typing import Any

from omnigraph.query import lint_queries
from omnigraph.schema.catalog import Catalog


def results(text: str, catalog: Catalog) -> list[dict[str, Any]]:
    found = lint_queries(text, catalog).to_json()["results"]
    assert isinstance(found, list)
    return found


def test_the_whole_report(people: Catalog) -> None:
    text = """
        query friends($name: String) { match { $p: Person {name: $name} $p knows $f } return { $f.name, $f.age as n } }
        query broken() { match { $p: Persn } return { $p } }
    """
    report = lint_queries(text, people, "q.gq", {"kind": "file", "path": "s.pg"})
    assert report.to_json() == {
        "status": "error",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 2,
        "errors": 1,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "friends",
                "kind": "read",
                "status": "ok",
                "warnings": [],
                "operation": {
                    "result": [
                        {"name": "f.name", "kind": "string", "nullable": False},
                        {"name": "n", "kind": "int", "nullable": True},
                    ],
                    "reads": [
                        {"kind": "edge", "type_name": "Knows"},
                        {"kind": "node", "type_name": "Person"},
                    ],
                    "writes": [],
                },
            },
            {
                "name": "broken",
                "kind": "read",
                "status": "error",
                "warnings": [],
                "error": "q.gq:3:38: T1: there is no node type `Persn`",
            },
        ],
        "findings": [],
    }


def test_unparsable_text_is_one_finding_and_no_query(people: Catalog) -> None:
    report = lint_queries("query a() { match { $p: Person } retrun { $p } }", people, "q.gq").to_json()
    assert (report["status"], report["errors"], report["queries_processed"], report["results"]) == ("error", 1, 0, [])
    (finding,) = report["findings"]
    assert (finding["severity"], finding["code"], finding["query_names"]) == ("error", "Q000", [])
    assert finding["message"].startswith("q.gq:1:34: ")


def test_result_kinds(library: Catalog) -> None:
    text = """query q() {
        match { $d: Doc $a wrote $d }
        return { $d, $d.title, $d.status, $d.pages, $a.books, $d.rating, $d.published, $d.changed, $d.archived,
                 $d.tags, $d.embedding, $d.pages + 1 as more, nearest($d.embedding, [1, 2, 3]), null as nothing }
    }"""
    (found,) = results(text, library)
    columns = found["operation"]["result"]
    assert [each["kind"] for each in columns] == [
        "object", "string", "string", "int", "bigint", "float", "date", "datetime", "bool", "list", "vector", "bigint",
        "float", "string",
    ]  # fmt: skip
    assert columns[9] == {"name": "d.tags", "kind": "list", "item_kind": "string", "nullable": True}
    assert columns[10] == {"name": "d.embedding", "kind": "vector", "vector_dim": 3, "nullable": False}


def test_reads_go_into_blocks(people: Catalog) -> None:
    text = "query q() { match { $p: Person not { $p worksAt $_ } optional { $p follows $f } } return { $p } }"
    (found,) = results(text, people)
    assert [each["type_name"] for each in found["operation"]["reads"]] == ["Follows", "WorksAt", "Company", "Person"]


def test_reads_and_writes_of_mutations(shop: Catalog) -> None:
    text = """
        query add($a: String) { insert Bought { from: $a, to: $a, amount: 1 } }
        query set($a: String) { update Item set { stock: 1 } where sku = $a }
        query drop($a: String) { delete Item where sku = $a }
        query cut($a: String) { delete Bought where from = $a }
    """

    def facts(found: dict[str, Any], key: str) -> list[str]:
        return [f"{each['kind']}:{each['type_name']}" for each in found["operation"][key]]

    add, update, drop, cut = results(text, shop)
    assert (facts(add, "reads"), facts(add, "writes")) == (["node:Item", "node:Sale"], ["edge:Bought"])
    assert (facts(update, "reads"), facts(update, "writes")) == (["node:Item"], ["node:Item"])
    incident = ["edge:Bought", "edge:Related", "edge:Sale", "node:Item"]
    assert (facts(drop, "reads"), facts(drop, "writes")) == (incident, incident)
    assert (facts(cut, "reads"), facts(cut, "writes")) == (["edge:Bought"], ["edge:Bought"])
    assert add["operation"]["result"] == []


def test_mutations_without_parameters_are_warned_about(people: Catalog) -> None:
    text = 'query w() { delete Person where name = "a" } query r() { match { $p: Person } return { $p } }'
    report = lint_queries(text, people)
    assert [len(each.warnings) for each in report.results] == [1, 0]
    assert (report.status, report.warnings) == ("ok", 1)


def test_properties_that_no_update_sets(shop: Catalog) -> None:
    text = """
        query b($s: String) { update Item set { weight: 1, count: 1, listed: now(), tags: [] } where sku = $s }
        query a($s: String) { update Item set { day: null, sizes: null, photo: null, vec: null } where sku = $s }
    """
    findings = lint_queries(text, shop).to_json()["findings"]
    assert [(each["code"], each["type_name"], each["property"]) for each in findings] == [
        ("L201", "Item", "active"),
        ("L201", "Item", "limit"),
    ]
    assert findings[0]["query_names"] == ["a", "b"]


def test_no_finding_without_a_valid_update_and_none_for_embedded_vectors(shop: Catalog) -> None:
    assert lint_queries("query a($s: String) { update Item set { nothing: 1 } where sku = $s }", shop).findings == ()
    assert lint_queries("query a($s: String) { delete Item where sku = $s }", shop).findings == ()
    assert lint_queries("query a($s: String) { update Note set { text: $s } where text = $s }", shop).findings == ()


def test_duplicate_names_and_mixed_mutations(shop: Catalog) -> None:
    text = """
        query a($x: I64) { delete Sale where id_no = $x insert Sale { id_no: $x, total: 1 } }
        query a() { delete Sale where id_no = 1 }
    """
    report = lint_queries(text, shop)
    assert [each.status for each in report.results] == ["ok", "error"]
    assert report.results[1].error is not None
    assert "declared twice" in str(report.results[1].error)


def test_the_report_is_the_same_every_time(shop: Catalog) -> None:
    text = "query a($s: String) { update Item set { stock: 1 } where sku = $s }"
    assert lint_queries(text, shop) == lint_queries(text, shop)
