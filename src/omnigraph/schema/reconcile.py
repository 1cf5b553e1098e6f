"""Merge the schema changes of two branches: three catalogs become one.

Types and properties are matched by identity, so a rename on one side and another change on the other side combine. A
part that both sides changed differently is a reported problem; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.schema import codec
from omnigraph.schema.catalog import Catalog

Json = dict[str, Any]
_SETS = ("values", "uniques", "indexes", "ranges", "checks", "implements", "annotations", "hidden")
_COLUMN = ".column"


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """A part that both sides changed in incompatible ways. `entity` reads `node:Person.age`."""

    entity: str
    message: str
    base: Any = None
    ours: Any = None
    theirs: Any = None


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The merged catalog and its problems; with problems, the catalog is ours."""

    catalog: Catalog
    problems: tuple[SchemaProblem, ...] = ()


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def reconcile(base: Catalog, ours: Catalog, theirs: Catalog) -> Reconciled:
    """Merge three catalogs."""
    if ours.contract_hash in (base.contract_hash, theirs.contract_hash):
        return Reconciled(theirs)
    if theirs.contract_hash == base.contract_hash:
        return Reconciled(ours)
    problems: list[SchemaProblem] = []
    merged = _merge("", _abstract(base), _abstract(ours), _abstract(theirs), problems)
    problems.extend(_clashes(merged) if not problems else ())
    if problems:
        return Reconciled(ours, tuple(problems))
    return Reconciled(_concrete(merged))


def _abstract(catalog: Catalog) -> Json:
    """Return a catalog whose parts refer to each other by identity: types and properties by id, interfaces by name."""
    body = catalog.to_json()
    nodes = {each["name"]: each["type_id"] for each in body["nodes"]}
    found: Json = {"nodes": {}, "edges": {}, "interfaces": {each["name"]: each for each in body["interfaces"]}}
    for kind in ("nodes", "edges"):
        for each in body[kind]:
            ids = {p["name"]: p["property_id"] for p in each["properties"]}
            renamed = _with_names(each, ids)
            for end in ("source", "target"):
                if end in renamed:
                    renamed[end] = nodes[renamed[end]]
            renamed["properties"] = {p["property_id"]: p for p in renamed["properties"]}
            found[kind][each["type_id"]] = renamed
    return found


def _concrete(body: Json) -> Catalog:
    """The inverse of `_abstract`."""
    types: Json = {"interfaces": list(body["interfaces"].values()), "nodes": [], "edges": []}
    names = {type_id: each["name"] for type_id, each in body["nodes"].items()}
    for kind in ("nodes", "edges"):
        for each in body[kind].values():
            properties = {p["property_id"]: p["name"] for p in each["properties"].values()}
            plain = _with_names({**each, "properties": list(each["properties"].values())}, properties)
            # A property dropped on one side and restored on the other exists; one dropped on both is hidden once.
            hidden = {p["property_id"]: p for p in plain["hidden"] if p["property_id"] not in properties}
            plain["hidden"] = list(hidden.values())
            for end in ("source", "target"):
                if end in plain:
                    plain[end] = names[plain[end]]
            types[kind].append(plain)
    return Catalog.from_json(types)


def _with_names(each: Json, names: Mapping[str, str]) -> Json:
    """Return a type's JSON with every reference to a property replaced."""

    def named(name: str) -> str:
        return names.get(name, name)

    properties = [
        {**p, "embed": {**p["embed"], "source": named(p["embed"]["source"])}} if p["embed"] else dict(p)
        for p in each["properties"]
    ]
    return {
        **each,
        "properties": properties,
        "key": [named(n) for n in each["key"]],
        "uniques": [[named(n) for n in group] for group in each["uniques"]],
        "indexes": [{**i, "properties": [named(n) for n in i["properties"]]} for i in each["indexes"]],
        "ranges": [{**r, "property": named(r["property"])} for r in each["ranges"]],
        "checks": [{**c, "property": named(c["property"])} for c in each["checks"]],
    }


def _merge(where: str, base: Any, ours: Any, theirs: Any, problems: list[SchemaProblem]) -> Any:
    if _same(ours, theirs) or _same(base, theirs):
        return ours
    if _same(base, ours):
        return theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _merge_parts(where, base if isinstance(base, dict) else {}, ours, theirs, problems)
    if where.rpartition(".")[2] in _SETS and isinstance(ours, list) and isinstance(theirs, list):
        return _merge_sets(base if isinstance(base, list) else [], ours, theirs)
    if where.endswith(_COLUMN) and isinstance(ours, str) and isinstance(theirs, str):
        return ours  # both sides widened it, each into a new column; a different type is reported with the type
    problems.append(SchemaProblem(where, f"both branches changed {where}", *map(_shown, (base, ours, theirs))))
    return ours


def _merge_parts(where: str, base: Json, ours: Json, theirs: Json, problems: list[SchemaProblem]) -> Json:
    merged: Json = {}
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        was, mine, other = (side.get(name, ABSENT) for side in (base, ours, theirs))
        found = _merge(_path(where, name, [was, mine, other]), was, mine, other, problems)
        if found is not ABSENT:
            merged[name] = found
    return merged


def _path(where: str, name: str, three: list[Any]) -> str:
    """Return a path for messages, with names in the place of ids."""
    shown = next((each["name"] for each in three if isinstance(each, dict) and "name" in each), name)
    if not where:
        return name.removesuffix("s")
    if where in ("node", "edge", "interface"):
        return f"{where}:{shown}"
    return where if name == "properties" else f"{where}.{shown}"


def _merge_sets(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    keys = {codec.canonical_json(each): each for each in (*base, *ours, *theirs)}
    was, mine, other = ({codec.canonical_json(each) for each in side} for side in (base, ours, theirs))
    return [keys[k] for k in sorted((mine | other) - (was - mine) - (was - other))]


def _same(left: Any, right: Any) -> bool:
    if left is ABSENT or right is ABSENT:
        return left is right
    return codec.canonical_json(left) == codec.canonical_json(right)


def _shown(value: Any) -> Any:
    return None if value is ABSENT else value


def _clashes(body: Json) -> list[SchemaProblem]:
    """Find duplicate names, and references to parts that the other side dropped."""
    problems = []
    for kind, types in (("node", body["nodes"]), ("edge", body["edges"])):
        seen: set[str] = set()
        for each in types.values():
            name = each["name"].lower() if kind == "edge" else each["name"]
            if name in seen:
                problems.append(SchemaProblem(f"{kind}:{each['name']}", f"both branches have a {kind} {each['name']}"))
            seen.add(name)
            problems.extend(_property_clashes(f"{kind}:{each['name']}", each))
    for edge in body["edges"].values():
        for end in ("source", "target"):
            if edge[end] not in body["nodes"]:
                where = f"edge:{edge['name']}"
                problems.append(SchemaProblem(where, f"{where} ends at a node type that the other branch dropped"))
    return problems


def _property_clashes(where: str, each: Json) -> list[SchemaProblem]:
    problems = []
    names: set[str] = set()
    for prop in each["properties"].values():
        if prop["name"] in names:
            message = f"both branches added a property {prop['name']} to {where}"
            problems.append(SchemaProblem(f"{where}.{prop['name']}", message))
        names.add(prop["name"])
    mentioned = {*each["key"], *(n for group in each["uniques"] for n in group)}
    mentioned |= {n for i in each["indexes"] for n in i["properties"]}
    mentioned |= {c["property"] for c in (*each["ranges"], *each["checks"])}
    gone = sorted(mentioned - each["properties"].keys() - {"src", "dst"})
    message = f"a constraint of {where} needs a property that the other branch dropped"
    return [*problems, *(SchemaProblem(where, message) for _ in gone)]
