"""Which files a job has loaded: a list beside each of its commits, found through the key of the commit.

The key of a commit names the job and its previous commit. A branch holds one commit for a key, so of two runs that
started from the same list one publishes; the other finds the commit and reads the list again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.api.commits import GraphCommit
from omnigraph.errors import CorruptGraph
from omnigraph.storage.decode import Malformed, as_commit_id, as_flag, as_integer, as_list, as_object, as_text, decoding
from omnigraph.storage.layout import LOADS
from omnigraph.storage.objects import ObjectStore
from omnigraph.versioning.history import walk
from omnigraph.versioning.manifest import ManifestState

_PREFIX = "omnigraph:files:"
_WHOLE_EVERY = 64
"""Every 64th list names all files, the others those of their commit: a run reads few lists, and each stays short."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as it was loaded for one type: its size in bytes, its time of change in nanoseconds since the epoch."""

    type_name: str
    path: str
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class LoadList:
    """The files of one commit, or of the job so far. `run` identifies the run that wrote it."""

    run: str
    number: int
    is_whole: bool
    files: tuple[InputFile, ...]

    def to_json(self) -> dict[str, Any]:
        """The stored JSON form."""
        rows = [[f.type_name, f.path, f.size, f.modified] for f in self.files]
        return {"run": self.run, "number": self.number, "whole": self.is_whole, "files": rows}


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """The files that a job has loaded on a branch, by type and path, and the commit that its next commit follows."""

    files: Mapping[tuple[str, str], InputFile] = field(default_factory=dict)
    commits: Mapping[tuple[str, str], GraphCommit] = field(default_factory=dict)
    previous: str | None = None
    number: int = 0

    def next_list(self, run: str, files: Iterable[InputFile]) -> LoadList:
        """The list for a commit that loads some more files."""
        number, mine = self.number + 1, tuple(files)
        if number % _WHOLE_EVERY:
            return LoadList(run, number, False, mine)
        known = {**self.files, **{(f.type_name, f.path): f for f in mine}}
        return LoadList(run, number, True, tuple(known.values()))


def load_list_path(commit_id: str) -> str:
    """The path of a commit's list."""
    return f"{LOADS}/{commit_id}.json"


def load_key(job: str, previous: str | None) -> str:
    """The idempotency key of the commit of a job that follows another."""
    return f"{_PREFIX}{job}:{previous or ''}"


def has_load_list(idempotency_key: str | None) -> bool:
    """Whether a commit with this key has a list."""
    return idempotency_key is not None and idempotency_key.startswith(_PREFIX)


def read_load_list(objects: ObjectStore, commit_id: str) -> LoadList:
    """The list of a commit."""
    path = load_list_path(commit_id)
    value = objects.get_json(path)
    if value is None:
        raise CorruptGraph(f"{path} is missing: which files were loaded is unknown", hint="restore it from a copy")
    with decoding(path):
        value = as_object(value, "a list of loaded files")
        files = tuple(_file(as_list(row, "a file")) for row in as_list(value["files"], "a list of files"))
        number, is_whole = as_integer(value["number"], "a number"), as_flag(value["whole"], "a flag")
        return LoadList(as_commit_id(value["run"]), number, is_whole, files)


def _file(row: list[Any]) -> InputFile:
    if len(row) != 4:
        raise Malformed(f"a file has {len(row)} fields, not 4")
    return InputFile(
        as_text(row[0], "a type"), as_text(row[1], "a path"), as_integer(row[2], "a size"),
        as_integer(row[3], "a time"),
    )  # fmt: skip


def loaded_files(objects: ObjectStore, state: ManifestState, job: str) -> LoadedFiles:
    """Everything that a job has loaded on the branch. Of a file that was loaded several times, the last."""
    files: dict[tuple[str, str], InputFile] = {}
    commits: dict[tuple[str, str], GraphCommit] = {}
    previous: str | None = None
    number = 0
    for commit in walk(objects, state):
        if not _is_of(commit, job):
            continue
        listed = read_load_list(objects, commit.graph_commit_id)
        if previous is None:
            previous, number = commit.graph_commit_id, listed.number
        for each in listed.files:
            if (each.type_name, each.path) not in files:
                files[each.type_name, each.path] = each
                commits[each.type_name, each.path] = commit
        if listed.is_whole:
            break
    return LoadedFiles(files, commits, previous, number)


def _is_of(commit: GraphCommit, job: str) -> bool:
    """Whether a commit is one of a job, and not of a job whose name begins with this one's."""
    key, mine = commit.idempotency_key, f"{_PREFIX}{job}:"
    return key is not None and key.startswith(mine) and ":" not in key[len(mine) :]
