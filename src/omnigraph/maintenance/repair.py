"""Repair: reports faults in a graph's files and repairs only what is provable. It never guesses.

It checks the heads of all branches. Reported are a table whose linear HEAD another program moved (foreign drift, which
is harmless), pins that lack files or cannot be read, edges without an end. With `confirm` it restores what the store
proves (a claim from its manifest, a record of a tag from the other one) and moves to quarantine files that were cut
short by a power loss and therefore never acknowledged. With `force` it also claims manifests of one version, which are
branches whose creation was not acknowledged or whose claim was lost before the first write.
"""

from __future__ import annotations

from omnigraph.api.reports import NO_DRIFT, LostName, RepairReport, TableDrift
from omnigraph.errors import OmnigraphError
from omnigraph.maintenance.fsck import Checker
from omnigraph.maintenance.fsck_files import MISSING, FileChecker
from omnigraph.maintenance.fsck_names import lost_names, restore
from omnigraph.storage.layout import QUARANTINE, manifest_path
from omnigraph.storage.tables import BIRTH_VERSION
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry

FOREIGN_DRIFT = "foreign_drift"
MISSING_DATA = "missing_data"
UNREADABLE = "unreadable"


def repair(repository: Repository, *, confirm: bool = False, force: bool = False) -> RepairReport:
    """Report faults; with `confirm` or `force`, repair them."""
    store = repository.store
    if confirm or force:
        store.require_writable()
    lost = lost_names(repository)
    restored = [each.path for each in lost if (confirm or force) and _restore(repository, each, force=force)]
    checker = Checker(repository, FileChecker(store))
    branches = list(checker.open_branches())
    locations = [manifest_path(branch.native_branch) for branch in branches]
    damaged = [path for location in locations if (path := store.manifests.damaged_newest(location)) is not None]
    quarantined = []
    for path in damaged if confirm or force else ():
        store.objects.move(path, f"{QUARANTINE}/{path.replace('/', '-')}")
        quarantined.append(path)
    checker.run_heads(branches)
    return RepairReport(
        _tables(repository, checker), tuple(damaged), tuple(quarantined), tuple(checker.problems), tuple(lost),
        tuple(restored),
    )  # fmt: skip


def _restore(repository: Repository, lost: LostName, *, force: bool) -> bool:
    if not lost.is_provable and (lost.problem is not None or not force):
        return False
    restore(repository, lost)
    return True


def _tables(repository: Repository, checker: Checker) -> tuple[TableDrift, ...]:
    try:
        head_state = repository.head(MAIN)
    except OmnigraphError:
        return ()  # reported among the problems
    found = []
    for key, entry in sorted(head_state.tables.items()):
        try:
            head = repository.store.tables.head_version(entry.location)
        except OmnigraphError:
            found.append(TableDrift(key, MISSING_DATA, None))
            continue
        found.append(TableDrift(key, _classify(checker, entry, head), head))
    return tuple(found)


def _classify(checker: Checker, entry: TableEntry, head: int) -> str:
    pin = (entry.location, entry.staged_version)
    if not checker.pins.get(pin, False):
        files = checker.on_disk.files_of.get(pin, set())
        is_missing = any(checker.on_disk.faults.get(path) == MISSING for path in files)
        return MISSING_DATA if is_missing else UNREADABLE
    return NO_DRIFT if head == BIRTH_VERSION else FOREIGN_DRIFT
