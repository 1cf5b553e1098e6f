"""Jobs that load each file once: compare the present files with the loaded ones, and load the rest. ADR 39.

list files -> read the lists of earlier loads -> load the rest, with a key that one commit can have -> look again
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.api.results import LoadResult
from omnigraph.errors import ConflictError, InvalidArgument, JobError, NotFound
from omnigraph.graph import Graph
from omnigraph.pipeline.job_model import Job
from omnigraph.pipeline.job_sources import Listed, listed_sources
from omnigraph.versioning.load_lists import InputFile, LoadedFiles, LoadList, load_key, loaded_files, read_load_list
from omnigraph.versioning.store import mint
from omnigraph.write.inputs.locations import locate, readable
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.load import MERGE

_ATTEMPTS = 16
LOADED, PENDING, CHANGED = "loaded", "pending", "changed"
Load = Callable[[Job, Listed, LoadList], LoadResult]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file of a job: `loaded`, `pending`, or `changed` since it was loaded; the commit that loaded it."""

    type_name: str
    path: str
    state: str
    size: int
    commit_id: str | None = None
    loaded_at: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "type": self.type_name, "path": self.path, "state": self.state, "size": self.size,
            "commit": self.commit_id, "loaded_at": self.loaded_at,
        }  # fmt: skip


def job_status(graph: Graph, job: Job, access: S3Access | None = None) -> list[FileStatus]:
    """Return every file that the sources of a job name, and whether it was loaded."""
    known = _known(graph, job)
    return [_status(known, each) for each in _input_files(listed_sources(job, access), access)]


def load_new_files(graph: Graph, job: Job, access: S3Access | None, load: Load) -> LoadResult:
    """Load the files that were not loaded before. When another run was faster, load the files that it left."""
    return _load_chosen(graph, job, access, load, _chooser(job))


def load_again(graph: Graph, job: Job, access: S3Access | None, load: Load, since: dt.datetime | None) -> LoadResult:
    """Load files again, all or those that changed since a moment, and new files."""
    if not job.incremental:
        raise JobError("the job is not incremental: a run loads every file", hint="use `pipeline run`")
    if job.mode != MERGE:
        hint = "set `mode: merge`, or delete the rows first"
        raise InvalidArgument(f"a backfill would add rows twice: the job's mode is {job.mode}", hint=hint)
    first = None if since is None else int(since.timestamp() * 1_000_000_000)
    return _load_chosen(graph, job, access, load, lambda status, file: first is None or file.modified >= first)


def _chooser(job: Job) -> Callable[[FileStatus, InputFile], bool]:
    def is_wanted(status: FileStatus, file: InputFile) -> bool:
        if status.state == CHANGED and job.mode != MERGE:
            raise JobError(
                f"{file.path} has changed since commit {status.commit_id} loaded it",
                hint="give new rows a file of their own, or use `mode: merge` to load changed files again",
            )
        return status.state != LOADED

    return is_wanted


def _load_chosen(
    graph: Graph, job: Job, access: S3Access | None, load: Load, is_wanted: Callable[[FileStatus, InputFile], bool]
) -> LoadResult:
    listed = listed_sources(job, access)
    files = list(_input_files(listed, access))
    empty = LoadResult(job.branch, job.mode, {}, {}, None, dry_run=job.dry_run)
    for _ in range(_ATTEMPTS):
        known = _known(graph, job)
        chosen = [file for file in files if is_wanted(_status(known, file), file)]
        if not chosen:
            return empty
        mine = known.next_list(mint(), chosen)
        keyed = replace(job, idempotency_key=load_key(job.name, known.previous))
        result = load(keyed, _only(listed, chosen), mine)
        if result.commit is None:
            return result
        commit_id = result.commit.graph_commit_id
        if read_load_list(graph.repository.store.objects, commit_id).run == mine.run:
            return result
    raise ConflictError(f"the job {job.name!r} was overtaken {_ATTEMPTS} times by other runs", hint="run it again")


def _known(graph: Graph, job: Job) -> LoadedFiles:
    """Return the files loaded on the branch, or on the one that it will be forked from."""
    try:
        state = graph.repository.head(job.branch)
    except NotFound:
        if job.from_branch is None:
            raise
        state = graph.repository.head(job.from_branch)
    return loaded_files(graph.repository.store.objects, state, job.name)


def _input_files(listed: Listed, access: S3Access | None) -> Iterator[InputFile]:
    for types in listed.values():
        for type_name, sources in types.items():
            for path in dict.fromkeys(path for source in sources for path in source.paths):
                place = locate(path, access)
                with readable(path):
                    info = place.filesystem.get_file_info(place.path)
                yield InputFile(type_name, path, info.size or 0, info.mtime_ns or 0)


def _status(known: LoadedFiles, file: InputFile) -> FileStatus:
    name = (file.type_name, file.path)
    before = known.files.get(name)
    if before is None:
        return FileStatus(file.type_name, file.path, PENDING, file.size)
    commit = known.commits[name]
    state = LOADED if before == file else CHANGED
    return FileStatus(file.type_name, file.path, state, file.size, commit.graph_commit_id, commit.created_at)


def _only(listed: Listed, chosen: list[InputFile]) -> Listed:
    """Return the sources with the chosen files, without sources that have none left."""
    wanted = {(file.type_name, file.path) for file in chosen}
    found: Listed = {}
    for section, types in listed.items():
        found[section] = {}
        for type_name, sources in types.items():
            left = [
                replace(source, paths=tuple(p for p in source.paths if (type_name, p) in wanted)) for source in sources
            ]
            if any(source.paths for source in left):
                found[section][type_name] = [source for source in left if source.paths]
    return found
