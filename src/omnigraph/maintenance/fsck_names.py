"""Lost names: claims of branches and records of tags. Those that the store still proves can be put back."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.api.commits import Branch, Tag
from omnigraph.api.reports import LostName
from omnigraph.errors import CorruptGraph, OmnigraphError
from omnigraph.storage.layout import (
    AUDIT,
    CHANGES,
    CONDEMNED,
    LEDGERS,
    LOADS,
    MANIFEST,
    QUARANTINE,
    RECOVERY,
    REFS,
    SCHEMAS,
    TAG_COPIES,
    TAGS,
    manifest_path,
    tag_path,
    unquote_path,
)
from omnigraph.versioning.claims import MAIN, claim_path, parse_branch, parse_native
from omnigraph.versioning.history import find, walk
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.tags import parse_tag

_SEALED = (REFS, TAGS, SCHEMAS, CHANGES, LEDGERS, LOADS, AUDIT, CONDEMNED, RECOVERY)


def damaged_objects(repository: Repository) -> Iterator[tuple[str, OmnigraphError]]:
    """Control objects whose checksum does not match."""
    objects = repository.store.objects
    for prefix in _SEALED:
        for info in objects.list(f"{prefix}/"):
            if info.path.endswith((".json", ".staged")):
                try:
                    objects.get_json(info.path)
                except OmnigraphError as error:
                    yield info.path, error


def lost_names(repository: Repository) -> list[LostName]:
    """Claims and tag records that are missing or damaged."""
    return [*_lost_claims(repository), *_lost_tags(repository)]


def _lost_claims(repository: Repository) -> Iterator[LostName]:
    objects = repository.store.objects
    claim = claim_path(MAIN, 0)
    if _read_claim(repository, claim) is None:
        yield LostName("claim", MAIN, claim, f"{claim}, the claim of 'main', is gone or damaged", is_provable=True)
    found: dict[str, int] = {}
    for info in objects.list(f"{MANIFEST}/tree/"):
        _, _, native, *rest = info.path.split("/")
        found[native] = found.get(native, 0) + (rest[:1] == ["_versions"])
    for native, versions in sorted(found.items()):
        try:
            name, generation = parse_native(unquote_path(native))
        except CorruptGraph:  # a directory of another program
            continue
        path = claim_path(name, generation)
        status = repository.claims.listed(unquote_path(native))  # a damaged claim is one to report
        if not versions or status.is_closed or _is_closed(repository, name, unquote_path(native)):
            continue
        branch = _read_claim(repository, path)
        if branch is None or branch.native_branch != unquote_path(native):
            if branch is not None and versions == 1:
                continue  # the remains of a creation that lost against another
            location = manifest_path(unquote_path(native))
            problem = None if branch is None else f"{path} belongs to a later branch of that name"
            yield LostName(
                "claim", name, path, f"branch {name!r} has {versions} versions in {location} and no claim",
                is_provable=versions > 1 and problem is None, problem=problem, native_branch=unquote_path(native),
            )  # fmt: skip


def _is_closed(repository: Repository, name: str, native: str) -> bool:
    try:
        return repository.tips.of(name, native).state().closed
    except OmnigraphError:
        return False  # unreadable: other checks report it


def _read_claim(repository: Repository, path: str) -> Branch | None:
    """The claim at a path, or None when it is missing or damaged."""
    try:
        value = repository.store.objects.get_json(path)
        return None if value is None else parse_branch(value, path)
    except OmnigraphError:
        return None


def _lost_tags(repository: Repository) -> Iterator[LostName]:
    tags = repository.tags
    for name in sorted(tags.recorded_names(TAGS) | tags.recorded_names(TAG_COPIES)):
        paths = (tag_path(name), tag_path(name, TAG_COPIES))
        records = [_read_tag(repository, path) for path in paths]
        for path, record, other in zip(paths, records, reversed(records), strict=True):
            if record is None:
                problem = None if other is not None else "its second record is lost too"
                message = f"{path}, one of the two records of tag {name!r}, is missing or damaged"
                yield LostName("tag", name, path, message, is_provable=other is not None, problem=problem)
        if None not in records and records[0] != records[1]:
            yield LostName(
                "tag", name, paths[1], f"the two records of tag {name!r} differ",
                problem="delete the tag and create it again",
            )  # fmt: skip


def _read_tag(repository: Repository, path: str) -> Tag | None:
    try:
        value = repository.store.objects.get_json(path)
        return None if value is None else parse_tag(value, path)
    except OmnigraphError:
        return None


def restore(repository: Repository, lost: LostName) -> None:
    """Put a record back. A damaged object in its place goes to quarantine."""
    objects = repository.store.objects
    objects.move(lost.path, f"{QUARANTINE}/{lost.path.replace('/', '-')}")
    if lost.kind == "tag":
        tag = next(t for p in (TAGS, TAG_COPIES) if (t := _read_tag(repository, tag_path(lost.name, p))) is not None)
        repository.tags.record_again(tag)
    elif lost.name == MAIN:
        repository.claims.put_main()
    else:
        repository.claims.put(_proven_branch(repository, lost))


def _proven_branch(repository: Repository, lost: LostName) -> Branch:
    """A branch as its manifest proves it: its origin is the last commit that was made elsewhere."""
    native = lost.native_branch
    _, generation = parse_native(native)
    state = repository.tips.of(lost.name, native).state()
    objects = repository.store.objects
    commit = find(objects, state, state.head)
    first = commit
    while commit is not None and commit.native_branch == native:
        first = commit
        commit = find(objects, state, commit.parent_commit_id) if commit.parent_commit_id is not None else None
    if commit is None or first is None:
        oldest = list(walk(objects, state))[-1]
        return Branch(lost.name, native, MAIN, None, oldest.graph_commit_id, oldest.created_at, generation)
    return Branch(
        lost.name, native, commit.manifest_branch, commit.native_branch, commit.graph_commit_id, first.created_at,
        generation,
    )  # fmt: skip
