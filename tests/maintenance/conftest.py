from __future__ import annotations

from tests.support.fixtures import disarmed

__all__ = ["disarmed"]
