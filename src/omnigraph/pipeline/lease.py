"""Renew the lease of an announced write while Spark works for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from omnigraph.errors import OmnigraphError
from omnigraph.write.transaction import WriteTxn


@contextlib.contextmanager
def renewed_lease(current: Callable[[], WriteTxn]) -> Iterator[None]:
    """Renew the lease of the current transaction from a thread for as long as the block runs."""
    over = threading.Event()
    pause = current().store.settings.lease / 4

    def renew() -> None:
        while not over.wait(pause):
            with contextlib.suppress(OmnigraphError):
                current().renew()

    thread = threading.Thread(target=renew, name="omnigraph-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
