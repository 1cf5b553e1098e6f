"""The lists of collectors below `__gc/`: pins and objects that are about to be deleted."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.storage.decode import as_object, as_texts, decoding
from omnigraph.storage.layout import PIN
from omnigraph.storage.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class DeletionList:
    """`pins` are `<location>@<version>`; `objects` are paths, which are only compared with those that exist."""

    pins: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


def read_deletion_lists(objects: ObjectStore, path: str) -> DeletionList:
    """Read one list and check each value; empty when its collector has finished meanwhile."""
    value = objects.get_json(path)
    if value is None:
        return DeletionList()
    with decoding(path):
        given = as_object(value, "a list of condemned objects")
        return DeletionList(as_texts(given["pins"], "a pin", PIN), as_texts(given["objects"], "a list of paths"))
