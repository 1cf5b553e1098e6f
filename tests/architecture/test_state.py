"""Every cache, lock, thread, pool and changing module object has an owner, a bound and a line in docs/dev/state.md."""

from __future__ import annotations

import re
from pathlib import Path

import omnigraph
from tests.architecture.state import state_of

SRC = Path(omnigraph.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "dev" / "state.md"


def described() -> set[tuple[str, str]]:
    return set(re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", PAGE.read_text(), flags=re.M))


def test_everything_that_outlives_a_call_is_described() -> None:
    found = {(where, name) for where, name, _ in state_of(SRC)}
    assert found - described() == set(), "say in docs/dev/state.md who owns it, what bounds it and when it ends"
    assert described() - found == set(), "docs/dev/state.md describes what is not there"


def test_new_state_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(
        "import threading\nfrom functools import cache\n_seen = {}\n_count = 0\nFIXED = {}\n"
        "class Holder:\n    def __init__(self):\n        self._guard = threading.Lock()\n"
        "    def go(self):\n        self._worker = threading.Thread(target=print)\n"
        "@cache\ndef remember(x):\n    global _count\n    _count += 1\n    _seen[x] = 1\n    return FIXED.get(x)\n"
    )
    assert state_of(tmp_path) == {
        ("planted.py", "_guard", "lock"),
        ("planted.py", "_worker", "thread"),
        ("planted.py", "remember", "cache"),
        ("planted.py", "_seen", "module object"),
        ("planted.py", "_count", "module object"),
    }
