"""`graph.maintenance`: upkeep of a graph beside its writers."""

from __future__ import annotations

import datetime as dt
import os
import warnings
from typing import Annotated

from omnigraph.api.arguments import AtLeast, Count, checked
from omnigraph.api.options import Engine
from omnigraph.api.progress import Listener
from omnigraph.api.reports import (
    CleanupReport,
    CopyReport,
    FsckReport,
    GraphStats,
    IndexReport,
    IndexStatus,
    OptimizeReport,
    RepairReport,
)
from omnigraph.errors import InvalidArgument
from omnigraph.handles.engines import find_engine
from omnigraph.maintenance.cleanup import CleanupPolicy, cleanup
from omnigraph.maintenance.copying import copy_graph
from omnigraph.maintenance.fsck import fsck
from omnigraph.maintenance.indices import ensure_indices, index_status
from omnigraph.maintenance.optimize import Pace, optimize
from omnigraph.maintenance.repair import repair
from omnigraph.maintenance.stats import stats
from omnigraph.storage.compaction import TARGET_ROWS
from omnigraph.storage.crew import HERE, Crew
from omnigraph.storage.layout import GraphRoot
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository

_FEW = 3


@checked
class Maintenance:
    """`graph.maintenance`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._pace = Pace()

    def ensure_indices(self, branch: str = MAIN, actor: str | None = None, *, engine: Engine = "arrow") -> IndexReport:
        """Build or extend every index that the schema asks for, in one commit that changes no answer.

        With `engine="spark"` the work is done by Spark tasks.
        """
        return ensure_indices(self._repository, branch, actor=actor, crew=self._crew(engine))

    def index_status(self, branch: str = MAIN) -> tuple[IndexStatus, ...]:
        """Every index that the schema asks for, and the rows it covers."""
        return index_status(self._repository, branch)

    def optimize(
        self, branch: str = MAIN, actor: str | None = None, *, auto: bool = False, dry_run: bool = False,
        target_rows: Count = TARGET_ROWS, engine: Engine = "arrow", progress: Listener | None = None,
    ) -> OptimizeReport:  # fmt: skip
        """Merge small fragments, drop deleted rows and extend indexes, beside writers; one commit, or none.

        `auto` leaves tables alone that are not worth it yet, `dry_run` only tells why which would be worked on.
        `target_rows` says how large a fragment may grow. With `engine="spark"` the work is done by Spark tasks.
        `progress` is called with `omnigraph.Progress`.
        """
        return optimize(
            self._repository, branch, actor=actor, target_rows=target_rows, auto=auto, dry_run=dry_run, pace=self._pace,
            crew=self._crew(engine, progress), progress=progress,
        )  # fmt: skip

    def _crew(self, engine: Engine, progress: Listener | None = None) -> Crew:
        if engine in ("arrow", "auto"):
            return HERE
        crew: Crew = find_engine(engine).crew(self._repository.store.root.uri, progress)
        return crew

    def backup(
        self, target: str | os.PathLike[str], *, verify: bool = True, progress: Listener | None = None
    ) -> CopyReport:
        """Copy the graph, with its branches, tags and kept versions, to another place, beside writers.

        A place that holds an earlier copy gets what is new. `verify` checks the copy like `fsck`; `progress` is called
        with `omnigraph.Progress`.
        """
        place = GraphRoot.parse(target)
        return copy_graph(self._repository, place, verify=verify, progress=progress)

    def repair(self, confirm: bool = False, *, force: bool = False) -> RepairReport:
        """Report damage, lost names and foreign drift; with `confirm`, restore and move away what is provable.

        With `force`, also claim manifests of one version: branches whose creation was never acknowledged.
        """
        return repair(self._repository, confirm=confirm, force=force)

    def fsck(self, *, deep: bool = False, type_name: str | None = None) -> FsckReport:
        """Read the whole graph, or one type, and report whatever does not fit. Changes nothing.

        With `deep` every file of every kept version is compared with the checksum recorded when it was committed.
        """
        return fsck(self._repository, deep=deep, type_name=type_name)

    def stats(self, branch: str = MAIN, *, garbage: bool = False) -> GraphStats:
        """Sizes, fragments, index coverage and history, from metadata of the newest state and one listing.

        With `garbage` also what a cleanup would free, which reads every version.
        """
        return stats(self._repository, branch, garbage=garbage)

    def cleanup(
        self, keep: Annotated[int, AtLeast(0)] | None = 10, older_than: dt.timedelta | float | None = None,
        confirm: bool = False, grace: dt.timedelta | float | None = None, *, force: bool = False,
        progress: Listener | None = None,
    ) -> CleanupReport:  # fmt: skip
        """Say what old versions and abandoned files would be deleted; with `confirm`, delete them.

        Of each branch the newest `keep` versions stay, and all younger than `older_than` (a timedelta, or seconds).
        Tags, merge bases and unfinished writes keep what they need. `grace` replaces both the hour that superseded
        versions stay and the seven days that unpublished files do. `progress` is called with `omnigraph.Progress`.
        """
        policy = CleanupPolicy(keep, _duration("older_than", older_than), _duration("grace", grace), force)
        if keep is not None and keep < _FEW:
            warnings.warn(
                f"keeping {keep} versions leaves little to travel back to; 10 is recommended", UserWarning, stacklevel=3
            )
        return cleanup(self._repository, policy, confirm=confirm, progress=progress)


def _duration(name: str, value: dt.timedelta | float | None) -> dt.timedelta | None:
    if value is None or isinstance(value, dt.timedelta):
        return value
    try:
        return dt.timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError) as error:  # a text, not a number, without end
        raise InvalidArgument(f"{name}={value!r} is not a duration", hint="give seconds or a timedelta") from error
