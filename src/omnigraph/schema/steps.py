"""The steps of a schema change as data: a plan shows them and an apply executes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors.codec import error_part

ADD_TYPE = "add_type"
RENAME_TYPE = "rename_type"
ADD_PROPERTY = "add_property"
RENAME_PROPERTY = "rename_property"
WIDEN_PROPERTY = "widen_property"
ADD_CONSTRAINT = "add_constraint"
DROP_CONSTRAINT = "drop_constraint"
EXTEND_ENUM = "extend_enum"
UPDATE_TYPE_METADATA = "update_type_metadata"
UPDATE_PROPERTY_METADATA = "update_property_metadata"
DROP_TYPE = "drop_type"
RESTORE_TYPE = "restore_type"
RESTORE_PROPERTY = "restore_property"
DROP_PROPERTY = "drop_property"
UNSUPPORTED = "unsupported_change"

SOFT, HARD = "soft", "hard"

REQUIRED_ADD = "OG-MF-103"
TYPE_CHANGE = "OG-MF-106"
TIERS = {REQUIRED_ADD: "validated", TYPE_CHANGE: "destructive"}


@error_part
@dataclass(frozen=True, slots=True)
class Step:
    """One step. `fields` are those of its kind, in display order."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_supported(self) -> bool:
        """Return False for a change that this engine refuses."""
        return self.kind != UNSUPPORTED

    @property
    def dropped(self) -> str | None:
        """Return the name that permits the drop: `Person` or `Person.age`."""
        if self.kind == DROP_TYPE:
            return str(self.fields["name"])
        return f"{self.fields['type_name']}.{self.fields['property_name']}" if self.kind == DROP_PROPERTY else None

    @property
    def identity(self) -> dict[str, Any]:
        """Return the step without the parts that depend on the current rows."""
        return {name: value for name, value in self.as_dict().items() if name not in ("rows", "note")}

    def as_dict(self) -> dict[str, Any]:
        """Return values for `--json`, tagged by `kind`."""
        return {"kind": self.kind, **self.fields}

    def __str__(self) -> str:
        """Return one line of text."""
        if self.kind == UNSUPPORTED:
            return f"{self.fields['entity']}: {refusal(self)}"
        words = {name: ", ".join(v) if isinstance(v, list) else v for name, v in self.fields.items()}
        sentence = _SENTENCES[self.kind].format_map(words)
        return f"{sentence} ({self.fields['note']})" if "note" in self.fields else sentence


_SENTENCES = {
    ADD_TYPE: "add {type_kind} {name}",
    RENAME_TYPE: "rename {type_kind} {from} to {to}",
    ADD_PROPERTY: "add {type_name}.{property_name}: {property_type}",
    RENAME_PROPERTY: "rename {type_name}.{from} to {to}",
    WIDEN_PROPERTY: "widen {type_name}.{property_name} from {from} to {to}",
    ADD_CONSTRAINT: "add {constraint} to {type_name}",
    DROP_CONSTRAINT: "drop {constraint} from {type_name}",
    EXTEND_ENUM: "extend {type_name}.{property_name} by {added_values}",
    UPDATE_TYPE_METADATA: "update the metadata of {name}",
    UPDATE_PROPERTY_METADATA: "update the metadata of {type_name}.{property_name}",
    DROP_TYPE: "drop {type_kind} {name} ({mode})",
    DROP_PROPERTY: "drop {type_name}.{property_name} ({mode})",
    RESTORE_TYPE: "restore {type_kind} {name}: {rows} rows",
    RESTORE_PROPERTY: "restore property {property_name} of {type_name}: {rows} rows",
}


def unsupported_steps(entity: str, reason: str, code: str | None = None) -> Step:
    """Return the step of a refused change. `entity` reads `node:Person.age`."""
    return Step(UNSUPPORTED, {"entity": entity, "reason": reason} | ({"code": code} if code else {}))


def refusal(step: Step) -> str:
    """Return the reason of a refused change, with its code and tier where it has one."""
    code = step.fields.get("code")
    return f"[{code}, {TIERS[code]}] {step.fields['reason']}" if code else str(step.fields["reason"])


def dropped_names(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the names that steps drop, each once."""
    return tuple(dict.fromkeys(step.dropped for step in steps if step.dropped is not None))
