from __future__ import annotations

from tests.support.fixtures import unflushed

__all__ = ["unflushed"]
