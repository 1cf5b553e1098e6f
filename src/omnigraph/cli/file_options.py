"""Options for the format of input files, shared by the commands that read files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import options

if TYPE_CHECKING:
    from omnigraph.write.inputs.file_options import FileOptions


def _option(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)


Delimiter = Annotated[
    str | None, _option("--delimiter", metavar="SIGN", help="Between values of CSV; sniffed without it. `tab` is one.")
]
Quote = Annotated[str | None, _option("--quote", metavar="SIGN", help="Around values of CSV; empty for none.")]
Escape = Annotated[str | None, _option("--escape", metavar="SIGN", help="Before a quote inside quotes.")]
NoHeader = Annotated[bool, _option("--no-header", help="The first line of CSV is a row; columns are _c0, _c1 ...")]
Names = Annotated[str | None, _option("--names", metavar="A,B", help="Columns of CSV without a header.")]
Null = Annotated[list[str] | None, _option("--null", metavar="TEXT", help="Means null in CSV; may be repeated.")]
Encoding = Annotated[
    str | None, _option("--encoding", metavar="NAME", help="utf-8, utf-16, latin-1 ...; sniffed without it.")
]
Columns = Annotated[
    list[str] | None,
    _option("--column", metavar="PROPERTY=COLUMN", help="The column of a property; columns not named are left out."),
]
DateFormat = Annotated[
    str | None, _option("--date-format", metavar="PATTERN", help="Dates of CSV, such as %d.%m.%Y; ISO without it.")
]
DateTimeFormat = Annotated[
    str | None, _option("--datetime-format", metavar="PATTERN", help="Moments of CSV, such as '%d.%m.%Y %H:%M'.")
]


def read_options(
    delimiter: str | None, quote: str | None, escape: str | None, no_header: bool, names: str | None,
    null: list[str] | None, encoding: str | None, column: list[str] | None, date_format: str | None,
    datetime_format: str | None,
) -> FileOptions:  # fmt: skip
    """The options as one value."""
    from omnigraph.write.inputs.file_options import file_options

    return file_options(None, {
        "delimiter": "\t" if delimiter in ("tab", "\\t") else delimiter, "quote": quote, "escape": escape,
        "header": False if no_header or names else None, "names": None if names is None else tuple(names.split(",")),
        "null_values": tuple(null) if null else None, "encoding": encoding, "date_format": date_format,
        "datetime_format": datetime_format, "columns": _columns(column or []) or None,
    })  # fmt: skip


def _columns(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, sign, column = each.partition("=")
        if not (sign and name and column):
            options.usage(f"--column {each}: write --column PROPERTY=COLUMN")
        if name in found:
            options.usage(f"--column names {name} twice")
        found[name] = column
    return found
