"""Fixtures that several packages of tests take over by importing them in their `conftest`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.storage import failpoints


@pytest.fixture(autouse=True, scope="package")
def unflushed() -> Iterator[None]:
    """No flushes: a killed process loses nothing that it wrote, and nothing here loses power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_FSYNC", "off")
        yield


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """A failpoint armed by one test is none of the next one's business."""
    yield
    failpoints.arm(None)
