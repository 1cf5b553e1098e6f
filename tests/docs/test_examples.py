"""The demo runs, and the page about the command line is complete and true: its examples are run and compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from omnigraph.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "user" / "cli.md"
HOME = "/home/ada"
ON_EVERY_COMMAND = {"--store", "--json", "--help", "-h", "--quiet"}
MARK = "@@@"
VARIABLE = {
    r"\b[0-9A-HJKMNP-TV-Z]{26}\b": "<id>",
    r"\b[0-9a-hjkmnp-tv-z]{26}\b": "<id>",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "<time>",
    r'"created_at": \d+': '"created_at": <time>',
    r"\b\d+\.\d+\.\d+\b": "<version>",
    r"\b\d+(\.\d)? k?B\b": "<size>",
    r'"bytes_removed": \d+': '"bytes_removed": <size>',
    r"\bin \d+\.\d s\b": "in <seconds>",
    r"\bplan: [0-9a-f]{16}\b": "plan: <digest>",
}


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")}
    kept["OMNIGRAPH_PROGRESS_SECONDS"] = "0"  # a slow machine would have lines on stderr
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.processes
@pytest.mark.spark
def test_the_demo_runs(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"], cwd=tmp_path, env=environment(), text=True,
        capture_output=True, timeout=280, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    for line in (
        "pipeline.yaml: 11 sources, 0 problems",
        "DependsOn                         384",
        "987 entities in ",
        "Checked 987 entities in 11 tables: sound.",
        "harbor-queue | 1          | 9.6",
        "Answered by Spark: the same rows.",
        "Withdrawn releases on what-if: 16.",
        "Main is untouched: 9 withdrawn releases there.",
        "merging what-if into main would meet 1 conflict",
        f" * weekly_downloads  {'null':42}  {2:<42}  1",
        "merged what-if into main: merged",
        "Withdrawn releases on main now: 16.",
        "amber-http at version 4: MIT; now: AGPL-3.0-only.",
        "[tag: as-imported] load by demo",
        "\n|/\n",
        "amber-http is licensed under MIT again.",
        "40 of 40 commits are there",
        "could go.",
        "Done in ",
        "export OMNIGRAPH_STORE=demo/supply-chain.omni",
    ):
        assert line in ran.stdout


def examples(text: str | None = None, fence: str = "console") -> list[tuple[str, str]]:
    """The commands of the page, in order, each with the output that the page shows.

    Those that start Spark are fenced as `console spark`: they take longer than all others together.
    """
    found: list[tuple[str, str]] = []
    for block in re.findall(rf"^```{fence}\n(.*?)^```", text or PAGE.read_text(), flags=re.DOTALL | re.MULTILINE):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:], ""))
            elif line.startswith("> "):
                found[-1] = (found[-1][0] + line[2:], "")
            else:
                found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def masked(text: str) -> str:
    for pattern, name in VARIABLE.items():
        text = re.sub(pattern, name, text)
    return text


@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("bash") is None, reason="the page is written for a POSIX shell")
def test_every_example_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    compare(examples(), tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("bash") is None, reason="the page is written for a POSIX shell")
def test_every_example_that_needs_spark_prints_what_the_page_says(tmp_path: Path) -> None:
    compare([*examples(SECTIONS["init"]), *examples(SECTIONS["load"]), *examples(fence="console spark")], tmp_path)


def compare(wanted: list[tuple[str, str]], folder: Path) -> None:
    """Run commands in one shell; each prints what is wanted."""
    script = "".join(f"{command}echo {MARK}$?\n" for command, _ in wanted)
    ran = subprocess.run(
        ["bash"], input=script, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=580, check=True,
    )  # fmt: skip
    printed = ran.stdout.replace(str(folder), HOME)
    outcomes = re.findall(rf"(.*?){MARK}(\d+)\n", printed, flags=re.DOTALL)
    assert len(outcomes) == len(wanted)
    for (command, expected), (output, code) in zip(wanted, outcomes, strict=True):
        assert code == "0", f"{command}{output}"
        assert masked(output) == masked(expected), command


def commands(group: object = None, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command with its options and arguments as a user types them."""
    group = group or get_command(app)
    for name in group.commands:  # type: ignore[attr-defined]
        _, command, _ = group.resolve_command(None, [name])  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
            continue
        words: set[str] = {"--help"}
        for parameter in command.params:
            words.update(parameter.opts if parameter.param_type_name == "option" else {parameter.metavar.strip("[]")})
        yield path + name, words


SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize(
    ("command", "words"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_and_option_is_on_the_page(command: str, words: set[str]) -> None:
    section = SECTIONS[command]
    assert f"$ omnigraph {command}" in section or f"| omnigraph {command}" in section
    for word in words - ON_EVERY_COMMAND - {"URI"}:
        assert word in section, f"{command} {word}"
    for word in ON_EVERY_COMMAND:
        assert f"`{word}" in SECTIONS["Options of every command"]


def test_the_page_describes_no_command_that_does_not_exist() -> None:
    known = {name for name, _ in commands()}
    general = {"Which graph", "Options of every command", "On a terminal", "Targets", "Exit codes"}
    assert set(SECTIONS) == known | general
