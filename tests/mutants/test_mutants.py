"""Mutants fit the source that they change, and each is killed by the tests that it names."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.run import BROKEN, EQUIVALENT, KILLED, ROOT, SURVIVED, Mutant, load, problems, verdict_of

WANTED = 150
AREAS = ("versioning/", "write/merge", "write/validation/", "maintenance/", "storage/")


def test_every_mutant_fits_the_source() -> None:
    assert problems(load()) == []


def test_there_are_mutants_of_every_core_package() -> None:
    mutants = load()
    assert len(mutants) >= WANTED
    counts = Counter(area for mutant in mutants for area in AREAS if mutant.file.startswith(area))
    assert min(counts[area] for area in AREAS) >= 5, counts


def test_a_mutant_that_does_not_fit_is_told(tmp_path: Path) -> None:
    source = tmp_path / "src" / "omnigraph"
    source.mkdir(parents=True)
    (source / "a.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    good = Mutant("good", "a.py", "x = 1", "x = 2", "a promise", ("test_a.py::test_a",))
    assert problems([good], tmp_path) == []
    wrong = {
        "twice": Mutant("twice", "a.py", "= 1", "= 2", "a promise", ("test_a.py",)),
        "gone": Mutant("gone", "a.py", "z = 1", "z = 2", "a promise", ("test_a.py",)),
        "no python": Mutant("no python", "a.py", "x = 1", "x =", "a promise", ("test_a.py",)),
        "no test": Mutant("no test", "a.py", "x = 1", "x = 2", "a promise", ("test_a.py::test_b",)),
        "no tests": Mutant("no tests", "a.py", "x = 1", "x = 2", "a promise", ()),
    }
    for name, mutant in wrong.items():
        assert len(problems([mutant], tmp_path)) == 1, name
    assert len(problems([good, good], tmp_path)) == 1


def test_verdicts() -> None:
    mutant = Mutant("one", "a.py", "x", "y", "a promise", ("t",))
    other = Mutant("two", "a.py", "x", "y", "a promise", ("t",), "nobody can tell")
    assert [verdict_of(status, mutant) for status in (0, 1, -9, 2, 5, 70)] == [
        SURVIVED, KILLED, KILLED, BROKEN, BROKEN, BROKEN,
    ]  # fmt: skip
    assert [verdict_of(status, other) for status in (0, 1)] == [EQUIVALENT, KILLED]


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_mutant_is_killed() -> None:
    """In a process of its own: this one has opened graphs and must not fork."""
    done = subprocess.run([sys.executable, "-m", "tests.mutants.run"], cwd=ROOT, check=False)
    assert done.returncode == 0
