"""Render a job as a Mermaid flowchart: sources, steps, operations on their rows, and the types of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph.pipeline.job_model import Job, NamedSource, Step

_MAX_PATHS = 3
_ESCAPED = str.maketrans({c: f"#{ord(c)};" for c in "#&\"'<>|`;"})


def job_mermaid(job: Job) -> str:
    """Return the flowchart. Nodes of the graph are round, edge types are hexagons, steps have double sides."""
    target_text = f"{_text(job.graph or 'the graph')}, {_text(job.branch)}, {job.mode}"
    lines = ["flowchart LR", f'  graph_[("{target_text}")]']
    lines += [f'  i_{source.name}["{source.name}<br/>{_named(source)}"]' for source in job.sources]
    for step in job.steps:
        lines.append(f'  i_{step.name}[["{step.name}<br/>{_computed(step)}"]]')
        lines += [f"  i_{name} --> i_{step.name}" for name in dict.fromkeys(each.name for each in step.inputs)]
    number = 0
    for section, sources, opening, closing in (("n", job.nodes, "(", ")"), ("e", job.edges, "{{", "}}")):
        lines += [
            f'  {section}_{_identifier(name)}{opening}"{_text(name)}"{closing} --> graph_'
            for name in dict.fromkeys(source.type_name for source in sources)
        ]
        for source in sources:
            number += source.input is None
            target = f"{section}_{_identifier(source.type_name)}"
            done = ", ".join(_done(source.options))
            arrow = f'-- "{_text(done)}" -->' if done else "-->"
            origin = f'  s{number}["{_paths(source.paths)}"]' if source.input is None else f"  i_{source.input}"
            lines.append(f"{origin} {arrow} {target}")
    return "\n".join(lines)


def _named(source: NamedSource) -> str:
    """Return the origin of the rows of a named source, and the operations on them."""
    kinds = [("table", source.table), ("reader", source.reader), ("function", _function(source))]
    found = [f"{kind} {_text(text)}" for kind, text in kinds if text is not None]
    rows = _paths(source.paths) if source.paths else found[0]
    return "<br/>".join([rows, *map(_text, _done(source.options))])


def _computed(step: Step) -> str:
    how = "SQL" if step.sql is not None else f"function {_function(step)}"
    return "<br/>".join([_text(how), *map(_text, _done({"expect": step.expect}))])


def _function(part: NamedSource | Step) -> str | None:
    function = part.function
    return getattr(function, "__qualname__", None) or (None if function is None else str(function))


def _done(options: Mapping[str, Any]) -> Iterator[str]:
    """Return the operations on the rows of a source."""
    if options.get("where"):
        yield f"where {options['where']}"
    for name, kind in (options.get("cast") or {}).items():
        yield f"cast {name} as {kind}"
    for each in options.get("expect") or ():
        yield f"{each.on_fail}: {each.name}"
    if options.get("cdc"):
        yield "change events"


def _paths(paths: tuple[str, ...]) -> str:
    shown = [_text(path) for path in paths[:_MAX_PATHS]]
    more = len(paths) - len(shown)
    return "<br/>".join([*shown, *([f"and {more} more"] if more else [])])


def _identifier(name: str) -> str:
    """Return an identifier of Mermaid. Other characters are written by number, so different names stay different."""
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c)}_" for c in name)


def _text(text: str) -> str:
    """Return text as Mermaid shows it inside quotes."""
    return " ".join(text.split()).translate(_ESCAPED)
