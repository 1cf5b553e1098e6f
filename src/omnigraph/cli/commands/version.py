"""`version`: the version of the program, and of the storage format it reads and writes."""

from __future__ import annotations

from omnigraph.cli import options
from omnigraph.cli.output import print_json, print_line


def version(*, json: options.Json = False) -> None:
    """Print the version of the program and of the storage format."""
    from omnigraph import __version__
    from omnigraph.versioning.format_version import INTERNAL_SCHEMA_VERSION

    if json:
        print_json({"version": __version__, "internal_schema_version": INTERNAL_SCHEMA_VERSION})
        return
    print_line(f"omnigraph {__version__}")
    print_line(f"internal-schema {INTERNAL_SCHEMA_VERSION}")
