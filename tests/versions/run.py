"""The tests of `tests/spark` on versions of Spark: `python -m tests.versions.run [VERSION ...]`, all by default."""

from __future__ import annotations

import subprocess
import sys

from tests.versions.environments import HERE, VERSIONS, environment, python_of

OPTIONS = ["-m", "not slow", "-p", "no:cacheprovider"]


def main(versions: list[str]) -> int:
    """Run each version and say how it ended. Returns how many failed."""
    ended: dict[str, int] = {}
    for version in versions:
        print(f"--- Spark {version}", flush=True)
        command = [str(python_of(version)), "-m", "pytest", "tests/spark", *OPTIONS]
        ended[version] = subprocess.run(command, env=environment(), cwd=HERE, check=False).returncode
    for version, code in ended.items():
        print(f"Spark {version}: {'passed' if code == 0 else f'failed ({code})'}")
    return sum(code != 0 for code in ended.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(VERSIONS)))
