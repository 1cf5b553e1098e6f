"""Finds calls that could move a HEAD of Lance: in the source tree, whatever their receiver is called.

A name that only Lance has is forbidden everywhere. A name that lists, sets and our own objects have too (`update`,
`delete`, `commit`) is allowed only where the receiver is visibly one of those. What remains are the places where tables
and manifests are born and swapped, listed one by one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

LANCE_ONLY = frozenset(
    """
    add_bases add_columns alter_columns cleanup_old_versions commit_batch commit_existing_index_segments compact_files
    create_branch create_index create_index_uncommitted create_scalar_index deep_clone delete_branch delete_config_keys
    disable_auto_cleanup drop_columns drop_index enable_auto_cleanup execute_uncommitted initialize_mem_wal
    mem_wal_writer merge_columns merge_existing_index_segments merge_index_metadata merge_insert
    migrate_manifest_paths_v2 optimize_indices replace_field_metadata replace_metadata replace_schema
    replace_schema_metadata restore shallow_clone truncate_table update_columns update_config update_field_metadata
    update_metadata update_schema_metadata write_dataset MergeInsertBuilder _commit _ds
""".split()  # noqa: SIM905
)
"""Mutators of a dataset, its tags, its branches and its optimizer, and the ways around them."""

OF_CONTAINERS = frozenset({"append", "insert", "update"})
"""Methods that lists, sets and dictionaries have too."""

OURS = {
    "delete": r"(^|\.)_?objects$|(^|\.)_?repository\.(refs|tags)$|^self\.(refs|tags)$|^graph\.(branches|tags)$",
    "create_branch": r"(^|\.)_?repository$",
    "commit": r"(^|\.)_?txn$|(^|\.)_?repository$",
    "merge": r"^graph\.branches$|(^|\.)_?(found|known|compared)$|^self\._compared\(table_key\)$",
    "delete_branch": r"^request$",
    "execute": r"^task$|^engine$|^SparkExecutor\(.*\)$",
    "optimize": r"^graph\.maintenance$|^(table_)?upkeep$",
    "restore": r"^(graph|undo)$",
    "tags": r"^(completion|self|graph|report|found|history|opened|options\.open_to_read\(.*\))$|(^|\.)_?repository$",
    "branches": r"^(completion|(self\.)?graph|self|report|found|history|checker|opened|options\.open_to_read\(.*\))$",
}
"""Receivers that are ours, by the method or property asked of them. `commit` as a property is the id of a commit."""

ALLOWED = {
    ("storage/maintenance_tasks.py", "_build", "handle.create_index_uncommitted"): "committed detached",
    ("storage/tables.py", "create", "lance.write_dataset"): "the birth of a table",
    ("storage/tables.py", "create", "dataset.tags"): "the guard tag of a table's first version",
    ("storage/tables.py", "create", "LanceDataset.commit"): "the second birth of a table",
    ("storage/manifest_table.py", "_create_first", "LanceDataset.commit"): "the birth of a branch's manifest",
    ("storage/manifest_table.py", "compare_and_swap", "LanceDataset.commit"): "the swap",
    ("storage/columns.py", "add_columns", "widened.append"): "a schema in memory",
    ("storage/objects.py", "", "obstore.delete"): "control objects",
    ("storage/objects.py", "", "self.delete"): "control objects",
    ("versioning/refs.py", "", "self.delete"): "a branch by its name",
    ("versioning/repository.py", "at_commit", "self.commit"): "finds a commit by its id",
    ("storage/columns.py", "_with_values", "fragment.merge_columns"): "committed detached",
    ("cli/progress.py", "__call__", "self._display.update"): "a progress bar",
    ("cli/startup.py", "without_pandas", "sys.meta_path.insert"): "a list of Python's",
    ("write/inputs/change_events.py", "", "self.delete"): "values of a column that mean a delete",
    ("pipeline/cdc_frames.py", "", "self._cdc.delete"): "values of a column that mean a delete",
}  # fmt: skip
"""File, function and call, once; in a whole file where no function is named. The value says what it is."""

IMPORTED = {
    "lance": {"Index", "LanceDataset", "LanceOperation"},
    "lance.commit": {"CommitConflictError"},
    "lance.file": {"LanceFileReader", "LanceFileSession"},
    "lance.fragment": {"DataFile", "FragmentMetadata", "write_fragments"},
    "lance.otel": {"register_lance_metrics_recorder", "snapshot_lance_metrics"},
    "lance.optimize": {"Compaction", "CompactionTask"},
    "lance.schema": {"LanceSchema"},
}
"""What may be imported by name from lance, under that name."""

_CONTAINER = re.compile(
    r"^(collections\.)?(list|set|dict|List|defaultdict|Counter|OrderedDict|deque|Mutable\w+|bytearray)\b"
)
_VALUE_OF_DICT = re.compile(
    r"^(dict|defaultdict|OrderedDict|Mapping|MutableMapping)\[.*, (list|set|dict|Counter)\[[^,]*\]\]$"
)
_MAKERS = {"list", "set", "dict", "defaultdict", "Counter", "OrderedDict", "deque", "sorted", "field", "array", "Text"}


Bound = ast.expr | str | None
"""A value, an annotation, or neither."""


@dataclass
class _Bindings:
    """What names are bound to: by function for local names, by attribute name for the whole tree."""

    local: dict[int, dict[str, list[Bound]]] = field(default_factory=dict)
    attributes: dict[str, list[Bound]] = field(default_factory=dict)
    enclosing: dict[int, list[ast.AST]] = field(default_factory=dict)


def breaches(root: Path) -> list[str]:
    """Every call that could move a HEAD and is not allowed, as `file:line call`."""
    trees = {path.relative_to(root).as_posix(): ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}
    bindings = _Bindings()
    for module in trees.values():
        _bind(module, bindings)
    used: dict[tuple[str, str, str], int] = {}
    found = []
    for where, module in trees.items():
        for node, name in _mentions(module):
            call = ast.unparse(node)
            function = next(
                (f.name for f in reversed(bindings.enclosing[id(node)]) if isinstance(f, ast.FunctionDef)), ""
            )
            if _is_harmless(node, name, bindings):
                continue
            key = (where, function, call)
            if key not in ALLOWED:
                key = (where, "", call)
            used[key] = used.get(key, 0) + 1
            if key not in ALLOWED or (key[1] and used[key] > 1):
                found.append(f"{where}:{node.lineno} {call}")
        found += [f"{where}:{node.lineno} {what}" for node, what in _imports(module)]
    return found


def _mentions(module: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Expressions that may reach a mutator, with its name."""
    called = {id(node.func): node for node in ast.walk(module) if isinstance(node, ast.Call)}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if _may_reach(node, called.get(id(node))):
                yield node, node.attr
        elif isinstance(node, ast.Name) and node.id in ("write_dataset", "MergeInsertBuilder"):
            yield node, node.id
        elif isinstance(node, ast.Call) and _is_name(node.func, "getattr", "attrgetter", "methodcaller"):
            names = {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
            for name in names & (LANCE_ONLY | OF_CONTAINERS | set(OURS)):
                yield node, name


def _may_reach(node: ast.Attribute, call: ast.Call | None) -> bool:
    if _is_name(node.value, "LanceDataset") and node.attr == "commit":
        return call is None or not _is_detached(call)
    if _is_name(node.value, "Compaction"):
        return True
    if call is None and node.attr in ("_commit", "commit", "update"):
        return False  # fields of ours
    return node.attr in LANCE_ONLY or node.attr in OURS or node.attr in OF_CONTAINERS


def _is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_detached(call: ast.Call) -> bool:
    return any(
        k.arg == "detached" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords
    )


def _imports(module: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "lance" and (alias.name != "lance" or alias.asname):
                    yield node, f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lance":
            for alias in node.names:
                if alias.name not in IMPORTED.get(node.module or "", set()) or alias.asname:
                    yield node, f"from {node.module} import {alias.name}"


def _is_harmless(node: ast.expr, name: str, bindings: _Bindings) -> bool:
    if not isinstance(node, ast.Attribute) or (name in LANCE_ONLY and name not in OURS):
        return False
    receiver = ast.unparse(node.value)
    if receiver == "Compaction":
        return name == "plan"
    if name in OF_CONTAINERS:
        return receiver == "np" or _is_container(node.value, node, bindings)
    if not re.search(OURS[name], receiver):
        return False
    # A local name of ours has to come from something of ours as well.
    for value in _bound(node.value, node, bindings) if isinstance(node.value, ast.Name) else ():
        if isinstance(value, ast.expr) and re.search(r"dataset|handle|lance", ast.unparse(value)):
            return False
    return True


def _is_container(value: Bound, at: ast.AST, bindings: _Bindings, depth: int = 0) -> bool:  # noqa: C901
    """Whether an expression, or what is annotated so, is visibly a list, a set, a dictionary or the like."""
    if value is None or depth > 6:
        return False
    if isinstance(value, str):
        return bool(_CONTAINER.match(value.removesuffix(" | None")))

    def again(other: Bound) -> bool:
        return _is_container(other, at, bindings, depth + 1)

    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(ast.Attribute(_, "setdefault"), [_, default]):
            return again(default)
        case ast.Call(ast.Attribute(_, "copy") as copied):
            return again(copied.value)
        case ast.Call(ast.Subscript(made)):
            return isinstance(made, ast.Name) and made.id in _MAKERS
        case ast.Call(made):
            return ast.unparse(made).split(".")[-1] in _MAKERS
        case ast.IfExp():
            return again(value.body) and again(value.orelse)
        case ast.BinOp():
            return again(value.left) and again(value.right)
        case ast.Subscript():
            return any(_holds_containers(v, again) for v in (*_bound(value.value, at, bindings), value.value))
        case ast.Name():
            bound = _bound(value, at, bindings)
            return bool(bound) and all(again(v) for v in bound)
        case ast.Attribute():  # classes share names of fields: one has to be a container, none a dataset
            bound = _bound(value, at, bindings)
            texts = [v if isinstance(v, str) else ast.unparse(v) for v in bound if v is not None]
            return any(again(v) for v in bound) and not any("dataset" in text.lower() for text in texts)
    return False


def _holds_containers(value: Bound, is_container: Callable[[Bound], bool]) -> bool:
    if isinstance(value, str):
        return bool(_VALUE_OF_DICT.match(value)) or bool(re.match(r"^list\[(list|set|dict)\[", value))
    if isinstance(value, ast.Dict):
        return bool(value.values) and all(is_container(each) for each in value.values)
    if isinstance(value, ast.DictComp):
        return bool(is_container(value.value))
    if isinstance(value, (ast.List, ast.Tuple)):
        return bool(value.elts) and all(is_container(each) for each in value.elts)
    return isinstance(value, ast.Call) and bool(re.match(r"^defaultdict\((list|set|dict)\)", ast.unparse(value)))


def _bound(value: ast.expr, at: ast.AST, bindings: _Bindings) -> list[Bound]:
    if isinstance(value, ast.Attribute):
        return bindings.attributes.get(value.attr, [])
    if isinstance(value, ast.Name):
        for scope in reversed(bindings.enclosing.get(id(at), [])):
            found = bindings.local.get(id(scope), {}).get(value.id)
            if found:
                return found
    return []


def _bind(module: ast.Module, bindings: _Bindings) -> None:
    todo: list[tuple[ast.AST, list[ast.AST]]] = [(module, [module])]
    while todo:
        node, scopes = todo.pop()
        bindings.enclosing[id(node)] = scopes
        for target, value in _assigned(node):
            _put(target, value, scopes[-1], isinstance(node, (ast.Assign, ast.AnnAssign)), bindings)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            scopes = [*scopes, node]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                text = ast.unparse(each.annotation) if each.annotation else None
                bindings.local.setdefault(id(node), {}).setdefault(each.arg, []).append(text)
        todo += [(child, scopes) for child in ast.iter_child_nodes(node)]


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, Bound]]:
    """What a statement binds, to which value or annotation; None for what cannot be told."""
    match node:
        case ast.Assign():
            yield from ((target, node.value) for target in node.targets)
        case ast.AnnAssign():
            text = ast.unparse(node.annotation)
            yield node.target, node.value if node.value is not None and "[" not in text else text
        case ast.NamedExpr():
            yield node.target, node.value
        case ast.For() | ast.comprehension():
            yield node.target, None
        case ast.withitem() if node.optional_vars is not None:
            yield node.optional_vars, None


def _put(target: ast.expr, value: Bound, scope: ast.AST, is_statement: bool, bindings: _Bindings) -> None:
    match target:
        case ast.Name(name) if is_statement and isinstance(scope, ast.ClassDef):
            bindings.attributes.setdefault(name, []).append(value)
        case ast.Name(name):
            bindings.local.setdefault(id(scope), {}).setdefault(name, []).append(value)
        case ast.Attribute(_, name):
            bindings.attributes.setdefault(name, []).append(value)
        case ast.Tuple(elements) | ast.List(elements):
            is_unpacked = isinstance(value, ast.Tuple) and len(value.elts) == len(elements)
            for number, each in enumerate(elements):
                its = value.elts[number] if is_unpacked and isinstance(value, ast.Tuple) else None
                _put(each, its, scope, is_statement, bindings)
