"""What the documentation site adds to `docs/`: pages of the repository that lie outside, and the list of decisions.

The site is the tree of the repository without the folder `docs`, so a link keeps its meaning when both its ends move.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#]+)")


def on_config(config: Any) -> Any:
    """Add a tab with every decision, in their order."""
    decisions = sorted(path.name for path in (ROOT / "docs/adr").glob("*.md"))
    config.nav.append({"Decisions": [f"adr/{name}" for name in decisions]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside of `docs`."""
    from mkdocs.structure.files import File  # links can be computed without it

    for path in OUTSIDE:
        files.append(File.generated(config, site_path(path), content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead where their targets lie in the site."""
    here = source_path(page.file.src_uri)
    return _LINK.sub(lambda found: f"]({site_link(here, found[1])}", markdown)


def source_path(page: str) -> str:
    """Where a page of the site lies in the repository."""
    outside = {site_path(path): path for path in OUTSIDE}
    return outside.get(page, f"docs/{page}")


def site_path(path: str) -> str:
    """Where a file of the repository lies in the site."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def site_link(source: str, link: str) -> str:
    """A relative link of a file of the repository as one of its page."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return posixpath.relpath(site_path(target), posixpath.dirname(site_path(source)) or ".")
