"""Repair: says what is wrong with a graph's files and acts only on what is provable. It never guesses.

What it knows: a table whose linear HEAD somebody moved (harmless to us, reported as foreign drift), and a newest
manifest version that was cut short by a power loss and was therefore never acknowledged (moved to quarantine).
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.storage.layout import MANIFEST, QUARANTINE, manifest_path
from omnigraph.storage.tables import BIRTH_VERSION
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository

NO_DRIFT = "no_drift"
FOREIGN_DRIFT = "foreign_drift"


@dataclass(frozen=True, slots=True)
class TableDrift:
    """One table's linear HEAD against its birth."""

    table_key: str
    classification: str
    head_version: int


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was found, and what was done about it."""

    tables: tuple[TableDrift, ...]
    damaged_manifests: tuple[str, ...]
    quarantined: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """True when nothing needs attention."""
        return not self.damaged_manifests and all(t.classification == NO_DRIFT for t in self.tables)


def repair(repository: Repository, *, confirm: bool = False) -> RepairReport:
    """Look, and with `confirm` move damaged manifest files away."""
    store = repository.store
    locations = [MANIFEST, *(manifest_path(b.native_branch) for b in repository.refs.list() if b.name != MAIN)]
    damaged = [path for location in locations if (path := store.manifests.damaged_newest(location)) is not None]
    quarantined = []
    if confirm:
        store.require_writable()
        for path in damaged:
            store.objects.move(path, f"{QUARANTINE}/{path.replace('/', '-')}")
            quarantined.append(path)
    return RepairReport(_drift(repository), tuple(damaged), tuple(quarantined))


def _drift(repository: Repository) -> tuple[TableDrift, ...]:
    found = []
    for key, entry in sorted(repository.head(MAIN).tables.items()):
        head = repository.store.tables.head_version(entry.location)
        found.append(TableDrift(key, NO_DRIFT if head == BIRTH_VERSION else FOREIGN_DRIFT, head))
    return tuple(found)
