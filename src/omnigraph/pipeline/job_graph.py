"""A job as a Mermaid flowchart: sources, what is done to their rows, and the types of the graph."""

from __future__ import annotations

from omnigraph.pipeline.job import Job, JobSource

_MAX_PATHS = 3
_ESCAPED = str.maketrans({c: f"#{ord(c)};" for c in "#&\"'<>|`;"})


def job_mermaid(job: Job) -> str:
    """The text of the flowchart. Nodes of the graph are round, edge types are hexagons."""
    target_text = f"{_text(job.graph or 'the graph')}, {_text(job.branch)}, {job.mode}"
    lines = ["flowchart LR", f'  graph_[("{target_text}")]']
    number = 0
    for section, sources, opening, closing in (("n", job.nodes, "(", ")"), ("e", job.edges, "{{", "}}")):
        lines += [
            f'  {section}_{_identifier(name)}{opening}"{_text(name)}"{closing} --> graph_'
            for name in dict.fromkeys(source.type_name for source in sources)
        ]
        for source in sources:
            number += 1
            target = f"{section}_{_identifier(source.type_name)}"
            steps = ", ".join(_steps(source))
            arrow = f'-- "{_text(steps)}" -->' if steps else "-->"
            lines.append(f'  s{number}["{_paths(source)}"] {arrow} {target}')
    return "\n".join(lines)


def _steps(source: JobSource) -> list[str]:
    """What is done to the rows of a source."""
    options = source.options
    found = [f"where {options['where']}"] if options.get("where") else []
    found += [f"cast {name} as {kind}" for name, kind in options.get("cast", {}).items()]
    found += [f"{each.on_fail}: {each.name}" for each in options.get("expect", ())]
    return [*found, *(["change events"] if "cdc" in options else [])]


def _paths(source: JobSource) -> str:
    shown = [_text(path) for path in source.paths[:_MAX_PATHS]]
    more = len(source.paths) - len(shown)
    return "<br/>".join([*shown, *([f"and {more} more"] if more else [])])


def _identifier(name: str) -> str:
    """A name of Mermaid. What is no letter or digit is written by its number, so different names stay different."""
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c)}_" for c in name)


def _text(text: str) -> str:
    """Text as Mermaid shows it inside quotes."""
    return " ".join(text.split()).translate(_ESCAPED)
