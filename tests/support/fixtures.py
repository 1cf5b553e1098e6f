"""Fixtures that several packages of tests take over by importing them in their `conftest`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.storage import failpoints


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """A failpoint armed by one test is none of the next one's business."""
    yield
    failpoints.arm(None)
