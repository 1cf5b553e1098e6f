"""What outlives a call: caches, locks, threads, pools and module-level objects that change, found in syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

MAKERS = {
    "Lock": "lock", "RLock": "lock", "Condition": "lock", "FairLock": "lock", "Thread": "thread",
    "ThreadPoolExecutor": "pool", "CountedPool": "pool", "BoundedCache": "cache", "CacheBudget": "cache",
    "WeakKeyDictionary": "cache", "ContextVar": "variable", "lru_cache": "cache", "cache": "cache",
}  # fmt: skip
"""Calls and decorators that make something which outlives the call, by the name they are called by."""
COLLECTIONS = ("dict", "set", "list", "OrderedDict", "Counter")
MUTABLE = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)


def state_of(root: Path) -> set[tuple[str, str, str]]:
    """File, name and kind of everything that is kept."""
    found: set[tuple[str, str, str]] = set()
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text())
        found.update((where, name, kind) for name, kind in _kept(tree))
        found.update((where, name, "module object") for name in _module_objects(tree))
    return found


def _kept(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if {_called(decorator) for decorator in node.decorator_list} & {"cache", "lru_cache"}:
                yield node.name, "cache"
            returned = {_called(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Return)}
            if returned & {"ThreadPoolExecutor", "CountedPool"}:
                yield node.name, "pool"
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            kind = MAKERS.get(_called(node.value) or "")
            if kind is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    yield ast.unparse(target).removeprefix("self."), kind


def _module_objects(tree: ast.Module) -> Iterator[str]:
    """Module-level names that functions assign anew, and collections that functions change."""
    names = {
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    assigned = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    changed = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, (ast.Store, ast.Del))
        and isinstance(node.value, ast.Name)
    } | {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        and node.func.attr in ("append", "add", "update", "pop", "setdefault", "clear", "discard", "remove", "insert")
    }  # fmt: skip
    collections = {
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        and (isinstance(node.value, MUTABLE) or _called(node.value) in COLLECTIONS)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }  # fmt: skip
    yield from sorted((names & assigned) | (collections & changed))


def _called(node: ast.expr | None) -> str | None:
    """The last name of what is called or used as a decorator: `Lock` of `threading.Lock()`."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
