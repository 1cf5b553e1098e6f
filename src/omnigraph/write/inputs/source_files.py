"""Files of one type as a source of a load, with all options of their format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.errors import InvalidArgument
from omnigraph.errors.base import show_value
from omnigraph.write.inputs.change_events import Cdc
from omnigraph.write.inputs.csv_dialect import CsvDialect
from omnigraph.write.inputs.expectations import ADD, UNKNOWN, Expectation
from omnigraph.write.inputs.partition_folders import folders_of
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.suffixes import require_suffix
from omnigraph.write.inputs.tables import FORMATS, FilePart


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format that hold rows of one type, or envelope rows of any type (`type_name` None).

    `columns` maps a property (or `from`, `to`, `id`) to the column that holds it; unnamed ones keep their name. Folders
    such as `country=NO` are columns too, unless `partitions` is False. `where` is a condition in Spark SQL over the
    columns of the files, `cast` maps properties to types of Spark SQL. With `cdc` rows are events that upsert or
    delete. `expect` are rules over the same columns. `unknown` (`ignore`, `refuse`, `add`) decides about columns that
    the type does not have, and overrides the load's option. The options from `delimiter` on describe CSV files:
    `CsvDialect`.
    """

    type_name: str | None
    paths: tuple[str, ...]
    format: str
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
    partitions: bool = True
    where: str | None = None
    cast: Mapping[str, str] = field(default_factory=dict)
    cdc: Cdc | None = None
    expect: tuple[Expectation, ...] = ()
    unknown: str | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidArgument(f"format {self.format!r} is unknown", hint=f"use one of {', '.join(FORMATS)}")
        if isinstance(self.paths, str | os.PathLike):
            raise InvalidArgument(f"paths is {show_value(self.paths)}, not a list", hint="a single path is a list too")
        for path in self.paths:
            require_suffix(path, self.format)
        if self.type_name is None and self.is_selected:
            raise InvalidArgument("rows of several types take no `where`, no `cast`, no `cdc` and no `expect`")
        if self.type_name is None and self.unknown == ADD:
            raise InvalidArgument("rows of several types add no properties", hint="name the type of the files")
        if self.unknown not in (None, *UNKNOWN):
            raise InvalidArgument(f"unknown {self.unknown!r} is unknown", hint=f"use one of {', '.join(UNKNOWN)}")
        names = [each.name for each in self.expect]
        if len(set(names)) < len(names):
            raise InvalidArgument("two expectations have one name", hint="give each rule a name of its own")
        _ = self.dialect

    @property
    def dialect(self) -> CsvDialect:
        """The dialect of its CSV files."""
        return CsvDialect(
            self.delimiter,
            self.quote,
            self.escape,
            self.header,
            self.names,
            self.null_values,
            self.encoding,
            self.date_format,
            self.datetime_format,
        )

    @property
    def place(self) -> str:
        """The name of the source in reports."""
        return f"{self.type_name or 'rows'} from {self.paths[0]}"

    @property
    def is_selected(self) -> bool:
        """Whether Spark SQL chooses its rows or computes its values."""
        return self.where is not None or bool(self.cast) or self.cdc is not None or bool(self.expect)

    def parts(self, access: S3Access | None = None) -> Iterator[FilePart]:
        """Each file as a whole."""
        for path in self.paths:
            folders = folders_of(path) if self.partitions and self.type_name is not None else ()
            yield FilePart(
                path=path, format=self.format, columns=dict(self.columns), dialect=self.dialect, folders=folders,
                access=access,
            )  # fmt: skip
