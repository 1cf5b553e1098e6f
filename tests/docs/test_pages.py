"""What the README and the user pages say is what happens."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import tomllib
from pathlib import Path

import pytest

from omnigraph import Graph, errors
from omnigraph.errors.store import REBUILD
from omnigraph.versioning.format_version import INTERNAL_SCHEMA_VERSION, STAMP
from tests.support.rows import person

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def blocks(text: str) -> list[tuple[str, str]]:
    """Fenced blocks as (language, body), in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def run_tour() -> int:
    """Run the README's blocks in the current directory; what they print is what the README says."""
    names: dict[str, object] = {}
    ran = 0
    found = blocks(README)
    for (language, body), (after, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "pg":
            Path("people.pg").write_text(body)
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(body, "README.md", "exec"), names)
        if printed.getvalue():
            assert after == "", "a block that prints is followed by its output"
            assert printed.getvalue() == expected
        ran += 1
    return ran


def masked(text: str) -> list[str]:
    text = re.sub(r"01[0-9A-Z]{24}", "ID", text)
    return [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line).rstrip() for line in text.splitlines()]


def test_the_tour_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.cli.main import run

    monkeypatch.chdir(tmp_path)
    assert run_tour() == 6
    shell = next(body for _, body in blocks(README) if body.startswith("$ omnigraph"))
    for line in shell.splitlines():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert run(line.split()[2:]) == 0, line
    picture = next(body for _, body in blocks(README) if body.startswith("* 01"))
    assert masked(printed.getvalue()) == masked(picture), "the last command draws the picture"


def test_every_error_is_documented() -> None:
    page = (ROOT / "docs/user/errors.md").read_text()
    for name, member in inspect.getmembers(errors, inspect.isclass):
        if issubclass(member, errors.OmnigraphError) and member is not errors.OmnigraphError:
            assert f"| `{member.code}` | `{name}` |" in page, f"{name} is missing from docs/user/errors.md"
            assert ("yes" in page.split(f"`{name}` |")[1][:6]) == member.retryable


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs/user/operations.md").read_text()
    sources = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    used = set(re.findall(r"\"((?:OMNIGRAPH|AWS)_[A-Z0-9_]+)\"", sources)) - {
        "OMNIGRAPH_FAILPOINT",
        "AWS_DEFAULT_REGION",
    }
    assert used
    missing = {name for name in used if name not in page}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_examples_are_python(page: Path) -> None:
    for language, body in blocks(page.read_text()):
        if language == "python":
            compile(body, page.name, "exec")


def test_the_architecture_page_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 150


def test_a_backup_taken_manifest_first_is_a_consistent_state(tmp_path: Path) -> None:
    import shutil

    from tests.conftest import SCHEMA

    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a")])
    shutil.copytree(tmp_path / "g/__manifest", tmp_path / "copy/__manifest")
    graph.load([person("b")])
    shutil.copytree(tmp_path / "g", tmp_path / "copy", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__manifest"))
    copy = Graph.open(tmp_path / "copy")
    assert copy.rows("node:Person")["name"].to_pylist() == ["a"]
    assert copy.load([person("c")]).commit is not None


def test_the_versions_that_the_policy_names_are_those_of_the_code() -> None:
    page = (ROOT / "docs/user/versioning-policy.md").read_text()
    assert re.findall(r"internal schema (\d+)", page) == [str(INTERNAL_SCHEMA_VERSION)]
    assert f"| {INTERNAL_SCHEMA_VERSION} | this one |" in page
    assert f"| above {INTERNAL_SCHEMA_VERSION} |" in page
    assert f"`{STAMP}`" in page
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [pin] = [name for name in project["dependencies"] if name.startswith("pylance")]
    assert f"`{pin}`" in page
    assert "(docs/user/versioning-policy.md)" in (ROOT / "README.md").read_text()


def test_the_way_to_another_format_is_the_one_that_errors_name() -> None:
    page = (ROOT / "docs/user/versioning-policy.md").read_text()
    steps = REBUILD.replace("URI", "old.omni").replace("NEW", "new.omni").split("`")[1::2]
    assert len(steps) == 4
    assert [line for line in page.splitlines() if line in steps] == steps
