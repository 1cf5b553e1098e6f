"""The only package that imports lance: tables, staged effects, indexes, control objects, layout.

This package is independent of schemas, queries and branches. Tables are pinned by version number, every effect is a
detached commit on top of a pin, and small control objects are written once.
"""

from __future__ import annotations

import os

# Lance reports ordinary events on stderr, such as a dataset that is about to be created.
os.environ.setdefault("LANCE_LOG", "error")
# Read by lance at import: without the hint file a commit on a local disk costs half as much, and nothing here uses it.
os.environ.setdefault("LANCE_USE_VERSION_HINT", "0")
