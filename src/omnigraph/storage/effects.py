"""Logical table effects as data: what a write does to one table, in a form that can be applied to any pin.

Fragments are kept exactly as `write_fragments` returned them (no id, no row ids, no deletion file): only those may be
committed again on another pin. Values that depend on a pin (positions, deletion files) are computed when the effect is
applied.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
from lance.fragment import FragmentMetadata

from omnigraph.errors import Unsupported
from omnigraph.storage.decode import Malformed, as_integer, as_list, as_optional_text, as_text, as_texts
from omnigraph.storage.digests import Digest
from omnigraph.storage.layout import DATA_FILE


@dataclass(frozen=True, slots=True)
class WrittenFragment:
    """One fragment as written: its metadata from storage, its data file, its number of rows.

    `hashes` are the key hashes of its rows when they are few, packed as text; None when they are not worth keeping.
    `digest` is the size and checksum of its data file; None where the store keeps checksums itself.
    """

    metadata: FragmentMetadata
    file: str
    rows: int
    hashes: str | None = None
    digest: str | None = None

    @property
    def bytes(self) -> int:
        """The size of its data file, as far as it is known."""
        return sum(each.file_size_bytes or 0 for each in self.metadata.files)


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Add rows."""

    fragments: tuple[WrittenFragment, ...]


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """Remove the rows with these ids where they exist, then add rows (an upsert; a delete when nothing is added)."""

    ids: tuple[str, ...]
    fragments: tuple[WrittenFragment, ...] = ()


MaskedFragment: TypeAlias = FragmentMetadata
"""A fragment as storage describes it, without the rows that its deletion file names."""


@dataclass(frozen=True, slots=True)
class MaskRows:
    """Remove rows of one version whose deletion files are written already, then add rows: an upsert of many rows.

    `version` is that of the table: on another one the effect has to be computed anew. `removed` are fragments that lose
    all rows, `updated` others without the rows that they lose.
    """

    version: int
    removed: tuple[int, ...]
    updated: tuple[MaskedFragment, ...]
    fragments: tuple[WrittenFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class OverwriteRows:
    """Remove every row, then add rows."""

    fragments: tuple[WrittenFragment, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """A physical change of one pin (compaction, index, new column). Tied to its pin: never applied to another."""

    note: str


@dataclass(frozen=True, slots=True)
class UnwrittenRows:
    """`AppendRows`, or `ReplaceRows` where there are ids, of a few rows that are in no file yet.

    The publisher writes them, in one file with the rows of other plans of the group. Exists in memory only.
    """

    ids: tuple[str, ...]
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Old fragments and the new ones that hold the same rows. New ids are fixed, because index segments name them."""

    old: tuple[Any, ...]
    new: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """A finished compaction, fragments merged and their indexes extended, that can follow a moving table.

    It applies to every pin that still has the old fragments unchanged; other fragments may differ. `dropped` and
    `segments` are index segments removed and added. Exists in memory only: a compaction that is lost is made again.
    """

    groups: tuple[Rewritten, ...]
    dropped: tuple[Any, ...]
    segments: tuple[Any, ...]


Effect = AppendRows | ReplaceRows | MaskRows | OverwriteRows | Reshape | UnwrittenRows | Compacted


def effect_to_json(effect: Effect) -> dict[str, Any]:
    """A JSON-ready form; `effect_from_json` gives the effect back."""
    match effect:
        case AppendRows(fragments):
            return {"kind": "append", "fragments": _fragments_to_json(fragments)}
        case ReplaceRows(ids, fragments):
            return {"kind": "replace", "ids": list(ids), "fragments": _fragments_to_json(fragments)}
        case MaskRows(version, removed, updated, fragments):
            masked = [json.dumps(each.to_json()) for each in updated]
            added = _fragments_to_json(fragments)
            return {
                "kind": "mask",
                "version": str(version),
                "removed": list(removed),
                "updated": masked,
                "fragments": added,
            }
        case OverwriteRows(fragments):
            return {"kind": "overwrite", "fragments": _fragments_to_json(fragments)}
        case Reshape(note):
            return {"kind": "reshape", "note": note}
        case UnwrittenRows():
            raise Unsupported("rows that are in no file yet cannot be part of an intent")
        case Compacted():
            raise Unsupported("a compaction leaves no intent: whoever loses it makes it again")
        case _:
            assert_never(effect)


def effect_from_json(value: dict[str, Any]) -> Effect:
    """The inverse of `effect_to_json`, each value checked; runs inside `decoding`."""
    match value["kind"]:
        case "append":
            return AppendRows(_fragments_from_json(value["fragments"]))
        case "replace":
            return ReplaceRows(as_texts(value["ids"], "a list of ids"), _fragments_from_json(value["fragments"]))
        case "mask":
            return MaskRows(
                as_integer(value["version"], "a version"),
                tuple(as_integer(each, "a fragment") for each in as_list(value["removed"], "a list of fragments")),
                tuple(_metadata_from_json(each) for each in as_list(value["updated"], "a list of fragments")),
                _fragments_from_json(value["fragments"]),
            )
        case "overwrite":
            return OverwriteRows(_fragments_from_json(value["fragments"]))
        case "reshape":
            return Reshape(as_text(value["note"], "a note"))
        case other:
            raise Malformed(f"unknown table effect {other!r}")


def _fragments_to_json(fragments: tuple[WrittenFragment, ...]) -> list[list[Any]]:
    return [[json.dumps(f.metadata.to_json()), f.file, f.rows, f.hashes, f.digest] for f in fragments]


def _fragments_from_json(values: Any) -> tuple[WrittenFragment, ...]:
    return tuple(_fragment_from_json(*as_list(each, "a fragment")) for each in as_list(values, "a list of fragments"))


def _metadata_from_json(text: Any) -> FragmentMetadata:
    metadata = FragmentMetadata.from_json(as_text(text, "the metadata of a fragment"))
    for each in metadata.files:
        as_text(each.path, "a data file", DATA_FILE)
        if each.base_id is not None:  # a file of another dataset
            raise Malformed("a fragment names a base path")
    return metadata


def _fragment_from_json(text: Any, file: Any, rows: Any, hashes: Any, digest: Any) -> WrittenFragment:
    return WrittenFragment(
        _metadata_from_json(text),
        as_text(file, "a data file", DATA_FILE),
        as_integer(rows, "a number of rows"),
        as_optional_text(hashes, "packed hashes"),
        None if digest is None else str(Digest.parse(digest)),
    )
