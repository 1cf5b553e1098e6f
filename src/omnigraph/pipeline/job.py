"""The job file of a load, `pipeline.yaml`: its sources, its targets, and its treatment of invalid rows.

    graph: graph.omni
    mode: append
    sources:
      orders: orders/*.csv
    steps:
      large: select * from orders where total > 100
    nodes:
      Order: {input: large}
      Person:
        - path: people/*.parquet
          columns: {name: full_name, age: years}
    edges:
      Knows:
        - {path: knows.csv, columns: {from: a, to: b}, where: "strength > 0.5"}

Every error names the line and the column in the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from omnigraph.errors import InvalidArgument, JobError
from omnigraph.pipeline.job_model import Job, Origin
from omnigraph.pipeline.job_sections import SectionReader
from omnigraph.pipeline.step_graph import require_sound
from omnigraph.write.user_files import read_text

MODES = ("append", "merge", "overwrite")
INCREMENTAL_FILES = "files"
MAX_CHARACTERS = 1 << 20
ROOT = (
    "graph", "branch", "from", "mode", "actor", "message", "on_error", "max_errors", "rejects", "sources", "steps",
    "nodes", "edges", "expect_head", "idempotency_key", "ignore_unknown", "dedupe_edges", "name", "incremental",
    "lineage",
)  # fmt: skip
"""The keys of a job."""


def read_job(path: str | Path) -> Job:
    """Read and check a job file: YAML, or Python that makes one `Pipeline`."""
    name = os.fspath(path)
    if name.endswith(".py") and os.path.exists(name):
        return _python_job(Path(name))
    missing = JobError(f"there is no job file {name!r}", hint="`omnigraph pipeline init` writes one")
    try:
        text = read_text(name, missing=missing)
    except InvalidArgument as error:
        raise JobError(error.message, hint=error.hint) from error
    return parse_job(text, name)


def _python_job(file: Path) -> Job:
    from omnigraph.pipeline.decorators import Pipeline
    from omnigraph.pipeline.user_functions import load_module

    module = load_module(file, Origin(str(file)))
    found = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
    if len(found) != 1:
        raise JobError(f"{file} makes {len(found)} pipelines", hint="a job file in Python makes one `Pipeline`")
    return next(iter(found.values())).job


def parse_job(text: str, path: str | Path) -> Job:
    """Parse a job from its text."""
    path_name = os.fspath(path)
    reader = SectionReader(text, path_name)
    if len(text) > MAX_CHARACTERS:
        raise JobError(f"{path_name} has {len(text)} characters, the limit is {MAX_CHARACTERS}", hint="split the job")
    try:
        reader.require_shallow()
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line, column = (error.problem_mark.line, error.problem_mark.column) if error.problem_mark else (0, 0)
        raise reader.error(f"this is not YAML: {error.problem}", line, column) from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, yaml.YAMLError) else "it is nested too deeply"
        raise reader.error(f"this is not YAML: {reason}", 0, 0) from error
    if document is None:
        raise reader.error("the job file is empty", 0, 0, hint="`omnigraph pipeline init` writes an example")
    root = reader.mapping(document, "the job", ROOT)
    job = Job(
        graph=reader.optional(root, "graph", reader.text),
        branch=reader.optional(root, "branch", reader.text) or "main",
        from_branch=reader.optional(root, "from", reader.text),
        mode=reader.choice(root, "mode", MODES, "append"),
        actor=reader.optional(root, "actor", reader.text),
        message=reader.optional(root, "message", reader.text),
        on_error=reader.choice(root, "on_error", ("fail", "reject"), "fail"),
        max_errors=reader.optional(root, "max_errors", reader.count),
        rejects=reader.optional(root, "rejects", reader.text),
        nodes=reader.types(root, "nodes"),
        edges=reader.types(root, "edges"),
        directory=os.path.dirname(path_name),
        expect_head=reader.optional(root, "expect_head", reader.text),
        idempotency_key=reader.optional(root, "idempotency_key", reader.text),
        ignore_unknown=reader.choice(root, "ignore_unknown", ("true", "false"), "false") == "true",
        dedupe_edges=reader.choice(root, "dedupe_edges", ("true", "false"), "false") == "true",
        name=reader.optional(root, "name", reader.text) or os.path.splitext(os.path.basename(path_name))[0],
        incremental=reader.choice(root, "incremental", (INCREMENTAL_FILES,), "") == INCREMENTAL_FILES,
        sources=reader.named_sources(root),
        steps=reader.steps(root),
        lineage=reader.lineage(root),
    )
    if job.incremental:
        _require_incremental_terms(reader, root, job)
    if job.mode != "merge" and any("cdc" in source.options for source in (*job.nodes, *job.edges)):
        where = root.get("mode", document)
        raise reader.at(where, f"a source has `cdc`, and the mode is {job.mode}", "use `mode: merge`")
    if not job.nodes and not job.edges:
        raise reader.error("the job loads nothing", 0, 0, hint="name files under `nodes` or `edges`")
    require_sound(job)
    return job


def _require_incremental_terms(reader: SectionReader, root: Mapping[str, Any], job: Job) -> None:
    """Refuse options that a job which loads new files only cannot have."""
    if job.mode == "overwrite":
        raise reader.at(root["mode"], "a load of new files cannot overwrite the old ones", "use append or merge")
    if job.idempotency_key is not None:
        raise reader.at(root["idempotency_key"], "a job with `incremental` makes its own keys", "leave it out")
    for section in ("sources", "steps"):
        if section in root:
            raise reader.at(root[section], f"a job with `incremental` has no {section}: they would see new files only")
    if ":" in job.name:
        raise reader.at(root.get("name", root["incremental"]), f"the name of a job has no colon: {job.name!r}")
