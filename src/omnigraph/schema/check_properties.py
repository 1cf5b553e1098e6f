"""Check one property alone: its name, its type and the annotations behind it.               (part of CHECKS)"""

from __future__ import annotations

from omnigraph.datatypes import MAX_VECTOR_DIMENSION, PropertyType, Scalar
from omnigraph.schema import ast
from omnigraph.schema.names import EDGE_WORDS, KNOWN_ANNOTATIONS, METRICS, RESERVED, nearest
from omnigraph.schema.report import Report
from omnigraph.schema.resolve import default_value, text_value


def check_property(report: Report, each: ast.PropertyDecl, owner: ast.Declaration) -> None:
    """Check name, type and annotations of one declared property."""
    _check_name(report, each, owner)
    _check_type(report, each)
    seen: dict[str, ast.Annotation] = {}
    for annotation in each.annotations:
        if annotation.name in KNOWN_ANNOTATIONS:
            first = seen.setdefault(annotation.name, annotation)
            if first is not annotation:
                where = f"the first is on line {first.span.line}"
                report.add(f"`@{annotation.name}` is given twice; {where}", annotation.span, "keep one")
                continue
        _check_annotation(report, each, annotation, owner)


def check_text_annotation(report: Report, annotation: ast.Annotation) -> None:
    """Check `@description`, `@instruction` and `@rename_from`: one non-blank text and nothing else."""
    example = '"OldName"' if annotation.name == "rename_from" else '"..."'
    hint = f"write `@{annotation.name}({example})`"
    value = text_value(annotation)
    if annotation.keywords or len(annotation.positional) != 1 or value is None:
        report.add(f"`@{annotation.name}` takes exactly one text", annotation.span, hint)
    elif not value.strip():
        report.add(f"`@{annotation.name}` is empty", annotation.span, hint)
    elif not _is_text(annotation.positional[0], bare=annotation.name == "rename_from"):
        report.add(f"`@{annotation.name}` takes exactly one text", annotation.span, hint)


def check_unknown(report: Report, annotation: ast.Annotation) -> None:
    """Check an unknown annotation: one value, then `name=value` pairs; it is kept as written."""
    close = nearest(annotation.name, KNOWN_ANNOTATIONS)
    hint = f"did you mean `@{close}`?" if close else "one value, then `name=value` pairs"
    arguments = annotation.arguments or ()
    for place, argument in enumerate(arguments):
        if place > 0 and not isinstance(argument, ast.Keyword):
            report.add(f"`@{annotation.name}` takes one value", argument.span, hint)
            return
    if isinstance(next(iter(arguments), None), ast.Bounds):
        report.add(f"`@{annotation.name}` takes no range", annotation.span, hint)


def _is_text(argument: ast.Argument, *, bare: bool) -> bool:
    # Names may be written bare, prose may not.
    if isinstance(argument, ast.Name):
        return bare and not argument.at
    return isinstance(argument, ast.Literal) and isinstance(argument.value, str)


def _check_name(report: Report, each: ast.PropertyDecl, owner: ast.Declaration) -> None:
    name, span = each.name.text, each.name.span
    if name in RESERVED:
        report.add(f"the property name `{name}` is reserved", span, "choose another name")
    elif name == "id":
        hint = "every entity has an `id` already; name the property for what it is, such as `slug` or `code`"
        report.add("the property name `id` is reserved", span, hint)
    elif name in EDGE_WORDS and isinstance(owner, ast.EdgeDecl):
        hint = "`src`, `dst`, `from` and `to` name the endpoints of an edge; choose another name"
        report.add(f"the property name `{name}` is reserved on edges", span, hint)


def _check_type(report: Report, each: ast.PropertyDecl) -> None:
    written = each.type
    if written.dimension is not None and not 1 <= written.dimension <= MAX_VECTOR_DIMENSION:
        message = f"a vector has 1 to {MAX_VECTOR_DIMENSION} dimensions, not {written.dimension}"
        report.add(message, each.type_span, "write the length of the vectors you store, such as `Vector(384)`")
    if written.is_list and written.scalar is Scalar.BLOB:
        report.add("a list cannot hold blobs", each.type_span, "use a node per blob")
    values = written.values or ()
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        report.add(f"the enum value `{repeated[0]}` is given twice", each.type_span, "keep one")


def _check_annotation(
    report: Report, each: ast.PropertyDecl, annotation: ast.Annotation, owner: ast.Declaration
) -> None:
    name, span = annotation.name, annotation.span
    match name:
        case "key" | "unique":
            pass  # seen together with the body form, in check_constraints
        case "index":
            _check_metric(report, each, annotation)
        case "default":
            _check_default(report, each, annotation)
        case "embed":
            _check_embed(report, each, annotation, owner)
        case "description" | "rename_from":
            check_text_annotation(report, annotation)
        case "instruction":
            report.add("`@instruction` is for types, not for properties", span, "use `@description`")
        case "card":
            report.add("`@card` does not belong on a property", span, "write it after the endpoints of the edge")
        case "range":
            report.add("`@range` needs a property and bounds", span, f"write `@range({each.name.text}, 0..10)`")
        case "check":
            report.add("`@check` needs a property and a pattern", span, f'write `@check({each.name.text}, "^[a-z]+$")`')
        case _:
            check_unknown(report, annotation)


def _check_metric(report: Report, each: ast.PropertyDecl, annotation: ast.Annotation) -> None:
    choices = ", ".join(f'"{metric}"' for metric in METRICS)
    for keyword in annotation.keywords:
        if keyword.name.text != "metric":
            report.add(f"`@index` does not know `{keyword.name.text}`", keyword.span, 'write `@index(metric="cosine")`')
        elif keyword.value.value not in METRICS:
            report.add(f"unknown metric `{keyword.value.value}`", keyword.value.span, f"use one of {choices}")
        elif not each.type.is_vector:
            message = f"only a vector index has a metric; `{each.name.text}` is `{each.type}`"
            report.add(message, annotation.span, "write `@index`")
    if len(annotation.keywords) > 1:
        report.add("`@index` takes one metric", annotation.span, 'write `@index(metric="cosine")`')


def _check_default(report: Report, each: ast.PropertyDecl, annotation: ast.Annotation) -> None:
    arguments = annotation.arguments or ()
    if len(arguments) != 1 or isinstance(arguments[0], ast.Keyword):
        report.add("`@default` takes exactly one value", annotation.span, f"write {_default_example(each.type)}")
        return
    try:
        default_value(each.type, arguments[0])
    except ValueError as problem:
        hint = _default_hint(each.type, arguments[0])
        report.add(f"wrong default for `{each.name.text}`: {problem}", arguments[0].span, hint)


def _default_hint(type_: PropertyType, argument: ast.Argument) -> str:
    if not type_.is_plain_scalar:
        return "leave it out, or make the property nullable with `?`"
    if isinstance(argument, ast.Name) and argument.text == "null":
        return "leave `@default` out"
    if isinstance(argument, ast.Name) and type_.scalar is Scalar.STRING and type_.values is None:
        return f'write `@default("{argument.text}")`'
    return f"write for example {_default_example(type_)}"


def _default_example(type_: PropertyType) -> str:
    if type_.values:
        return f'`@default("{type_.values[0]}")`'
    examples = {
        Scalar.STRING: '"text"',
        Scalar.BOOL: "true",
        Scalar.F32: "0.5",
        Scalar.F64: "0.5",
        Scalar.DATE: '"2024-01-31"',
        Scalar.DATETIME: '"2024-01-31T12:00:00Z"',
    }
    return f"`@default({examples.get(type_.scalar, '0')})`"


def _check_embed(report: Report, each: ast.PropertyDecl, annotation: ast.Annotation, owner: ast.Declaration) -> None:
    """Check `@embed` except its source, which may come from an interface and which `check_constraints` checks."""
    hint = 'write `@embed("text_property")`'
    if isinstance(owner, ast.EdgeDecl):
        report.add("`@embed` is for node properties only", annotation.span, "put the vector on a node type")
    if not each.type.is_vector:
        message = f"`@embed` needs a vector; `{each.name.text}` is `{each.type}`"
        report.add(message, annotation.span, "write the type as `Vector(n)`")
    if len(annotation.positional) != 1 or not (text_value(annotation) or "").strip():
        report.add("`@embed` needs the name of its source property", annotation.span, hint)
    elif not _is_text(annotation.positional[0], bare=True):
        report.add("`@embed` needs the name of its source property", annotation.positional[0].span, hint)
    for keyword in annotation.keywords:
        if keyword.name.text != "model":
            report.add(f"`@embed` does not know `{keyword.name.text}`", keyword.span, 'only `model="..."` is known')
        elif not (isinstance(keyword.value.value, str) and keyword.value.value.strip()):
            report.add("`@embed` needs the model's name as a text", keyword.value.span, 'write `model="..."`')
