"""The dependencies of a job: every name is defined once, known and used, and there is no cycle."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from omnigraph.pipeline.job_model import Job, JobSource, NamedSource, Reference, Step

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def require_sound(job: Job) -> None:
    """Refuse a duplicate, unknown or unused name, and steps that read each other in a cycle."""
    parts: dict[str, NamedSource | Step] = {}
    given: list[NamedSource | Step] = [*job.sources, *job.steps]
    for part in given:
        if not _NAME.fullmatch(part.name):
            hint = "letters, digits and _, beginning with a letter: SQL reads it as a table"
            raise part.origin.error(f"{part.name!r} cannot be the name of a source or a step", hint)
        if part.name in parts:
            raise part.origin.error(f"{part.name!r} names two sources or steps", "give one of them another name")
        parts[part.name] = part
    for reference in _references(job):
        if reference.name not in parts:
            raise _unknown(reference, parts)
    _ = ordered_steps(job)
    used = uses(job)
    for part in given:
        if not used[part.name]:
            what = "step" if isinstance(part, Step) else "source"
            raise part.origin.error(f"the {what} {part.name!r} is used by no type and no step", "remove it, or use it")


def uses(job: Job) -> Counter[str]:
    """Return how often each source and step is read, by types and by steps that types need."""
    return Counter(reference.name for reference in _references(job))


def ordered_steps(job: Job) -> list[Step]:
    """Return the steps, each after those that it reads. Raises for a cycle."""
    steps = {step.name: step for step in job.steps}
    done: dict[str, Step] = {}
    for step in job.steps:
        _visit(step, steps, done, [])
    return list(done.values())


def _visit(step: Step, steps: Mapping[str, Step], done: dict[str, Step], path: list[str]) -> None:
    """Walk down without recursion, since a job may have many steps."""
    waiting: list[tuple[Step, Iterator[Reference]]] = []
    if step.name not in done:
        waiting.append((step, iter(step.inputs)))
        path.append(step.name)
    while waiting:
        current, references = waiting[-1]
        reference = next(references, None)
        if reference is None:
            done[current.name] = current
            waiting.pop()
            path.pop()
        elif reference.name in path:
            circle = " -> ".join([*path[path.index(reference.name) :], reference.name])
            raise reference.origin.error(f"steps read each other: {circle}", "a step reads sources and earlier steps")
        elif reference.name in steps and reference.name not in done:
            waiting.append((steps[reference.name], iter(steps[reference.name].inputs)))
            path.append(reference.name)


def type_inputs(job: Job) -> Iterator[JobSource]:
    """Return the types that load the rows of a source or a step."""
    return (source for source in (*job.nodes, *job.edges) if source.input is not None)


def _references(job: Job) -> Iterator[Reference]:
    for step in job.steps:
        yield from step.inputs
    for source in type_inputs(job):
        assert source.input is not None, "chosen by it"
        assert source.origin is not None, f"{source.type_name} reads {source.input} from nowhere"
        yield Reference(source.input, source.origin)


def _unknown(reference: Reference, parts: Mapping[str, NamedSource | Step]) -> Exception:
    near = difflib.get_close_matches(reference.name, parts, 1)
    known = f"known: {', '.join(parts)}" if parts else "the job has no sources and no steps"
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else f"{known}; a table of Spark is a source: `sources: {{t: {{table: t}}}}`"
    )
    return reference.origin.error(f"{reference.name!r} is no source and no step of the job", hint)
