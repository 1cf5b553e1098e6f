"""`docs/dev/modules.md`: one sentence on every module. `python -m tests.docs.modules_page` writes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import omnigraph

ROOT = Path(__file__).parents[2]
SRC = Path(omnigraph.__file__).parent
PAGE = ROOT / "docs" / "dev" / "modules.md"
HEAD = """# Modules

One sentence on every module, from its docstring. [ARCHITECTURE.md](../../ARCHITECTURE.md) says how the packages stand
to each other: each imports only what stands above it.
"""


def render() -> str:
    """The page as it has to be."""
    packages: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        if path.name != "__init__.py":
            package = path.parent.relative_to(SRC).as_posix()
            packages.setdefault("" if package == "." else package, []).append(f"| `{path.name}` | {sentence(path)} |")
    parts = [HEAD]
    for package, rows in packages.items():
        parts.append(f"\n## {package or 'omnigraph'}\n\n| module | |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def sentence(path: Path) -> str:
    """The first sentence of a module's docstring, without the picture of the flow that may follow it."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    line = " ".join(text.split("\n\n", 1)[0].split())
    line = re.split(r"\s*\([^()]*->[^()]*\)\s*$", line)[0]
    return re.split(r"(?<=[.?!])\s+(?=[A-Z`])", line)[0].replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render())
