"""The interactive shell: reads statements, answers them, never stops for an error.

A statement is a whole `query name(...) { ... }` over as many lines as it takes, or only the inside of one:
`match { ... } return { ... }`. A line that begins with a backslash is a command of the shell itself.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from omnigraph.cli import options
from omnigraph.cli.failures import FAILED, report
from omnigraph.cli.formats import FORMATS, print_result, rows_shown
from omnigraph.cli.output import note, print_line, print_table
from omnigraph.errors import InvalidArgument, OmnigraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph

PROMPT, MORE = "gq> ", "... "
WORDS = (
    "query", "match", "return", "optional", "not", "distinct", "order", "limit", "offset", "having", "shortest",
    "count", "sum", "avg", "min", "max", "collect", "nearest", "bm25", "search", "match_text", "fuzzy", "rrf",
)  # fmt: skip
HELP = r"""\branch NAME     read the head of a branch          \at TARGET       read any other state; \at alone: main
\params JSON     parameters of the next queries       \format FORMAT   table, kv, csv, jsonl, json
\use PATH        run stored queries by name           \run NAME        run a stored query
\explain         show plans instead of results        \analyze         run, and show what each operator did
\timing          show how long answers take           \schema          the schema of the graph
\types           types and how many rows they have    \branches        all branches
\help            this                                 \quit            leave"""


class Repl:
    """The state of one session."""

    def __init__(
        self, graph: Graph, *, branch: str | None = None, at: str | None = None, format: str = "table"
    ) -> None:
        self.graph = graph
        self.branch = branch
        self.at = at
        self.format = format
        self._params: dict[str, Any] = {}
        self._mode = "rows"
        self._timing = False
        self._stored: str | None = None
        self._failed = False
        self._commands: dict[str, Callable[[str], None]] = {
            "branch": self._set_branch,
            "at": self._set_at,
            "params": self._set_params,
            "format": self._set_format,
            "use": self._set_stored,
            "run": lambda name: self._answer(options.named_file(self._need_stored()), name),
            "explain": lambda _: self._set_mode("explain"),
            "analyze": lambda _: self._set_mode("analyze"),
            "timing": lambda _: self._toggle_timing(),
            "schema": lambda _: print_line(self.graph.schema.show().rstrip("\n")),
            "types": lambda _: self._show_types(),
            "branches": lambda _: self._show_branches(),
            "help": lambda _: print_line(HELP),
        }

    def run(self, lines: Iterator[str]) -> int:
        """Answer statement after statement; the exit code says whether the last one of a script failed."""
        for statement in statements(lines):
            if statement.strip() in ("\\quit", "\\q", "exit", "quit"):
                break
            self._failed = False
            try:
                self._do(statement.strip())
            except OmnigraphError as error:
                self._failed = True
                report(error, json=False)
            except KeyboardInterrupt:
                note("interrupted")
            sys.stdout.flush()
        return FAILED if self._failed else 0

    def words(self) -> list[str]:
        """What can be completed: the language, the shell's commands, and the names of the schema."""
        catalog = self.graph.catalog()
        names = {*catalog.nodes, *catalog.interfaces, *(name[:1].lower() + name[1:] for name in catalog.edges)}
        names.update(p.name for node in catalog.nodes.values() for p in node.properties)
        names.update(p.name for edge in catalog.edges.values() for p in edge.properties)
        return sorted({*WORDS, *names, *(f"\\{name}" for name in (*self._commands, "quit"))})

    def _do(self, statement: str) -> None:
        if not statement.startswith("\\"):
            self._answer(as_query(statement), None)
            return
        name, _, rest = statement[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise InvalidArgument(f"the shell has no command \\{name}", hint="\\help shows them all")
        command(rest.strip())

    def _answer(self, query: str | Path, name: str | None) -> None:
        target = None
        if self.at is not None:
            target = self.graph.snapshot(self.at).commit_id
        begun = time.perf_counter()
        given = self._params_of(query, name)
        if self._mode == "rows":
            result = self.graph.query(query, name, given, branch=self.branch, snapshot=target)
            print_result(result, self.format, rows_shown(None, all_rows=False))
        else:
            analyze = self._mode == "analyze"
            print_line(str(self.graph.explain(query, name, given, self.branch, target, analyze=analyze)))
        if self._timing:
            print_line(f"{(time.perf_counter() - begun) * 1000:.1f} ms")

    def _params_of(self, query: str | Path, name: str | None) -> dict[str, Any]:
        """Those of the session's parameters that a query declares."""
        from omnigraph.handles.queries import source_of
        from omnigraph.query import parse_queries

        text, path = source_of(query, name)
        found = [q for q in parse_queries(text, path).queries if name is None or q.name.text == name]
        declared = {p.name.text for q in found for p in q.params}
        return {k: v for k, v in self._params.items() if k in declared}

    # --- commands -------------------------------------------------------------------------------------------------

    def _set_branch(self, name: str) -> None:
        self.graph.branches.get(name or "main")
        self.branch, self.at = name or None, None

    def _set_at(self, target: str) -> None:
        if target:
            self.graph.snapshot(target)
        self.at, self.branch = target or None, None

    def _set_params(self, text: str) -> None:
        try:
            value = json.loads(text or "{}")
        except ValueError as error:
            raise InvalidArgument(f"the parameters are not JSON: {error}", hint='write {"name": "Ada"}') from None
        if not isinstance(value, dict):
            raise InvalidArgument("the parameters must be one JSON object", hint='write {"name": "Ada"}')
        self._params = value

    def _set_format(self, name: str) -> None:
        if name not in FORMATS:
            raise InvalidArgument(f"there is no format {name!r}", hint=f"use {', '.join(FORMATS)}")
        self.format = name

    def _set_stored(self, path: str) -> None:
        from omnigraph.write.user_files import exists

        try:
            words = shlex.split(path)
        except ValueError as error:
            raise InvalidArgument(f"{path!r} has an open quote", hint="close it") from error
        if not words or not exists(words[0]):
            raise InvalidArgument(f"{path!r} does not exist", hint="name a .gq file or a directory of them")
        self._stored = words[0]

    def _need_stored(self) -> str:
        if self._stored is None:
            raise InvalidArgument("no stored queries are in use", hint="\\use PATH names them")
        return self._stored

    def _set_mode(self, mode: str) -> None:
        self._mode = "rows" if self._mode == mode else mode
        print_line(f"showing {'results' if self._mode == 'rows' else 'plans'}")

    def _toggle_timing(self) -> None:
        self._timing = not self._timing
        print_line(f"timing {'on' if self._timing else 'off'}")

    def _show_branches(self) -> None:
        for branch in self.graph.branches.list():
            print_line(branch.name)

    def _show_types(self) -> None:
        snapshot = options.snapshot_of(self.graph, self.branch, self.at)
        rows = [(*key.split(":", 1), entry.row_count) for key, entry in sorted(snapshot.tables.items())]
        print_table(["kind", "type", "entities"], rows)


def as_query(statement: str) -> str:
    """A statement as query text: what lacks its head gets one."""
    return statement if statement.lstrip().startswith("query") else f"query it() {{ {statement} }}"


def statements(lines: Iterator[str]) -> Iterator[str]:
    """Whole statements: a command of the shell, or lines up to balanced braces and the end of a thought.

    A statement ends at a blank line, at a semicolon, or where another one can only begin: after the braces of a
    `query` closed.
    """
    held: list[str] = []
    for line in lines:
        bare = line.strip()
        if not held and (bare.startswith("\\") or bare in ("exit", "quit")):
            yield bare
            continue
        if bare:
            held.append(line.rstrip().removesuffix(";"))
        text = "\n".join(held)
        is_balanced = depth_of(text) <= 0
        ends = not bare or bare.endswith(";") or text.lstrip().startswith("query")
        if held and is_balanced and ends:
            yield text
            held = []
    if held:
        yield "\n".join(held)


def depth_of(text: str) -> int:
    """How many braces are open, those in texts and comments left out."""
    depth, in_text, escaped = 0, False, False
    at = 0
    while at < len(text):
        mark = text[at]
        if in_text:
            in_text = escaped or mark != '"'
            escaped = mark == "\\" and not escaped
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif mark == '"':
            in_text = True
        else:
            depth += (mark == "{") - (mark == "}")
        at += 1
    return depth


def plain_lines(stream: TextIO) -> Iterator[str]:
    """Lines of a pipe or file."""
    yield from stream


def lines_of_terminal(repl: Repl, history: str) -> Iterator[str]:
    """Lines typed by a person; with prompt_toolkit they can be edited, completed and recalled."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory
    except ImportError:
        note("install `omnigraph[shell]` for history and completion")
        yield from _typed(input)
        return
    remembered: Any = FileHistory(str(Path(history).expanduser())) if history else InMemoryHistory()
    completer = WordCompleter(repl.words, WORD=False)
    session: Any = PromptSession(history=remembered, completer=completer, complete_while_typing=False)
    yield from _typed(session.prompt)


def _typed(ask: Callable[[str], str]) -> Iterator[str]:
    depth = 0
    while True:
        try:
            line = ask(MORE if depth > 0 else PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            depth = 0
            yield ""
            continue
        depth = max(0, depth + depth_of(line))
        yield line
