"""Full-text tests and scores, against plain Python over the same tokens."""

from __future__ import annotations

import math
import re
import time
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidValue
from omnigraph.execution.arrow.text_index import Lexicon, TextIndex, allowed_edits
from omnigraph.execution.arrow.tokens import STOP_WORDS, stem, tokenize, tokens_with_positions, words
from omnigraph.query import compile_file, lint_queries
from omnigraph.schema.catalog import compile_schema

TITLES = [
    "Intro to Machine Learning",  # 0
    "Deep Learning and Neural Networks",  # 1
    None,  # 2
    "Reinforcement learning: learning by reward",  # 3
    "",  # 4
    "The Statue of Liberty",  # 5
    "Liberty statue, a statue",  # 6
    "Databases for graphs",  # 7
    "the of and",  # 8
]
INDEX = TextIndex.build(pa.array(TITLES))


def rows(mask: np.ndarray) -> list[int]:
    assert mask.dtype == np.bool_
    assert len(mask) == len(TITLES)
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Learning", [0, 1, 3]),
        ("LEARNED", [0, 1, 3]),
        ("neural graph", [1, 7]),
        ("nonsense", []),
        ("nonsense networks", [1]),
        ("", []),
        ("the of and", []),
        ("!?", []),
    ],
)
def test_search_wants_any_token(query: str, expected: list[int]) -> None:
    assert rows(INDEX.search(query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("neural", [1]),
        ("machine learning", [0]),
        ("Machines learn", [0]),
        ("learning machine", []),
        ("statue of liberty", [5]),
        ("the statue of liberty", [5]),
        ("statue liberty", []),
        ("liberty statue", [6]),
        ("statue a statue", [6]),
        ("learning learning", [3]),
        ("deep networks", []),
        ("machine nonsense", []),
        ("", []),
        ("of the", []),
    ],
)
def test_phrase_wants_them_adjacent_and_in_order(query: str, expected: list[int]) -> None:
    assert rows(INDEX.phrase(query)) == expected


def test_a_phrase_does_not_reach_into_the_next_row() -> None:
    index = TextIndex.build(pa.array(["alpha", "beta gamma", "of gamma"]))
    assert index.phrase("alpha beta").tolist() == [False] * 3
    assert index.phrase("beta gamma").tolist() == [False, True, False]
    assert index.phrase("alpha of the of gamma").tolist() == [False] * 3
    assert index.phrase("the gamma").tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("query", "edits", "expected"),
    [
        ("learnin", 1, [0, 1, 3]),
        ("lerning", 1, [0, 1, 3]),
        ("learnimg", 1, [0, 1, 3]),
        ("leanring", 2, [0, 1, 3]),
        ("leanring", 1, []),
        ("lerned", 1, [0, 1, 3]),  # by the stems: lern, learn
        ("learning", 0, [0, 1, 3]),
        ("learnin", 0, []),
        ("nueral", 2, [1]),
        ("databse", 2, [7]),
        ("grahps", 2, [7]),
        ("deap", 2, [1]),
        ("dxxp", 2, []),  # two edits in four letters are another word
        ("de", 2, []),
        ("thw", 2, []),  # stop words are not there to be found
        ("", 2, []),
        ("the", 2, []),
        ("zzzzzzz", 7, []),
    ],
)
def test_fuzzy_finds_typos(query: str, edits: int, expected: list[int]) -> None:
    assert rows(INDEX.fuzzy(query, edits)) == expected


def test_fuzzy_takes_no_negative_distance() -> None:
    with pytest.raises(InvalidValue, match="negative"):
        INDEX.fuzzy("learning", -1)


def test_long_words_are_compared_exactly() -> None:
    index = TextIndex.build(pa.array(["x" * 5000, "y" * 64]))
    assert index.fuzzy("x" * 5000, 2).tolist() == [True, False]
    assert index.fuzzy("x" * 4999, 2).tolist() == [False, False]
    assert index.fuzzy("y" * 63, 100).tolist() == [False, True]


def test_bm25_by_hand() -> None:
    index = TextIndex.build(pa.array(["cat dog", "cat cat cats", None, "bird of prey", "dog dog dog dog"]))
    lengths, average = {0: 2, 1: 3}, (2 + 3 + 2 + 4) / 4
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))

    def score(row: int, frequency: int) -> float:
        return idf * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * lengths[row] / average))

    expected = [score(0, 1), score(1, 3), 0.0, 0.0, 0.0]
    assert index.bm25("cat") == pytest.approx(expected)
    assert index.bm25("The CATS cat") == pytest.approx(expected)
    assert index.bm25("cat").dtype == np.float64
    assert index.bm25("cat dog") == pytest.approx(index.bm25("cat") + index.bm25("dog"))
    assert (index.bm25("cat dog") == index.bm25("dog cat")).all()


@pytest.mark.parametrize("query", ["", "the", "nonsense", "?"])
def test_bm25_without_a_match_is_zero(query: str) -> None:
    assert INDEX.bm25(query).tolist() == [0.0] * len(TITLES)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([], pa.string()),
        pa.array([None, None], pa.string()),
        pa.array(["", "the"]),
        pa.array(["apple", None], pa.large_string()),
        pa.array(["zero", "apple", None])[1:],
        pa.array(["apple", None]).dictionary_encode(),
        pa.chunked_array([["apple"], [None]]),
    ],
)
def test_columns_of_all_shapes(column: pa.Array) -> None:
    index = TextIndex.build(column)
    expected = [value == "apple" for value in column.to_pylist()]
    assert index.search("apples zero").tolist() == expected
    assert index.phrase("apple").tolist() == expected
    assert index.fuzzy("aple", 2).tolist() == expected
    assert (index.bm25("apple") > 0).tolist() == expected
    assert index.row_count == len(column)


# --- against plain Python ---------------------------------------------------------------------------------------------

DOCUMENT_WORDS = ["red", "reds", "bed", "the", "of", "blue", "blues", "bleu", "glue", "gluing", "a"]
QUERY_WORDS = ["red", "bed", "the", "of", "blue", "glued", "bluee", "rd", "reds"]
TEXTS = st.lists(st.none() | st.lists(st.sampled_from(DOCUMENT_WORDS)).map(" ".join), max_size=8)
QUERIES = st.lists(st.sampled_from(QUERY_WORDS), max_size=4).map(" ".join)


def distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for number, letter in enumerate(left, start=1):
        fresh = [number]
        for place, other in enumerate(right):
            fresh.append(min(row[place + 1] + 1, fresh[-1] + 1, row[place] + (letter != other)))
        row = fresh
    return row[-1]


def is_near(query: str, word: str, edits: int) -> bool:
    return distance(query, word) <= min(edits, allowed_edits(len(query)))


def has_phrase(text: str, query: str) -> bool:
    wanted, places = tokens_with_positions(query), set(tokens_with_positions(text))
    return any(
        all((token, start + place) in places for token, place in wanted) for start in range(-len(query), len(text) + 1)
    )


def bm25(texts: list[str | None], query: str) -> list[float]:
    documents = [None if text is None else tokenize(text) for text in texts]
    known = [document for document in documents if document is not None]
    average = sum(map(len, known)) / max(len(known), 1)
    scores = [0.0] * len(texts)
    for token in set(tokenize(query)):
        found = sum(token in document for document in known)
        idf = math.log(1 + (len(known) - found + 0.5) / (found + 0.5))
        for row, document in enumerate(documents):
            if document and (frequency := document.count(token)):
                norm = 1.2 * (0.25 + 0.75 * len(document) / average)
                scores[row] += idf * frequency * 2.2 / (frequency + norm)
    return scores


@settings(max_examples=150, deadline=None)
@given(TEXTS, QUERIES, st.integers(0, 3))
def test_the_index_agrees_with_plain_python(texts: list[str | None], query: str, edits: int) -> None:
    index = TextIndex.build(pa.array(texts, pa.string()))
    wanted = tokenize(query)
    asked = [word for word in words(query) if word not in STOP_WORDS]
    plain = ["" if text is None else text for text in texts]
    assert index.search(query).tolist() == [any(t in tokenize(text) for t in wanted) for text in plain]
    assert index.phrase(query).tolist() == [bool(wanted) and has_phrase(text, query) for text in plain]
    assert index.bm25(query) == pytest.approx(bm25(texts, query))
    near = [
        any(
            is_near(q, w, edits) or is_near(stem(q), stem(w), edits)
            for q in asked
            for w in words(text)
            if w not in STOP_WORDS
        )
        for text in plain
    ]
    assert index.fuzzy(query, edits).tolist() == near


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("abcé", min_size=1, max_size=9), unique=True),
    st.text("abcé", min_size=1, max_size=9),
    st.integers(0, 5),
)
def test_distances_are_levenshtein_distances(entries: list[str], word: str, edits: int) -> None:
    found = Lexicon(entries).within(word, edits)
    assert sorted(found) == [n for n, entry in enumerate(entries) if is_near(word, entry, edits)]


def test_fuzzy_finds_all_that_search_finds() -> None:
    for query in ("learning", "liberty networks", "graph"):
        assert not (INDEX.search(query) & ~INDEX.fuzzy(query, 2)).any()


def test_a_large_column_is_indexed_and_searched_quickly() -> None:
    random = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    names = ["".join(random.choice(syllables, 3)) for _ in range(5_000)]
    texts = [" ".join(names[i] for i in picked) for picked in (5_000 * random.random((20_000, 10)) ** 3).astype(int)]
    began = time.perf_counter()
    index = TextIndex.build(pa.array(texts))
    built = time.perf_counter()
    assert index.search(names[0]).any()
    for query in (names[0], f"{names[0]} {names[1]}", names[-1]):
        index.search(query), index.phrase(query), index.bm25(query), index.fuzzy(query, 2)
    asked = time.perf_counter()
    assert built - began < 10, "generous: about 0.2 s on an idle machine"
    assert asked - built < 5, "generous: about 0.03 s on an idle machine"
    assert all(a.dtype == np.int32 for a in (index._rows, index._places, index._place_starts, index._word_starts))


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[3] / "docs" / "user" / "search.md").read_text()


def test_the_queries_on_the_page_compile() -> None:
    (schema,) = re.findall(r"^```pg\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    ids = count(1)
    catalog = compile_schema(schema, lambda: f"{next(ids):026}")
    queries = re.findall(r"^```gq\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(queries) >= 4
    for text in queries:
        assert compile_file(text, catalog)
        assert lint_queries(text, catalog).status == "ok"


def test_the_tables_on_the_page_are_true() -> None:
    """Rows of `| function | text | query | yes or no |`."""
    examples = re.findall(
        r"^\| `(search|match_text|fuzzy)` \| (.+?) \| `(.+?)` \| (yes|no) \|", PAGE, flags=re.MULTILINE
    )
    assert len(examples) >= 8
    for function, text, query, answer in examples:
        index = TextIndex.build(pa.array([text]))
        found = {"search": index.search(query), "match_text": index.phrase(query), "fuzzy": index.fuzzy(query, 2)}
        assert found[function].tolist() == [answer == "yes"], (function, text, query)
    scores = re.findall(r"^\| (\w.*?) \| ([\d.]+) \|$", PAGE, flags=re.MULTILINE)
    assert len(scores) >= 3
    index = TextIndex.build(pa.array([text for text, _ in scores]))
    computed = index.bm25("learning graphs")
    assert [f"{score:.2f}" for score in computed] == [score for _, score in scores]
    assert all(a >= b for a, b in pairwise(computed))
