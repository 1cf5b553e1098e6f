"""Upkeep needs no flushes to be tested: nothing here loses power."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.storage import failpoints


@pytest.fixture(autouse=True, scope="package")
def _unflushed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_FSYNC", "off")
        yield


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm(None)
