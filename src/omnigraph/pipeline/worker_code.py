"""Send the code of omnigraph to workers that do not have it installed.

Workers need its libraries (pylance, pyarrow, obstore, numpy) in their Python, which change rarely and are compiled; the
code itself is plain Python and can come from the driver, so that every job runs the version that started it.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DATE = (1980, 1, 1, 0, 0, 0)
"""The fixed timestamp of files: equal code makes an equal archive, and Spark refuses another file of the same name."""


def send_code(spark: SparkSession) -> str:
    """Make the workers of a session run the omnigraph of this process. Returns the name of the file that was sent.

    Works on a classic session and on Spark Connect. To be called once, before the first load or query.
    """
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = pack_code(folder)
    spark.addArtifacts(str(archive), pyfile=True)
    return archive.name


def pack_code(folder: Path) -> Path:
    """Pack the package as a zip file from which Python can import it; named by its content."""
    package = Path(__file__).parents[1]
    sources = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    packed = folder / "omnigraph.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            info = zipfile.ZipInfo(str(Path("omnigraph") / path.relative_to(package)), _DATE)
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:12]
    return packed.rename(folder / f"omnigraph-{__version__}-{digest}.zip")
