"""A scheduler at work in this process."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_reconcile.nightly.scheduler import Scheduler


@contextmanager
def at_work(scheduler: Scheduler) -> Iterator[None]:
    """Let it run in a thread of its own; it has ended when this has."""
    stopping = threading.Event()
    thread = threading.Thread(target=scheduler.run, args=(stopping,))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(60)
        assert not thread.is_alive()
