from __future__ import annotations

from tests.support.fixtures import disarmed, unflushed

__all__ = ["disarmed", "unflushed"]
