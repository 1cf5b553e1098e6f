"""Equal texts are found among many rows as among few."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.hashes import rows_with_equal_hash, text_hashes
from omnigraph.write.validation import keys

TEXTS = ["", "a", "é", "ab", "ba", "0", "00", "x" * 5_000, "x" * 4_999 + "y", None]


@pytest.mark.parametrize("seed", range(8))
def test_hashes_find_what_a_dictionary_finds(seed: int) -> None:
    chance = random.Random(seed)
    made = [chance.choice([*TEXTS, f"k{chance.randrange(400)}"]) for _ in range(600)]
    texts = pa.array(["dropped", *made], pa.string()).slice(1)
    few = keys.duplicates(texts)
    assert keys.duplicates(texts, many=0) == few
    assert few, "the test needs equal texts"


def test_a_shared_hash_alone_is_no_duplicate() -> None:
    one, other = "aaaaaaaabbbbbbbb", "cl9eispdY+*u`*~f"
    texts = pa.array([one, other, "cd", one])
    assert rows_with_equal_hash(texts).tolist() == [0, 1, 3], "the two texts are chosen to have the same hash"
    assert keys.duplicates(texts, many=0) == [(3, 0)]


def test_rows_keep_their_hash_in_any_slice() -> None:
    texts = pa.array([f"text {i}" * (i % 7) for i in range(1_000)])
    whole = text_hashes(texts)
    assert np.array_equal(text_hashes(texts.slice(123, 400)), whole[123:523])
    assert len(np.unique(whole)) == len(set(texts.to_pylist()))
