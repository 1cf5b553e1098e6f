"""The quick tests on other versions of Python, 3.12 and 3.13: `python -m tests.versions.pythons [VERSION ...]`.

A version that is not on this machine is named and left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.12", "3.13")
HERE = Path(__file__).parents[2]
QUICK = [
    "-m", "not slow and not processes and not s3 and not spark", "-n", "2", "-q", "--ignore=tests/cost",
    "--ignore=tests/property", "--ignore=tests/maintenance", "--ignore=tests/docs",
]  # fmt: skip


def interpreter(version: str) -> str | None:
    """An interpreter of that version that runs: on the path, or one that pyenv has installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for candidate in filter(None, found):
        asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def environment_of(version: str, python: str) -> Path:
    """The interpreter of an environment with everything that the quick tests need, made when it is not there."""
    folder = Path(os.environ.get("OMNIGRAPH_TEST_VENVS", Path(sys.prefix) / "pythons")) / f"python-{version}"
    if not (folder / "complete").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--editable", f"{HERE}[dev]"]
        subprocess.run(pip, check=True)
        (folder / "complete").touch()
    return folder / "bin" / "python"


def main(versions: list[str]) -> int:
    """Run each version and say how it ended. Returns how many failed."""
    ended: dict[str, str] = {}
    for version in versions:
        python = interpreter(version)
        if python is None:
            ended[version] = "not on this machine"
            continue
        command = [str(environment_of(version, python)), "-m", "pytest", *QUICK]
        code = subprocess.run(command, cwd=HERE, check=False).returncode
        ended[version] = "passed" if code == 0 else f"failed ({code})"
    for version, outcome in ended.items():
        print(f"Python {version}: {outcome}")
    return sum(outcome.startswith("failed") for outcome in ended.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(VERSIONS)))
