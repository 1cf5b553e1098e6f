"""An inverted index over one String column, in memory.                 (column -> TextIndex -> mask or score per row)

Every answer has one value per row of the column, so it can be taken by row number like any column. The layout is CSR:

    stem    -> a run of words       `_stem_starts`      the spellings that share the stem
    word    -> a run of postings    `_word_starts`      one posting per document it stands in, by row
    posting -> a run of positions   `_place_starts`     where in the document; their number is the frequency

Words are sorted by their stem, so the postings of a stem are one run too. All arrays are int32. Stop words are left
out, but counted in positions. Null is no document. An index never changes and may be shared between threads.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidValue, LimitExceeded
from omnigraph.execution.arrow.tokens import STOP_WORDS, stem, tokenize, tokens_with_positions, words

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]

K1 = 1.2
B = 0.75
_WORD_BYTES = 64
_MAX_OCCURRENCES = 2**31 - 1
_LONGEST_COMPARED = 64  # longer words are no words that people mistype; distances of shorter ones fit in int8


@dataclass(frozen=True)
class Collection:
    """The statistics that the score of a text depends on: the number of documents, their words, documents by token."""

    documents: int
    words: int
    with_token: Mapping[str, int]

    def __add__(self, other: Collection) -> Collection:
        """Add the statistics of two parts of a column."""
        tokens = self.with_token.keys() | other.with_token.keys()
        together = {token: self.with_token.get(token, 0) + other.with_token.get(token, 0) for token in tokens}
        return Collection(self.documents + other.documents, self.words + other.words, together)


NO_DOCUMENTS = Collection(0, 0, {})


class TextIndex:
    """Full-text tests and scores for every row of a column."""

    def __init__(
        self, stems: list[str], spellings: list[str], stem_starts: Int32s, postings: _Postings | _Kept
    ) -> None:
        self._stem_ids = {text: number for number, text in enumerate(stems)}
        self._stems = stems
        self._spellings = spellings
        self._stem_starts = stem_starts
        self._word_starts = postings.word_starts
        self._rows = postings.rows
        self._place_starts = postings.place_starts
        self._places = postings.places
        self._lengths = postings.lengths
        self.row_count = len(postings.lengths)
        self.document_count = postings.document_count

    @property
    def nbytes(self) -> int:
        """Return the memory of the index, that of words estimated."""
        arrays = (self._stem_starts, self._word_starts, self._rows, self._place_starts, self._places, self._lengths)
        return sum(each.nbytes for each in arrays) + _WORD_BYTES * (len(self._stems) + len(self._spellings))

    @classmethod
    def build(cls, column: pa.Array) -> TextIndex:
        """Build the index of a String column; null rows are no documents."""
        vocabulary = _Numbering()
        codes, counts = array("i"), array("i")
        texts = column.to_pylist()
        for text in texts:
            found = () if text is None else words(text)
            codes.extend(map(vocabulary.__getitem__, found))
            counts.append(len(found))
        if len(codes) > _MAX_OCCURRENCES:
            raise LimitExceeded("a text column holds more words than one index can number")
        stem_of = {word: stem(word) for word in vocabulary if word not in STOP_WORDS}
        spellings = sorted(stem_of, key=lambda word: (stem_of[word], word))
        stems = sorted(set(stem_of.values()))
        sizes = _Numbering((text, 0) for text in stems)
        for word in spellings:
            sizes[stem_of[word]] += 1
        order = {word: number for number, word in enumerate(spellings)}
        ranks = np.array([order.get(word, -1) for word in vocabulary], np.int32)
        documents = len(texts) - column.null_count
        postings = _Postings(_int32s(codes), _int32s(counts), ranks, len(spellings), documents)
        return cls(stems, spellings, _starts(np.array(list(sizes.values()), np.int32)), postings)

    # --- keeping --------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Any]:
        """Return the whole index as arrays; `from_arrays` is the inverse."""
        texts = json.dumps([self._stems, self._spellings], ensure_ascii=False).encode("utf-8", "surrogatepass")
        return {
            "texts": np.frombuffer(texts, np.uint8),
            "stem_starts": self._stem_starts,
            "word_starts": self._word_starts,
            "rows": self._rows,
            "place_starts": self._place_starts,
            "places": self._places,
            "lengths": self._lengths,
            "documents": np.array([self.document_count], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> TextIndex:
        """The inverse of `arrays`."""
        stems, spellings = json.loads(arrays["texts"].tobytes().decode("utf-8", "surrogatepass"))
        kept = _Kept(
            arrays["word_starts"], arrays["rows"], arrays["place_starts"], arrays["places"], arrays["lengths"],
            int(arrays["documents"][0]),
        )  # fmt: skip
        return cls(stems, spellings, arrays["stem_starts"], kept)

    # --- queries --------------------------------------------------------------------------------------------------

    def search(self, query: str) -> Bools:
        """Return the rows in which at least one token of the query occurs."""
        mask = np.zeros(self.row_count, np.bool_)
        for token in tokenize(query):
            mask[self._rows[self._of_stem(token)]] = True
        return mask

    def phrase(self, query: str) -> Bools:
        """Return the rows in which the query's tokens occur adjacent and in order; a stop word counts as a position."""
        mask = np.zeros(self.row_count, np.bool_)
        tokens = tokens_with_positions(query)
        if not tokens:
            return mask
        first = tokens[0][1]
        # Where the phrase would have to begin for each occurrence of each token; rarest token first.
        begins = sorted((self._occurrences(token) - (place - first) for token, place in tokens), key=len)
        common = begins[0]
        for other in begins[1:]:
            common = common[_is_among(common, other)]
        mask[common >> 32] = True
        return mask

    def fuzzy(self, query: str, max_edits: int) -> Bools:
        """Return the rows with a word within some edits of a word of the query, as spelt or by its stem.

        Short words allow fewer: none up to two letters, one up to four, and never more than half the word.
        """
        if max_edits < 0:
            raise InvalidValue(f"fuzzy() needs a number of edits that is not negative, got {max_edits}")
        mask = np.zeros(self.row_count, np.bool_)
        for word in set(words(query)) - STOP_WORDS:
            for number in self._spelling_lexicon.within(word, max_edits):
                mask[self._rows[self._word_starts[number] : self._word_starts[number + 1]]] = True
            for number in self._stem_lexicon.within(stem(word), max_edits):
                mask[self._rows[self._of_stem(self._stems[number])]] = True
        return mask

    def bm25(self, query: str, collection: Collection | None = None) -> Floats:
        """Return the BM25 score of each row: 0.0 without a match. Every token of the query counts once.

        `collection` is given when these rows are a part of a column only.
        """
        scores = np.zeros(self.row_count, np.float64)
        dampings = self._dampings if collection is None else self._dampings_in(collection)
        documents = self.document_count if collection is None else collection.documents
        for token in sorted(set(tokenize(query))):
            rows, found = self._frequencies(token)
            if not len(rows):
                continue
            having = len(rows) if collection is None else collection.with_token[token]
            rarity = np.log(1.0 + (documents - having + 0.5) / (having + 0.5))
            scores[rows] += rarity * found * (K1 + 1.0) / (found + dampings[rows])
        return scores

    def collection(self, query: str) -> Collection:
        """Return the contribution of these rows to the collection that a query is scored in."""
        having = {token: len(self._frequencies(token)[0]) for token in set(tokenize(query))}
        return Collection(self.document_count, int(self._lengths.sum(dtype=np.int64)), having)

    # --- lookups --------------------------------------------------------------------------------------------------

    def _of_stem(self, token: str) -> slice:
        """Return the run of postings of a stem; empty when it never occurs."""
        number = self._stem_ids.get(token)
        if number is None:
            return slice(0, 0)
        first, last = self._stem_starts[number], self._stem_starts[number + 1]
        return slice(int(self._word_starts[first]), int(self._word_starts[last]))

    def _frequencies(self, token: str) -> tuple[Int64s, Floats]:
        """Return the rows that a stem occurs in, and how often."""
        run = self._of_stem(token)
        if run.start == run.stop:
            return np.empty(0, np.int64), np.empty(0, np.float64)
        counts = np.diff(self._place_starts[run.start : run.stop + 1])
        frequencies: Floats = np.bincount(self._rows[run], weights=counts, minlength=self.row_count).astype(np.float64)
        rows: Int64s = np.flatnonzero(frequencies)
        return rows, frequencies[rows]

    def _occurrences(self, token: str) -> Int64s:
        """Return every occurrence of a stem as `row << 32 | position`, sorted."""
        run = self._of_stem(token)
        starts = self._place_starts[run.start : run.stop + 1]
        rows = np.repeat(self._rows[run].astype(np.int64), np.diff(starts))
        places = self._places[starts[0] : starts[-1]]
        found: Int64s = np.sort((rows << 32) + places, kind="stable")
        return found

    @cached_property
    def _dampings(self) -> Floats:
        """Return the term that BM25 adds to a frequency for the length of its document."""
        return self._dampings_in(self.collection(""))

    def _dampings_in(self, collection: Collection) -> Floats:
        average = collection.words / max(collection.documents, 1)
        dampings: Floats = K1 * (1.0 - B + B * self._lengths.astype(np.float64) / max(average, 1e-9))
        return dampings

    @cached_property
    def _spelling_lexicon(self) -> Lexicon:
        return Lexicon(self._spellings)

    @cached_property
    def _stem_lexicon(self) -> Lexicon:
        return Lexicon(self._stems)


class Lexicon:
    """Words that can be looked up by Levenshtein distance. Words of one length lie together, letter by letter."""

    def __init__(self, entries: list[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(entries)}
        by_length: dict[int, list[int]] = {}
        for number, word in enumerate(entries):
            by_length.setdefault(len(word), []).append(number)
        self._buckets: dict[int, tuple[Int64s, np.ndarray[Any, np.dtype[np.uint32]]]] = {}
        for length, numbers in by_length.items():
            if length <= _LONGEST_COMPARED:
                letters = _letters("".join(entries[number] for number in numbers)).reshape(len(numbers), length)
                self._buckets[length] = np.array(numbers, np.int64), np.ascontiguousarray(letters.T)

    def within(self, word: str, max_edits: int) -> list[int]:
        """Return the entries within some edits of the word, fewer for a short one."""
        edits = min(max_edits, allowed_edits(len(word)))
        if edits == 0 or len(word) > _LONGEST_COMPARED:
            return [self._numbers[word]] if word in self._numbers else []
        found: list[int] = []
        for length in range(max(1, len(word) - edits), len(word) + edits + 1):
            if length in self._buckets:
                numbers, letters = self._buckets[length]
                found.extend(numbers[_near(_letters(word), letters, edits)].tolist())
        return found


def allowed_edits(length: int) -> int:
    """Return the number of edits that a word of a length allows."""
    if length <= 2:
        return 0
    return 1 if length <= 4 else length // 2


def _near(word: np.ndarray[Any, Any], letters: np.ndarray[Any, Any], edits: int) -> Int64s:
    """Return the columns of `letters` (one candidate each) within the distance: one dynamic-programming row per letter.

    The classic recurrence runs along a row; `minimum.accumulate` over distances less their index does the same at once.
    A candidate is dropped as soon as its whole row exceeds the limit, since row minima never decrease.
    """
    alive = np.arange(letters.shape[1], dtype=np.int64)
    index = np.arange(len(letters) + 1, dtype=np.int8)[:, None]
    row = np.repeat(index, len(alive), axis=1)
    for step, letter in enumerate(word, start=1):
        fresh = row + np.int8(1)
        np.minimum(fresh[1:], row[:-1] + (letters != letter), out=fresh[1:])
        fresh[0] = step
        row = np.minimum.accumulate(fresh - index, axis=0) + index
        if step > edits:
            kept = row.min(axis=0) <= edits
            alive, row, letters = alive[kept], row[:, kept], letters[:, kept]
    near: Int64s = alive[row[-1] <= edits]
    return near


class _Numbering(dict[str, int]):
    """Numbers words in the order of their first occurrence."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


@dataclass(frozen=True)
class _Kept:
    """Postings as they were stored."""

    word_starts: Int32s
    rows: Int32s
    place_starts: Int32s
    places: Int32s
    lengths: Int32s
    document_count: int


class _Postings:
    """Collects occurrences in document order, and turns them into runs of postings and positions by word."""

    def __init__(self, codes: Int32s, counts: Int32s, ranks: Int32s, words: int, documents: int) -> None:
        numbers = ranks[codes] if len(codes) else codes
        rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        places = np.arange(len(codes), dtype=np.int32) - np.repeat(_starts(counts)[:-1], counts)
        kept = np.flatnonzero(numbers >= 0)
        kept = kept[np.argsort(numbers[kept], kind="stable")]  # stable: rows and positions stay in order
        numbers, rows, self.places = numbers[kept], rows[kept], places[kept]
        is_first = np.ones(len(kept), np.bool_)
        is_first[1:] = (numbers[1:] != numbers[:-1]) | (rows[1:] != rows[:-1])
        first = np.flatnonzero(is_first)
        self.rows: Int32s = rows[first]
        self.place_starts: Int32s = np.append(first, len(kept)).astype(np.int32)
        self.word_starts = _starts(np.bincount(numbers[first], minlength=words).astype(np.int32))
        self.lengths: Int32s = np.bincount(rows, minlength=len(counts)).astype(np.int32)
        self.document_count = documents


def _starts(sizes: Int32s) -> Int32s:
    """Return where each run starts, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=starts[1:])
    return starts


def _int32s(values: array[int]) -> Int32s:
    return np.frombuffer(values, np.int32) if len(values) else np.empty(0, np.int32)


def _letters(text: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _is_among(values: Int64s, ordered: Int64s) -> Bools:
    """Return which values occur in a sorted array."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    found: Bools = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found


__all__ = ["K1", "NO_DOCUMENTS", "B", "Collection", "Lexicon", "TextIndex", "allowed_edits"]
