"""Bad load files of many kinds: a clear message with the line, nothing written, and the next load works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.unit.cli.conftest import Cli

GOOD = b'{"type": "Person", "data": {"name": "Eve"}}\n'
DEEP = b"[" * 100_000

# name: (the third line of the file, what the message says)
LINES: dict[str, tuple[bytes, str]] = {
    "not json": (b"hello", "bad.jsonl:3:1: this is not JSON"),
    "truncated object": (b'{"type": "Person", "data": {"name": "Zed"', "the line ends inside a JSON value"),
    "truncated text": (b'{"type": "Pers', "bad.jsonl:3:10: the text that begins here does not end on this line"),
    "truncated member": (b'{"type":', "bad.jsonl:3:9: the line ends inside a JSON value"),
    "single quotes": (b"{'type': 'Person'}", "bad.jsonl:3:2: this is not JSON"),
    "trailing comma": (b'{"type": "Person",}', "this is not JSON"),
    "comment": (b"// people", "bad.jsonl:3:1: this is not JSON"),
    "two objects": (b'{"type": "Person"} {"type": "Person"}', "bad.jsonl:3:20: more than one JSON value on a line"),
    "comma after the object": (b'{"type": "Person", "data": {"name": "Z"}},', "more than one JSON value on a line"),
    "carriage return between objects": (b'{"type": "A"}\r{"type": "B"}', "more than one JSON value on a line"),
    "a list": (b'[{"type": "Person"}]', "bad.jsonl:3: the line holds a list, not an object"),
    "a number": (b"17", "the line holds a number, not an object"),
    "null": (b"null", "the line holds null, not an object"),
    "text": (b'"Person"', "the line holds text, not an object"),
    "duplicate member": (b'{"type": "Person", "type": "Person"}', "the member 'type' appears twice"),
    "duplicate member inside": (b'{"type": "Person", "data": {"name": "a", "name": "b"}}', "the member 'name' appears"),
    "duplicate member spelled apart": (b'{"type": "Person", "\\u0074ype": "x"}', "the member 'type' appears twice"),
    "nan": (b'{"type": "Person", "data": {"name": "Z", "score": NaN}}', "NaN is not JSON"),
    "infinity": (b'{"type": "Person", "data": {"name": "Z", "score": -Infinity}}', "-Infinity is not JSON"),
    "number too large": (b'{"type": "Person", "data": {"name": "Z", "score": 1e999}}', "1e999 is too large"),
    "too many digits": (b'{"type": "Person", "data": {"age": ' + b"9" * 5000 + b"}}", "a number has too many digits"),
    "nested too deeply": (b'{"data": ' + DEEP + b"}", "the value is nested too deeply"),
    "not utf-8": (b'{"type": "Person", "data": {"name": "\xc3\xa9\xff"}}', "bad.jsonl:3:39: byte 0xff is not"),
    "latin-1": ('{"type": "Person", "data": {"name": "Zoë"}}'.encode("latin-1"), "bad.jsonl:3:40: byte 0xeb"),
    "utf-8 cut off": (b'{"type": "Person", "data": {"name": "\xe2\x82', "bad.jsonl:3:38: byte 0xe2 is not"),
    "byte order mark": (b'\xef\xbb\xbf{"type": "Person"}', "begins with a byte order mark"),
    "control character": (b'{"type": "Person", "data": {"name": "a\tb"}}', "JSON: invalid control character"),
    "neither type nor edge": (b'{"data": {"name": "Z"}}', "bad.jsonl:3: needs exactly one of 'type'"),
    "both type and edge": (b'{"type": "Person", "edge": "Knows"}', "bad.jsonl:3: needs exactly one of"),
    "unknown envelope member": (b'{"type": "Person", "date": {}}', "bad.jsonl:3: has an unknown field 'date'"),
    "unknown type": (b'{"type": "Persn", "data": {"name": "Z"}}', "bad.jsonl:3: there is no node type `Persn`"),
    "unknown edge": (b'{"edge": "Likes", "from": "Ada", "to": "Bob"}', "bad.jsonl:3: there is no edge type `Likes`"),
    "type is no text": (b'{"type": 5}', "bad.jsonl:3: the type name must be text"),
    "data is a list": (b'{"type": "Person", "data": []}', "bad.jsonl:3: 'data' must be an object"),
    "unknown property": (b'{"type": "Person", "data": {"name": "Z", "agee": 3}}', "bad.jsonl:3: Person has no"),
    "missing property": (b'{"type": "Person", "data": {"age": 3}}', "bad.jsonl:3: Person.name is required"),
    "wrong type": (b'{"type": "Person", "data": {"name": "Z", "age": "old"}}', "bad.jsonl:3: Person.age expects"),
    "out of range": (b'{"type": "Person", "data": {"name": "Z", "age": 2147483648}}', "bad.jsonl:3: Person.age"),
    "lone surrogate": (b'{"type": "Person", "data": {"name": "\\ud800"}}', "bad.jsonl:3: Person.name"),
    "bad date": (b'{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": "soon"}}', ":3: Knows.since"),
    "no endpoint": (b'{"edge": "Knows", "from": "Ada"}', "bad.jsonl:3: Knows.to is required"),
    "missing endpoint": (b'{"edge": "Knows", "from": "Ada", "to": "Nobody"}', "bad.jsonl:3: Knows dst 'Nobody'"),
    "endpoint inside data": (b'{"edge": "Knows", "data": {"from": "Ada", "to": "Bob"}}', "bad.jsonl:3: 'from' belongs"),
    "endpoint is a number": (b'{"edge": "Knows", "from": 1, "to": "Bob"}', "bad.jsonl:3: Knows.from must be text"),
    "id against the key": (b'{"type": "Person", "data": {"name": "Z", "id": "Q"}}', "bad.jsonl:3: Person id 'Q'"),
    "same key twice": (GOOD.strip(), "bad.jsonl:3: @unique violation on Person.name: 'Eve' is also in line 1"),
    "key that exists": (b'{"type": "Person", "data": {"name": "Ada"}}', "bad.jsonl:3: node:Person already has"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "message"), LINES.values(), ids=LINES)
def test_a_bad_line_is_named_and_changes_nothing(
    cli: Cli, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_bytes(GOOD + b"\r\n" + line + b"\n")
    before = graph.snapshot()

    failed = cli("load", graph.uri, "--data", "bad.jsonl", "--mode", "append")

    assert failed.code == 1
    assert failed.out == ""
    assert "error: bad.jsonl:3" in failed.err
    assert message in failed.err
    assert graph.snapshot().version == before.version
    Path("good.jsonl").write_bytes(GOOD)
    assert cli("load", graph.uri, "--data", "good.jsonl", "--mode", "append").code == 0
    assert graph.snapshot().version == before.version + 1


def test_json_errors_carry_place_and_code(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(GOOD + b"\n" + b'{"type": "Person", "data": {"name": "Z", "age": "old"}}')
    body = cli("load", graph.uri, "--data", file, "--mode", "append", "--json").json
    assert (body["code"], body["path"], body["line"], body["field"]) == ("invalid_value", str(file), 3, "age")
    file.write_bytes(GOOD + b"{nope}")
    body = cli("load", graph.uri, "--data", file, "--mode", "append", "--json").json
    assert (body["code"], body["line"], body["column"]) == ("data_error", 2, 2)


def test_the_other_row_of_a_duplicate_is_a_line_too(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "twice.jsonl"
    file.write_bytes(b"\n\n" + GOOD + b"\n" + GOOD)
    failed = cli("load", graph.uri, "--data", file, "--mode", "merge")
    assert "twice.jsonl:5: @unique violation on Person.name: 'Eve' is also in line 3" in failed.err


def test_windows_line_ends_blank_lines_and_a_missing_last_newline_are_fine(
    cli: Cli, graph: Graph, tmp_path: Path
) -> None:
    file = tmp_path / "windows.jsonl"
    rows = [{"type": "Person", "data": {"name": name}} for name in ("Zoë", "日本", "a\u2028b")]
    file.write_bytes(b"\r\n \t\r\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows))
    loaded = cli("load", graph.uri, "--data", file, "--mode", "append", "--json")
    assert loaded.code == 0
    assert loaded.json["total_entities"] == 3
    assert graph.entity_at("node:Person", "Zoë") is not None


def test_an_empty_file_commits_nothing(cli: Cli, graph: Graph) -> None:
    before = graph.snapshot().version
    loaded = cli("load", graph.uri, "--data", "-", "--mode", "append", stdin=b"\n")
    assert loaded.code == 0
    assert "0 entities (0 node types, 0 edge types), nothing to commit" in loaded.out
    assert graph.snapshot().version == before


def test_stdin_is_named_in_errors(cli: Cli, graph: Graph) -> None:
    failed = cli("load", graph.uri, "--data", "-", "--mode", "append", stdin=b"\nnope\n")
    assert failed.code == 1
    assert "error: <stdin>:2:1: this is not JSON" in failed.err
