"""The documentation site: public names have a reference, pages their place, and nothing comes from elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph, errors, pipeline

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = {page.name: page.read_text() for page in sorted((ROOT / "docs/reference").glob("*.md"))}
NAMED = [name for text in REFERENCE.values() for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)]


def site_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs/site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def home_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def of_name(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", NAMED)
def test_what_the_reference_names_is_there_and_says_what_it_is(name: str) -> None:
    value = of_name(name)
    assert home_of(value) == name
    assert inspect.getdoc(value)


def test_every_public_name_has_a_reference(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node P { name: String @key }")
    public = [getattr(omnigraph, name) for name in omnigraph.__all__]
    public += [getattr(pipeline, name) for name in pipeline.__all__]
    public += [error for _, error in inspect.getmembers(errors, inspect.isclass)]
    namespaces = [value for name, value in vars(graph).items() if not name.startswith("_")]
    public += [type(value) for value in namespaces if type(value).__module__.startswith("omnigraph.handles")]
    homes = {home_of(each) for each in public if inspect.isclass(each) or inspect.isfunction(each)}
    assert {home for home in homes if home.startswith("omnigraph.")} - set(NAMED) == set()
    assert len(NAMED) == len(set(NAMED))


def test_every_page_has_its_place() -> None:
    listed = set(re.findall(r"- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    outside = {site_pages().site_path(path) for path in site_pages().OUTSIDE}
    assert listed == {page for page in pages if not page.startswith("adr/")} | outside


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("README.md", "docs/user/loading.md", "user/loading.md"),
        ("README.md", "ARCHITECTURE.md", "ARCHITECTURE.md"),
        ("docs/user/loading.md", "../../CHANGELOG.md", "../CHANGELOG.md"),
        ("docs/user/loading.md", "queries.md", "queries.md"),
        ("docs/dev/testing.md", "../../README.md", "../index.md"),
        ("benchmarks/RESULTS.md", "../docs/user/queries.md", "../user/queries.md"),
    ],
)
def test_links_are_moved_with_their_pages(source: str, link: str, expected: str) -> None:
    assert site_pages().site_link(source, link) == expected


@pytest.fixture(scope="module")
def needed() -> None:
    for module in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(module, reason="the extra `docs` is not installed")


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does: with `--quiet` a warning would be no failure."""
    [options] = re.findall(r"-m mkdocs build (.*)", (ROOT / "Makefile").read_text())
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options.split(), "--site-dir", site], cwd=folder, text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.mark.processes
@pytest.mark.usefixtures("needed")
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    ran = build(ROOT, tmp_path / "site")
    assert ran.returncode == 0, ran.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 80
    elsewhere = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")
    assert [page.name for page in pages if elsewhere.search(page.read_text())] == []
    assert 'id="omnigraph.graph.Graph.load"' in (tmp_path / "site/reference/graph.html").read_text()


@pytest.mark.processes
@pytest.mark.usefixtures("needed")
def test_links_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    links = ["nowhere.md", "loading.md#nowhere", "../reference/graph.md#omnigraph.graph.Graph.no"]
    for page in ("mkdocs.yml", *site_pages().OUTSIDE):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "src").symlink_to(ROOT / "src")
    with (tmp_path / "docs/user/search.md").open("a") as page:
        page.write("".join(f"\n[a link]({link})\n" for link in links))
    ran = build(tmp_path, tmp_path / "site")
    assert ran.returncode == 1
    assert [link for link in links if link not in ran.stderr] == []
