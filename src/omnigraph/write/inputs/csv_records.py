"""Splitting CSV into records with the line of each, without the records on which pyarrow would stop.

An opening quote whose closing quote is missing, or is followed by anything but a delimiter or a line end, tears its
line only: reading goes on at the next one. A record with bytes that cannot be decoded is torn too. Positions of quotes
and line ends are found for a whole block at once, so that clean files cost little.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph.write.inputs.csv_dialect import UTF_8, CsvDialect

MAX_RECORD_BYTES = 64 << 20
"""A quoted value longer than this was never closed."""
_LF, _CR = ord("\n"), ord("\r")
_MARK = "\ufeff"
_NO_TEXT = "\udcff"
"""Stands for bytes that an encoding cannot decode: a surrogate, which is not valid UTF-8 either."""
_OPEN = "a quoted value is not closed, or text follows its closing quote"
_OPEN_HINT = "close the quote; a quote inside a quoted value is written twice"
_BYTES_HINT = "if the file has another encoding, name it: encoding latin-1, cp1252, utf-16 ..."
_TEXT_BYTES = 1 << 15
"""Bytes that are decoded at once to check them, so that a bad byte does not cost memory for its whole block."""
Span = tuple[int, int]
Reasons = dict[int, tuple[str, str]]
"""Errors of records, by number: a message and a hint."""


@dataclass(frozen=True, slots=True)
class TornRecord:
    """A record that cannot be read, and why."""

    line: int
    text: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Records:
    """The whole records of a block. `lines` has the line of each in `data`; `used` is the number of bytes consumed."""

    data: bytes
    lines: Any
    torn: tuple[TornRecord, ...]
    used: int
    line_count: int


codecs.register_error("omnigraph-no-text", lambda error: (_NO_TEXT, getattr(error, "end", 0)))


def utf8_pieces(stream: Any, encoding: str, size: int) -> Iterator[bytes]:
    """The bytes of a stream in UTF-8, without a byte order mark. Bytes that cannot be decoded become invalid UTF-8."""
    plain = codecs.lookup(encoding).name in (UTF_8, "utf-8-sig")
    decoder = None if plain else codecs.getincrementaldecoder(encoding)(errors="omnigraph-no-text")
    is_first = True
    while True:
        data = bytes(stream.read(size))
        is_last = not data
        piece = data if decoder is None else decoder.decode(data, is_last).encode(errors="surrogatepass")
        if piece and is_first:
            piece, is_first = piece.removeprefix(_MARK.encode()), False
        if piece:
            yield piece
        if is_last:
            return


def split_records(block: bytes, first_line: int, dialect: CsvDialect, *, is_last: bool) -> Records:
    """The records of a block. An unfinished one is left for the next block, unless this is the last."""
    if is_last and not block.endswith(b"\n"):
        block += b"\n"
    signs = np.frombuffer(block, np.uint8)
    lines = _line_ends(block, signs, is_last)
    ends, broken = _record_ends(block, signs, lines, dialect, is_closed=is_last or len(block) > MAX_RECORD_BYTES)
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1)) if len(ends) else np.zeros(0, np.int64)
    used = int(ends[-1]) + 1 if len(ends) else 0
    is_kept = np.ones(len(ends), bool)
    wrong = _no_text(block, ends, used, (dialect.encoding or UTF_8).upper())
    wrong |= {int(record): (_OPEN, _OPEN_HINT) for record in begins.searchsorted([begin for begin, _ in broken])}
    torn: tuple[TornRecord, ...] = ()
    if wrong:
        records = np.array(sorted(wrong), np.int64)
        is_kept[records] = False
        torn = _torn(block, begins[records], ends[records], first_line + lines.searchsorted(begins[records]), wrong)
    data = _kept(block, begins, ends, is_kept, used)
    sizes = ends - begins
    is_blank = (sizes == 0) | ((sizes == 1) & (signs[begins] == _CR)) if len(ends) else is_kept
    wanted = begins[is_kept & ~is_blank]
    return Records(data, first_line + lines.searchsorted(wanted), torn, used, int(lines.searchsorted(used)))


def _torn(block: bytes, begins: Any, ends: Any, lines: Any, wrong: Reasons) -> tuple[TornRecord, ...]:
    """The records that cannot be read, in their order, as text with the line of each."""
    places = zip(begins.tolist(), ends.tolist(), lines.tolist(), sorted(wrong), strict=True)
    return tuple(
        TornRecord(line, block[begin:end].decode(errors="replace").rstrip("\r"), *wrong[record])
        for begin, end, line, record in places
    )


def _line_ends(block: bytes, signs: Any, is_last: bool) -> Any:
    """The positions where lines end: LF, CRLF, or CR alone."""
    found = np.flatnonzero(signs == _LF)
    if b"\r" not in block:
        return found
    returns = np.flatnonzero(signs == _CR)
    if len(returns) and returns[-1] == len(block) - 1:  # the next byte decides
        returns = returns[:-1]
    alone = returns[signs[returns + 1] != _LF]
    return np.sort(np.concatenate((found, alone))) if len(alone) else found


def _no_text(block: bytes, ends: Any, used: int, name: str) -> Reasons:
    """The records with bytes that are not UTF-8. `name` is the encoding of the file."""
    found: Reasons = {}
    if block.isascii():
        return found
    view, at = memoryview(block), 0
    while at < used:
        stop = int(ends[ends.searchsorted(min(at + _TEXT_BYTES, used) - 1)]) + 1
        try:
            codecs.utf_8_decode(view[at:stop], "strict", True)
            at = stop
        except UnicodeDecodeError as error:
            bad = at + error.start
            record = int(ends.searchsorted(bad))
            what = f"byte 0x{block[bad]:02x} is" if name == "UTF-8" else "it has bytes that are"
            found[record] = (f"{what} no {name}", _BYTES_HINT)
            at = int(ends[record]) + 1
    return found


def _kept(block: bytes, begins: Any, ends: Any, is_kept: Any, used: int) -> bytes:
    if is_kept.all():
        return block if used == len(block) else block[:used]
    view, pieces, at = memoryview(block), [], 0
    for begin, end in zip(begins[~is_kept].tolist(), ends[~is_kept].tolist(), strict=True):
        pieces.append(view[at:begin])
        at = end + 1
    return b"".join((*pieces, view[at:used]))


def _record_ends(
    block: bytes, signs: Any, lines: Any, dialect: CsvDialect, *, is_closed: bool
) -> tuple[Any, list[Span]]:
    """The line ends outside of quotes, and the lines torn by quotes."""
    quote = dialect.quote.encode()
    escaped = _escaped(block, dialect)
    if len(escaped):
        lines = np.setdiff1d(lines, escaped, assume_unique=True)
    if not quote or quote not in block:
        return lines, []
    quotes = np.flatnonzero(signs == quote[0])
    if len(escaped):
        quotes = np.setdiff1d(quotes, escaped, assume_unique=True)
    scan = _QuoteScan(signs, quotes, lines, ord(dialect.delimiter or ","))
    scan.run(is_closed)
    is_end = scan.marks().searchsorted(lines) % 2 == 0
    if scan.broken:  # one record each, also where it has a value over several lines
        for low, high in lines.searchsorted(np.array(scan.broken)).tolist():
            is_end[low : high - 1] = False
    return lines[is_end], scan.broken


def _escaped(block: bytes, dialect: CsvDialect) -> Any:
    sign = dialect.escape.encode()
    if not sign or sign not in block:
        return np.zeros(0, np.int64)
    found = re.finditer(re.escape(sign) + b".", block, re.DOTALL)
    return np.fromiter((each.start() + 1 for each in found), np.int64)


class _QuoteScan:
    """Separates the quotes that open and close values from those that are characters, and finds those that tear a line.

    From a quote that opens a value, every other one opens and closes in turn, doubled ones too. So the next place where
    that order is broken is computed beforehand for both orders, and only broken places cost a step.
    """

    def __init__(self, signs: Any, quotes: Any, lines: Any, delimiter: int) -> None:
        self._quotes, self._lines = quotes, lines
        count, size = len(quotes), len(signs)
        before = np.where(quotes > 0, signs[np.maximum(quotes - 1, 0)], _LF)
        after = np.where(quotes < size - 1, signs[np.minimum(quotes + 1, size - 1)], _LF)
        is_edge = np.zeros(256, bool)
        is_edge[[delimiter, _LF, _CR]] = True
        touches = np.diff(quotes) == 1
        no = np.zeros(1, bool)
        self._begins = is_edge[before]
        cannot_open = ~(self._begins | np.concatenate((no, touches)))
        cannot_close = ~(is_edge[after] | np.concatenate((touches, no)))
        is_even = np.arange(count) % 2 == 0
        self._faults = (
            np.flatnonzero(np.where(is_even, cannot_open, cannot_close)),
            np.flatnonzero(np.where(is_even, cannot_close, cannot_open)),
        )
        self._characters: list[int] = []  # quotes that neither open nor close, ascending
        self.broken: list[Span] = []

    def marks(self) -> Any:
        """The positions of the quotes that open and close values."""
        is_mark = np.ones(len(self._quotes), bool)
        is_mark[self._characters] = False
        return self._quotes[is_mark]

    def run(self, is_closed: bool) -> None:
        """Classify all quotes. Not `is_closed`: a value that is open at the end may go on."""
        first, count = 0, len(self._quotes)
        while first < count:
            if not self._begins[first]:  # a character of a value without quotes
                self._characters.append(first)
                first += 1
                continue
            fault = self._next_fault(first)
            if fault == count:
                if (count - first) % 2 == 0 or not is_closed:
                    return
                opening = count - 1
            elif (fault - first) % 2 == 0:
                self._characters.append(fault)
                first = fault + 1
                continue
            else:
                opening = fault - 1
            after = self._tear(self._opening(opening))
            if after is None:
                return
            first = after

    def _next_fault(self, first: int) -> int:
        faults = self._faults[first % 2]
        at = int(faults.searchsorted(first))
        return int(faults[at]) if at < len(faults) else len(self._quotes)

    def _opening(self, at: int) -> int:
        """The quote that opens the value that contains a quote of the same order."""
        while not self._begins[at]:
            at -= 2
        return at

    def _tear(self, opening: int) -> int | None:
        """Leave out the line of an opening quote, from the start of its record. Returns the first quote after it."""
        at = int(self._lines.searchsorted(self._quotes[opening]))
        if at == len(self._lines):
            return None
        begin = self._record_begin(opening)
        end = int(self._lines[at]) + 1
        low, high = self._quotes.searchsorted((begin, end)).tolist()
        del self._characters[bisect_left(self._characters, low) :]
        self._characters.extend(range(low, high))
        self.broken.append((begin, end))
        return int(high)

    def _record_begin(self, opening: int) -> int:
        """The start of the record of an opening quote: earlier values of it may hold line ends."""
        while True:
            line = int(self._lines.searchsorted(self._quotes[opening]))
            if not line:
                return 0
            begin = int(self._lines[line - 1]) + 1
            seen = int(self._quotes.searchsorted(begin))
            if self._is_outside(seen):
                return begin
            opening = next(at for at in range(seen - 1, -1, -1) if self._begins[at] and self._is_outside(at))

    def _is_outside(self, at: int) -> bool:
        """Whether every value that a quote before this one opens is closed."""
        return (at - bisect_left(self._characters, at)) % 2 == 0
