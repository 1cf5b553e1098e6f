"""Checking that files are in a local store, through one open directory.

While a store is unmounted or moved away, paths below its root lead elsewhere, and a writer that does not notice makes
files there. When the store is back, those files are missing. Before a version that names them becomes visible, all of
them are looked up through one open root directory, so that no two lookups can reach two different stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import GraphRoot


def missing_files(root: GraphRoot, names: Iterable[str]) -> list[str]:
    """The files, named relative to the root, that are not in the store that is at the root now.

    On an object store nothing is ever written elsewhere, so nothing is missing.
    """
    if not root.is_local:
        return []
    with translate_faults(f"opening {root.uri}"):
        directory = os.open(root.uri, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with translate_faults(f"looking for files in {root.uri}"):
            return [name for name in names if not _is_there(name, directory)]
    finally:
        os.close(directory)


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
