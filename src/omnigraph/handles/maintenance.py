"""`graph.maintenance`: maintenance of a graph beside its writers."""

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
from omnigraph.api.requests import MAIN, CheckGraph, GetIndexStatus, GetStats
from omnigraph.api.service import GraphService
from omnigraph.api.write_requests import BackUp, CleanUp, EnsureIndices, OptimizeTables, RepairGraph

_FEW = 3


@checked
class Maintenance:
    """`graph.maintenance`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def ensure_indices(self, branch: str = MAIN, actor: str | None = None, *, engine: Engine = "arrow") -> IndexReport:
        """Build or extend every index that the schema asks for, in one commit that changes no answer.

        With `engine="spark"` the work is done by Spark tasks.
        """
        return self._service.call(EnsureIndices(branch=branch, actor=actor, engine=engine))

    def index_status(self, branch: str = MAIN) -> tuple[IndexStatus, ...]:
        """Every index that the schema asks for, and the rows it covers."""
        return self._service.call(GetIndexStatus(branch=branch))

    def optimize(
        self, branch: str = MAIN, actor: str | None = None, *, auto: bool = False, dry_run: bool = False,
        target_rows: Count | None = None, engine: Engine = "arrow", progress: Listener | None = None,
    ) -> OptimizeReport:  # fmt: skip
        """Merge small fragments, drop deleted rows and extend indexes, beside writers; one commit, or none.

        `auto` skips tables that do not need it yet, `dry_run` only reports the tables that would be optimized and why.
        `target_rows` limits the size of a fragment, a million rows by default. With `engine="spark"` tasks of Spark do
        the work. `progress` is called with `omnigraph.Progress`.
        """
        return self._service.call(
            OptimizeTables(
                branch=branch, actor=actor, auto=auto, dry_run=dry_run, target_rows=target_rows, engine=engine
            ),
            progress,
        )

    def backup(
        self, target: str | os.PathLike[str], *, verify: bool = True, progress: Listener | None = None
    ) -> CopyReport:
        """Copy the graph, with its branches, tags and kept versions, to another place, beside writers.

        A place that holds an earlier copy gets what is new. `verify` checks the copy like `fsck`; `progress` is called
        with `omnigraph.Progress`.
        """
        return self._service.call(BackUp(target=target, verify=verify), progress)

    def repair(self, confirm: bool = False, *, force: bool = False) -> RepairReport:
        """Report damage, lost names and foreign drift; with `confirm`, restore and move away what is provable.

        With `force`, also claim manifests of one version: branches whose creation was never acknowledged.
        """
        return self._service.call(RepairGraph(confirm=confirm, force=force))

    def fsck(self, *, deep: bool = False, type_name: str | None = None) -> FsckReport:
        """Read the whole graph, or one type, and report whatever does not fit. Changes nothing.

        With `deep` every file of every kept version is compared with the checksum recorded when it was committed.
        """
        return self._service.call(CheckGraph(deep=deep, type_name=type_name))

    def stats(self, branch: str = MAIN, *, garbage: bool = False) -> GraphStats:
        """Sizes, fragments, index coverage and history, from metadata of the newest state and one listing.

        With `garbage` also what a cleanup would free, which reads every version.
        """
        return self._service.call(GetStats(branch=branch, garbage=garbage))

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
        if keep is not None and 0 < keep < _FEW:
            warnings.warn(
                f"keeping {keep} versions leaves little to travel back to; 10 is recommended", UserWarning, stacklevel=3
            )
        request = CleanUp(keep=keep, older_than=older_than, confirm=confirm, grace=grace, force=force)
        return self._service.call(request, progress)
