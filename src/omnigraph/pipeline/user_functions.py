"""Load and call the Python functions of a job; an error names the function that failed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.execution.spark.task_errors import refusal_in
from omnigraph.pipeline.job_model import Function, Origin


def load_function(function: Function, directory: str, origin: Origin) -> Callable[..., Any]:
    """Return the function. Its module is beside the job file, else one that Python finds."""
    if callable(function):
        return function
    module_name, _, name = function.partition(":")
    module = _guarded(lambda: _module(module_name, Path(directory)), f"{module_name} cannot be imported", origin)
    found = getattr(module, name, None)
    if not callable(found):
        raise origin.error(f"{module_name} has no function {name!r}", f"the module is {module.__file__}")
    made: Callable[..., Any] = found
    return made


def call(function: Callable[..., Any], given: tuple[Any, ...], what: str, origin: Origin) -> Any:
    """Return a function's result. Any exception becomes an error with the function's name and line."""
    return _guarded(lambda: function(*given), f"{what} failed", origin)


def _guarded(work: Callable[[], Any], failed: str, origin: Origin) -> Any:
    try:
        return work()
    except OmnigraphError:
        raise
    except Exception as error:
        refusal = refusal_in(str(error))
        if refusal is not None:
            raise refusal from error
        reason = str(error).strip().partition("\n")[0]
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not _is_library(frame.filename)]
        hint = f"{own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else None
        raise origin.error(f"{failed}: {type(error).__name__}: {reason}", hint) from error


def _is_library(path: str) -> bool:
    return "site-packages" in path or path == __file__ or path.startswith((sysconfig.get_paths()["stdlib"], "<"))


def load_module(path: Path, origin: Origin) -> ModuleType:
    """Import the module of a file. Any exception becomes an error with the line."""
    module: ModuleType = _guarded(lambda: _module_at(path.resolve()), f"{path} cannot be run", origin)
    return module


def _module(name: str, directory: Path) -> ModuleType:
    path = directory.resolve() / f"{name.replace('.', '/')}.py"
    return _module_at(path) if path.exists() else importlib.import_module(name)


def _module_at(path: Path) -> ModuleType:
    """The module of a file, under a name of its own, so that two jobs may both have `steps.py`.

    Workers cannot import it, so its functions are sent to them by value.
    """
    own = f"omnigraph_job_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(own, path)
    assert spec is not None, f"{path} is a Python file"
    assert spec.loader is not None, f"{path} is a Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    sys.path.insert(0, str(path.parent))  # modules beside it can be imported
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    return module
