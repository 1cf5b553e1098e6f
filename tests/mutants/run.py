"""Runs mutants: each is one small change of the source that breaks one promise, and tests that must notice it.

    python -m tests.mutants.run [--only PATTERN] [--jobs N] [--no-baseline]

Mutants are data in `*.toml` beside this file. A run works in copies of the tree in a temporary directory. Libraries are
imported once and every mutant is tested in a forked process, so one takes as long as its tests. The exit status is 0
only when every mutant was killed, or is marked equivalent and survived.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
TIMEOUT = 120
KILLED, SURVIVED, EQUIVALENT, BROKEN = "killed", "survived", "equivalent", "broken"
_WARM = (
    "pytest", "_pytest.assertion.rewrite", "pytest_timeout", "xdist", "xdist.scheduler", "hypothesis",
    "_hypothesis_pytestplugin", "numpy", "pyarrow.compute", "pyarrow.parquet", "pyarrow.dataset", "pyarrow.csv",
    "pyarrow.json", "lance", "lance.fragment", "lance.optimize", "obstore", "rich.console", "typer", "ulid",
)  # fmt: skip
"""What tests import besides the project. Nothing of it starts a thread before it is used."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file under `src/omnigraph`. `equivalent` says why no test could tell the difference."""

    name: str
    file: str
    old: str
    new: str
    breaks: str
    killed_by: tuple[str, ...]
    equivalent: str | None = None

    def apply(self, text: str) -> str:
        """The text of the file with the change; raises where the old snippet is not there exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: the snippet occurs {count} times in {self.file}, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant; `detail` is the test that failed, or what went wrong."""

    mutant: Mutant
    verdict: str
    detail: str
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether the run may pass with it."""
        return self.verdict in (KILLED, EQUIVALENT)


def load(folder: Path = FOLDER) -> list[Mutant]:
    """Every mutant, in the order of files."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for each in tomllib.loads(path.read_text())["mutant"]:
            killed_by = tuple(each.pop("killed_by", ()))
            found.append(Mutant(killed_by=killed_by, **each))
    return found


def problems(mutants: Iterable[Mutant], root: Path = ROOT) -> list[str]:
    """What has to be mended before a run: snippets that moved, tests that are gone, names used twice."""
    found = []
    names: set[str] = set()
    for mutant in mutants:
        if mutant.name in names:
            found.append(f"{mutant.name}: the name is used twice")
        names.add(mutant.name)
        try:
            changed = mutant.apply((root / "src" / "omnigraph" / mutant.file).read_text())
            compile(changed, mutant.file, "exec")
        except (ValueError, SyntaxError, FileNotFoundError) as error:
            found.append(str(error) if isinstance(error, ValueError) else f"{mutant.name}: {error}")
        found += [f"{mutant.name}: there is no {t}" for t in mutant.killed_by if not _exists(root, t)]
        if not mutant.killed_by:
            found.append(f"{mutant.name}: names no test")
    return found


def _exists(root: Path, test: str) -> bool:
    file, _, function = test.partition("::")
    path = root / file
    return path.exists() and (not function or f"def {function.split('::')[-1].split('[')[0]}(" in path.read_text())


class Slot:
    """A copy of the tree in which one mutant at a time is tested."""

    def __init__(self, folder: Path, number: int) -> None:
        self.root = folder / f"tree{number}"
        ignored = shutil.ignore_patterns(".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
        shutil.copytree(ROOT, self.root, ignore=ignored)
        self._log = folder / f"log{number}"
        self._temporary = folder / f"tmp{number}"
        self._changed: tuple[Path, Path] | None = None
        self._stamp = time.time() - 1_000_000

    def change(self, mutant: Mutant | None) -> None:
        """Make one change, or none. Each has a time of its own, so that no compiled file of another stands for it."""
        if self._changed is not None:
            copy, original = self._changed
            shutil.copy2(original, copy)
            self._changed = None
        if mutant is not None:
            copy, original = self.root / "src" / "omnigraph" / mutant.file, ROOT / "src" / "omnigraph" / mutant.file
            copy.write_text(mutant.apply(original.read_text()))
            self._stamp += 10
            os.utime(copy, (self._stamp, self._stamp))
            self._changed = (copy, original)

    def start(self, tests: Sequence[str]) -> int:
        """Fork a process that runs tests in this tree; its id."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        pid = os.fork()
        if pid:
            return pid
        status = 70
        try:
            os.setsid()
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            os.environ |= {"PYTHONPATH": f"{self.root / 'src'}", "TMPDIR": str(self._temporary)}
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            sys.dont_write_bytecode = False  # compiled once for all mutants
            tempfile.tempdir = None
            os.chdir(self.root)
            inherited = [p for p in sys.path if p not in ("", str(ROOT), str(ROOT / "src"))]
            sys.path[:] = [str(self.root / "src"), str(self.root), *inherited]
            status = run_pytest(tests)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def failed_test(self) -> str:
        """The first test that failed, from the log; otherwise its last line."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        named = [line.split(" ")[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        return named[0] if named else next((line for line in reversed(lines) if line.strip()), "nothing was printed")

    def log(self) -> str:
        """Everything that the last run printed."""
        return self._log.read_text(errors="replace")


def run_pytest(tests: Sequence[str]) -> int:
    """Run tests in this process until one fails."""
    import pytest

    for name in [n for n in sys.modules if n.partition(".")[0] in ("tests", "omnigraph")]:
        del sys.modules[name]  # those of the tree that the run was started in
    options = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-m", "not s3 and not spark"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that were imported before the fork
    return int(pytest.main([*options, *tests]))


def verdict_of(status: int, mutant: Mutant) -> str:
    """What the exit status of the tests says of a mutant. A process that died or hung noticed it too."""
    if status in (2, 3, 4, 5, 70):  # nothing was collected, or pytest itself failed
        return BROKEN
    if status != 0:
        return KILLED
    return EQUIVALENT if mutant.equivalent else SURVIVED


class Run:
    """Some mutants over some slots."""

    def __init__(self, slots: Sequence[Slot], timeout: float = TIMEOUT) -> None:
        self._slots = slots
        self._timeout = timeout

    def outcomes(self, mutants: Sequence[Mutant]) -> Iterable[Outcome]:
        """The outcome of each, as they end."""
        waiting = list(mutants)
        free = list(self._slots)
        running: dict[int, tuple[Slot, Mutant, float]] = {}
        while waiting or running:
            while waiting and free:
                slot, mutant = free.pop(), waiting.pop(0)
                slot.change(mutant)
                running[slot.start(mutant.killed_by)] = (slot, mutant, time.monotonic())
            for pid, status in self._ended(running):
                slot, mutant, begun = running.pop(pid)
                verdict = verdict_of(status, mutant)
                detail = "" if verdict in (SURVIVED, EQUIVALENT) else slot.failed_test()
                yield Outcome(mutant, verdict, "timed out" if status < 0 else detail, time.monotonic() - begun)
                slot.change(None)
                free.append(slot)
            time.sleep(0.02)

    def _ended(self, running: dict[int, tuple[Slot, Mutant, float]]) -> Iterable[tuple[int, int]]:
        for pid, (_, _, begun) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() - begun > self._timeout:
                os.waitpid(pid, os.WNOHANG)
                _kill_session(pid)
                os.waitpid(pid, 0)
                yield pid, -1
            elif ended:
                _kill_session(pid)  # workers that it left
                yield pid, os.waitstatus_to_exitcode(status)


def _kill_session(pid: int) -> None:
    """End the processes of a run that was started here: all are in the group of its first one."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def warm() -> None:
    """Import libraries once, for every process that is forked from this one."""
    os.environ.setdefault("LANCE_LOG", "error")
    os.environ.setdefault("LANCE_USE_VERSION_HINT", "0")
    warnings.filterwarnings("ignore", "lance is not fork-safe")  # it is, as long as nothing was opened
    for name in _WARM:
        importlib.import_module(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants that were asked for and print what became of each."""
    parser = argparse.ArgumentParser(description="run mutants of the source against the tests that must kill them")
    parser.add_argument("--only", default="", help="mutants whose name or file this pattern matches")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=TIMEOUT)
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests pass without a mutant")
    parser.add_argument("--check", action="store_true", help="only check that every mutant fits the source")
    given = parser.parse_args(arguments)
    mutants = [m for m in load() if re.search(given.only, f"{m.name} {m.file}")]
    wrong = problems(mutants)
    for text in wrong:
        print(text, file=sys.stderr)
    if wrong or given.check:
        return 1 if wrong else 0
    warm()
    begun = time.monotonic()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # many small files, none of which has to last
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory) as folder:
        slots = [Slot(Path(folder), number) for number in range(given.jobs)]
        if not given.no_baseline and not passes_unchanged(slots[0], mutants):
            return 1
        outcomes = []
        for outcome in Run(slots, given.timeout).outcomes(mutants):
            outcomes.append(outcome)
            row = f"{outcome.verdict:<10} {outcome.mutant.name:<60} {outcome.seconds:6.1f} s  {outcome.detail}"
            print(row, flush=True)
    return report(outcomes, time.monotonic() - begun)


def passes_unchanged(slot: Slot, mutants: Sequence[Mutant]) -> bool:
    """Whether the tests pass as long as nothing is changed: otherwise their failing means nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.killed_by})
    _, status = os.waitpid(slot.start(tests), 0)
    if os.waitstatus_to_exitcode(status) != 0:
        print(f"the tests fail without any mutant:\n{slot.log()}", file=sys.stderr)
        return False
    return True


def report(outcomes: Sequence[Outcome], seconds: float) -> int:
    """Print the sums and what has to be done; the exit status."""
    counts = {
        verdict: sum(o.verdict == verdict for o in outcomes) for verdict in (KILLED, EQUIVALENT, SURVIVED, BROKEN)
    }
    print(f"\n{len(outcomes)} mutants in {seconds:.0f} s: " + ", ".join(f"{n} {v}" for v, n in counts.items()))
    for outcome in outcomes:
        if not outcome.is_good:
            print(f"  {outcome.verdict}: {outcome.mutant.name} ({outcome.mutant.file}): {outcome.mutant.breaks}")
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
