"""Plans of maintenance: physical changes of some pins that leave every row as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.api.commits import MAINTENANCE
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import Pin, PublishPlan, TableChange
from omnigraph.versioning.store import mint, ticks


def maintenance_plan(
    state: ManifestState, changes: Sequence[TableChange], *, kind: str, message: str, actor: str | None = None,
    pins: Mapping[str, Pin] | None = None,
) -> PublishPlan:  # fmt: skip
    """A plan on a state; `pins` are those of the state unless the work began with others."""
    return PublishPlan(
        commit_id=mint(),
        branch=state.branch,
        native_branch=state.native_branch,
        base_version=state.version,
        base_head=state.head,
        kind=kind,
        op_class=MAINTENANCE,
        schema_hash=state.schema_hash,
        changes=tuple(changes),
        pins=pins or {change.table_key: Pin.of(state.tables[change.table_key]) for change in changes},
        actor=actor,
        message=message,
        staged_at=ticks(),
    )
