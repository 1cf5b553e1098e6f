"""The installed program as a real process: exit codes, streams, pipes, rights and start-up."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph.cli
from omnigraph import Graph

PROGRAM = Path(sys.executable).with_name("omnigraph")
SOURCES = sorted(Path(omnigraph.cli.__file__).parent.rglob("*.py"))
HEAVY = ("lance", "pyarrow", "numpy", "obstore", "pyspark")
MAY_BE_IMPORTED_AT_ONCE = ("omnigraph.cli", "omnigraph.errors", "omnigraph.json_values", "omnigraph.api.json_shapes")


pytestmark = pytest.mark.processes


def program(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    settings: dict[str, object] = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([PROGRAM, *map(str, arguments)], check=False, **settings)  # type: ignore[call-overload,no-any-return]


def test_a_session(tmp_path: Path, schema_file: Path) -> None:
    made = program("init", "graph", "--schema", schema_file, cwd=tmp_path)
    assert (made.returncode, made.stdout) == (0, f"initialized {tmp_path}/graph\n")
    row = '{"type": "Person", "data": {"name": "Zoë"}}\n'
    loaded = program("load", "graph", "--data", "-", "--mode", "append", "--json", cwd=tmp_path, input=row)
    assert json.loads(loaded.stdout)["total_entities"] == 1
    again = program("load", "graph", "--data", "-", "--mode", "append", cwd=tmp_path, input=row)
    assert (again.returncode, again.stdout) == (1, "")
    assert "<stdin>:1: node:Person already has an entity with id 'Zoë'" in again.stderr
    lost = program("load", "graph", "--data", "-", "--mode", "merge", "--if-commit", "x", cwd=tmp_path, input=row)
    assert lost.returncode == 4
    assert program("load", "graph", "--nope", cwd=tmp_path).returncode == 2
    assert "Traceback" not in again.stderr + lost.stderr


def test_text_that_the_terminal_cannot_show_is_escaped(graph: Graph) -> None:
    graph.load([{"type": "Note", "data": {"text": "x"}}], message="Zoë")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = program("log", graph.uri, env=ascii_only)
    assert (shown.returncode, "Zo\\xeb" in shown.stdout) == (0, True)
    body = program("log", graph.uri, "--json", env=ascii_only)
    assert json.loads(body.stdout)["commits"][0]["message"] == "Zoë"


def test_a_reader_that_goes_away_is_no_error_worth_words(graph: Graph) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        gone = subprocess.run(
            [PROGRAM, "log", graph.uri], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert gone.returncode != 0
    assert "Traceback" not in gone.stderr
    assert "Exception ignored" not in gone.stderr


def test_an_interrupt_ends_quietly(graph: Graph) -> None:
    waiting = subprocess.Popen(
        [PROGRAM, "load", graph.uri, "--data", "-", "--mode", "append"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith("omnigraph load -> ")
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (130, "")
    assert "Traceback" not in err


def test_recovery_of_a_write_whose_process_was_killed(graph: Graph) -> None:
    rows = '{"type": "Person", "data": {"name": "Eve"}}\n{"edge": "Knows", "from": "Eve", "to": "Ada"}\n'
    killed = {**os.environ, "OMNIGRAPH_FAILPOINT": "intent.after_complete:kill"}
    load = ("load", graph.uri, "--data", "-", "--mode", "append", "--as", "eve")
    assert program(*load, env=killed, input=rows).returncode == -signal.SIGKILL

    (pending,) = json.loads(program("recovery", "list", graph.uri, "--json").stdout)["intents"]
    assert (pending["state"], pending["actor"], pending["lease_expired"]) == ("publishable", "eve", False)
    assert json.loads(program("recovery", "run", graph.uri, "--json").stdout) == {"resolved": []}

    impatient = {**os.environ, "OMNIGRAPH_INTENT_LEASE": "0.05"}
    assert "publishable  load  eve    main    expired" in program("recovery", "list", graph.uri, env=impatient).stdout
    (done,) = json.loads(program("recovery", "run", graph.uri, "--json", env=impatient).stdout)["resolved"]
    assert (done["recovery_kind"], done["recovery_for_actor"]) == ("RolledForward", "eve")
    assert [table["table_key"] for table in done["tables"]] == pending["tables"]
    assert json.loads(program("recovery", "audit", graph.uri, "--json").stdout) == {"recoveries": [done]}
    assert "RolledForward" in program("recovery", "audit", graph.uri).stdout
    assert program("recovery", "list", graph.uri).stdout == "(none)\n"
    found = program("commit", "list", graph.uri, "--filter", "actor=omnigraph:recovery", "--json").stdout
    assert json.loads(found)["commits"][0]["graph_commit_id"] == done["graph_commit_id"]


@pytest.fixture
def shared_directory() -> Iterator[Path]:
    """A directory that any user may enter."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_a_directory_without_write_permission(shared_directory: Path, schema_file: Path) -> None:
    uri, data = shared_directory / "graph", shared_directory / "data.jsonl"
    Graph.init(uri, schema_file)
    data.write_text('{"type": "Person", "data": {"name": "Z"}}\n')
    # Root may write everywhere, so the process becomes somebody else once its modules are loaded.
    script = f"""
import os
from omnigraph.cli.main import run
run(["snapshot", {str(uri)!r}]); run(["load", {str(uri)!r}, "--data", "none", "--mode", "append"])
for path, folders, files in os.walk({str(uri)!r}): os.chmod(path, 0o555)
if os.geteuid() == 0: os.seteuid(65534)
codes = [run(arguments) for arguments in (
    ["snapshot", {str(uri)!r}],
    ["load", {str(uri)!r}, "--data", {str(data)!r}, "--mode", "append"],
    ["branch", "create", "x", "--store", {str(uri)!r}],
    ["tag", "create", "x", "--store", {str(uri)!r}],
)]
for path, folders, files in os.walk({str(uri)!r}): os.geteuid() == 65534 or os.chmod(path, 0o755)
print(codes)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1] == "[0, 1, 1, 1]", ran.stderr
    assert ran.stderr.lower().count("permission denied") == 3
    assert "Traceback" not in ran.stderr
    assert Graph.open(uri, mode="ro").snapshot().version == 1


def test_help_is_fast_because_the_engine_is_not_loaded() -> None:
    """The package itself is stubbed: what matters is what the modules of the command line pull in."""
    script = f"""
import sys, types
package = types.ModuleType("omnigraph"); package.__path__ = [{str(Path(omnigraph.cli.__file__).parents[1])!r}]
sys.modules["omnigraph"] = package
from omnigraph.cli.main import run
run(["--help"])
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["branch list", "snapshot", "commit list"])
def test_a_short_command_does_not_load_pandas_or_spark(tmp_path: Path, command: str) -> None:
    """pandas is installed here; Arrow loads it unless it is kept from it."""
    uri = str(tmp_path / "g")
    Graph.init(uri, "node Person { name: String @key }")
    script = f"""
import importlib.util, sys
assert importlib.util.find_spec("pandas") is not None
from omnigraph.cli.main import run
assert run({command.split()!r} + ["--store", {uri!r}]) == 0
print([name for name in ("pandas", "pyspark", "polars", "yaml", "prompt_toolkit") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_modules_of_the_command_line_import_the_engine_only_when_it_is_needed(path: Path) -> None:
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("omnigraph"):
            assert (statement.module or "").startswith(MAY_BE_IMPORTED_AT_ONCE), statement.module
