"""The file in which a load describes the rows that it left out: JSON lines, local or on an object store."""

from __future__ import annotations

import json
from collections.abc import Sequence

from omnigraph.errors import Violation
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.user_files import write_file


def write_rejects(target: str, rejected: Sequence[Violation], access: S3Access | None = None) -> None:
    """Write one JSON object per bad row: its place, the rule it breaks, and why."""
    body = "".join(json.dumps(each.as_dict(), ensure_ascii=False) + "\n" for each in rejected)
    write_file(target, body.encode(errors="backslashreplace"), access)
