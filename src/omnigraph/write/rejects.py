"""Where a load describes the rows that it left out: JSON lines, on this machine or on an object store."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from omnigraph.errors import InvalidArgument, Violation
from omnigraph.write.inputs.locations import locate, reason_of
from omnigraph.write.inputs.s3_access import S3Access


def write_rejects(target: str, rejected: Sequence[Violation], access: S3Access | None = None) -> None:
    """One JSON object per bad row: where it stands, which rule it breaks, and why."""
    place = locate(target, access)
    body = "".join(json.dumps(each.as_dict(), ensure_ascii=False) + "\n" for each in rejected)
    try:
        with place.filesystem.open_output_stream(place.path, compression=None) as stream:
            stream.write(body.encode(errors="backslashreplace"))
    except (OSError, pa.ArrowException) as error:
        raise InvalidArgument(f"{target} cannot be written: {reason_of(error)}") from error
