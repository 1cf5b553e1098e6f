"""Options of the files of a load: the keywords of `Graph.load` and of the command line as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.write.inputs.csv_dialect import CsvDialect


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of files: those of `pipeline.Files`, which names them for one source.

    `columns` maps properties (or `from`, `to`, `id`) to columns; columns it does not name are left out. The others
    describe CSV: `CsvDialect`. A delimiter and an encoding that are not named are sniffed.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    quote: str = '"'
    escape: str = ""
    header: bool = True
    names: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ()
    encoding: str | None = None
    date_format: str | None = None
    datetime_format: str | None = None

    def __post_init__(self) -> None:
        _ = self.dialect

    @property
    def dialect(self) -> CsvDialect:
        """The dialect of the CSV files."""
        return CsvDialect(
            self.delimiter, self.quote, self.escape, self.header, self.names, self.null_values, self.encoding,
            self.date_format, self.datetime_format,
        )  # fmt: skip

    @property
    def of_csv(self) -> tuple[str, ...]:
        """The names of the CSV options that differ from the defaults."""
        return tuple(f.name for f in fields(self) if f.name != "columns" and getattr(self, f.name) != f.default)

    def as_dict(self) -> dict[str, Any]:
        """The options by name, as arguments of `Files`."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def require_format(self, path: str, format: str) -> None:
        """Refuse options of CSV for a file of another format."""
        if format != "csv" and self.of_csv:
            raise InvalidArgument(
                f"{self.of_csv[0]} is for CSV, {path} is {format}",
                hint="load the file without it, or by a `Files` of its own",
            )


NO_OPTIONS = FileOptions()


def file_options(given: FileOptions | None, keywords: Mapping[str, Any]) -> FileOptions:
    """The options of a load: an object, or keywords."""
    named = {name: value for name, value in keywords.items() if value is not None}
    if given is not None and named:
        raise InvalidArgument(f"`options` and `{next(iter(named))}` are given", hint="write all of them into `options`")
    return given or FileOptions(**named)
