"""Caches hold what they may: by count, by bytes, and together with others."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.storage.bounded_cache import BoundedCache, CacheBudget, memory_of


def test_what_was_used_longest_ago_goes_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert list(cache) == ["a", "c"]


def test_bytes_are_bounded_and_one_value_always_fits() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(most_bytes=10, size_of=len)
    for name, size in (("a", 4), ("b", 4), ("c", 4)):
        cache.put(name, b"x" * size)
    assert (list(cache), cache.held) == (["b", "c"], 8)
    cache.put("large", b"x" * 99)
    assert (list(cache), cache.held) == (["large"], 99)
    cache.put("large", b"x")
    assert cache.held == 1


def test_a_value_is_made_once() -> None:
    cache: BoundedCache[str, list[int]] = BoundedCache(4)
    made = [cache.get_or_make("a", lambda: [1]) for _ in range(3)]
    assert made[0] is made[1] is made[2]


def test_caches_of_a_budget_share_its_bytes() -> None:
    budget = CacheBudget(10)
    first: BoundedCache[str, bytes] = BoundedCache(budget=budget, size_of=len)
    other: BoundedCache[str, bytes] = BoundedCache(budget=budget, size_of=len)
    first.put("a", b"xxxx")
    other.put("b", b"xxxx")
    assert first.get("a") is not None
    first.put("c", b"xxxx")
    assert ("a" in first, "b" in other, "c" in first) == (True, False, True)
    other.put("too large", b"x" * 11)
    assert (len(first), len(other), budget.held) == (0, 0, 0)


def test_a_budget_holds_under_threads() -> None:
    budget = CacheBudget(1000)
    caches: list[BoundedCache[int, bytes]] = [BoundedCache(50, budget=budget, size_of=len) for _ in range(3)]

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2000):
            cache, key = chance.choice(caches), chance.randrange(80)
            size = chance.randrange(1, 90)
            found = cache.get_or_make(key, lambda n=size: b"x" * n)
            assert len(found) > 0
            if chance.random() < 0.2:
                cache.put(key, b"x" * size)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.held <= 1000
    for cache in caches:
        assert len(cache) <= 50
        assert cache.held == sum(len(cache.get(key) or b"") for key in cache)
    budget.clear()
    assert budget.held == 0


@dataclass
class _Arrays:
    starts: np.ndarray
    names: pa.Array
    label: str = "x"


def test_memory_of_counts_arrays_that_are_owned(tmp_path: Path) -> None:
    owned = np.zeros(1000, np.int64)
    (tmp_path / "file").write_bytes(bytes(8000))
    mapped = np.memmap(tmp_path / "file", np.uint8, mode="r")[80:].view(np.int64)
    names = pa.array(["abc"] * 100)
    assert memory_of(owned) == 8000
    assert memory_of(owned[:10]) == 80
    assert memory_of(mapped) < 100
    assert 8000 + names.nbytes <= memory_of(_Arrays(owned, names)) < 8000 + names.nbytes + 500
    assert memory_of({"a": owned, "b": (owned, mapped)}) > 16_000
    assert memory_of(7) < 100
