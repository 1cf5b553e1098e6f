"""Reserved names of the schema language, and nearest-name suggestions for "unknown X" errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ENDPOINTS = ("src", "dst")

# Columns that Lance itself adds to a scan: a property of such a name could not be read back.
RESERVED = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"})

# Words that name a column or an endpoint of every edge, in the tables, in load files or in mutations.
EDGE_WORDS = frozenset({"src", "dst", "from", "to"})

METRICS = ("cosine", "l2", "dot")

PROPERTY_ANNOTATIONS = ("key", "unique", "index", "default", "embed", "description", "rename_from")
TYPE_ANNOTATIONS = ("description", "instruction", "rename_from")
CONSTRAINTS = ("key", "unique", "index", "range", "check")
KNOWN_ANNOTATIONS = frozenset(PROPERTY_ANNOTATIONS + TYPE_ANNOTATIONS + CONSTRAINTS + ("card",))


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most like `name`, if any is close; case is ignored.

    >>> nearest("nmae", ["age", "name"])
    'name'
    """
    folded = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), sorted(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggest(name: str, candidates: Iterable[str], otherwise: str | None = None) -> str | None:
    """Return a hint sentence with the nearest candidate, the list of them when few, or `otherwise`."""
    known = sorted(set(candidates))
    found = nearest(name, known)
    if found is not None:
        return f"did you mean `{found}`?"
    if otherwise is None and 0 < len(known) <= 8:
        return f"known here: {', '.join(f'`{each}`' for each in known)}"
    return otherwise
