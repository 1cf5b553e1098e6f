"""Planning a schema change: its steps, the caller's permissions, and whether the two agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph.api.results import SchemaChange
from omnigraph.errors import DropNotAllowed, InvalidArgument, SchemaChangeRefused
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.dropped import MigrationOptions
from omnigraph.schema.evolve import Migration, plan_migration
from omnigraph.schema.names import suggest
from omnigraph.schema.steps import dropped_names, refusal
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore, mint
from omnigraph.write.dropped_rows import KeptRows


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRequest:
    """A target schema text, and the drops and losses that are allowed on the way."""

    text: str
    options: MigrationOptions
    path: str | None = None
    allow_drops: bool = False
    plan: str | None = None

    @classmethod
    def of(
        cls, text: str, path: str | None, *, allow_data_loss: bool, drop: Iterable[str], fresh: Iterable[str],
        allow_drops: bool = False, plan: str | None = None,
    ) -> SchemaRequest:  # fmt: skip
        """A request from the arguments of a call."""
        options = MigrationOptions(allow_data_loss, frozenset(drop), frozenset(fresh))
        return cls(text=text, path=path, options=options, allow_drops=allow_drops, plan=plan)


def plan_on(store: GraphStore, state: ManifestState, request: SchemaRequest) -> Migration:
    """The steps from the schema of a state to the requested text."""
    current = store.catalog(state.schema_hash)
    kept = KeptRows(store, state)
    migration = plan_migration(current, request.text, mint, request.path, options=request.options, kept=kept)
    _require_names(store, (current, migration.after), request)
    return migration


def _require_names(store: GraphStore, catalogs: Sequence[Catalog], request: SchemaRequest) -> None:
    """Refuse to drop or begin anew a name that no schema of the graph ever had."""
    known: set[str] = set()
    asked = request.options.drop | request.options.fresh
    for catalog in itertools.chain(catalogs, store.catalogs()):
        if asked <= known:
            return
        for entity in catalog.entity_types:
            known |= {entity.name, *(f"{entity.name}.{each.name}" for each in entity.properties)}
    for name in sorted(asked - known):
        raise InvalidArgument(
            f"there is no type and no property {name!r}", hint=suggest(name, known, "write Person, or Person.age")
        )


def plan_schema(repository: Repository, request: SchemaRequest, *, branch: str) -> SchemaChange:
    """Preview the steps of a schema text. Of the data, only rows that a restore would bring back are counted."""
    state = repository.head(branch)
    migration = plan_on(repository.store, state, request)
    digest = migration.digest(state.schema_hash)
    return SchemaChange(migration.steps, graph_manifest_version=state.version, digest=digest)


def require_allowed(migration: Migration, request: SchemaRequest) -> None:
    """Raise for steps that the engine refuses, and for drops that the caller did not name."""
    _require_supported(migration)
    if request.allow_drops:
        return
    unasked = tuple(name for name in dropped_names(migration.steps) if name not in request.options.drop)
    if unasked:
        raise DropNotAllowed(unasked, migration.steps)


def _require_supported(migration: Migration) -> None:
    refused = [step for step in migration.steps if not step.is_supported]
    if refused:
        first = refused[0]
        code = first.fields.get("code")
        shown = f"[{code}] {first.fields['reason']}" if code else refusal(first)
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise SchemaChangeRefused(
            f"{first.fields['entity']}: {shown}{more}",
            migration.steps,
            hint="`omnigraph schema plan` shows every step; nothing was changed",
        )
