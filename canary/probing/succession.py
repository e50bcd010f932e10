"""How a producer goes on after its client died: under a new generation, after a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from canary.client.pauses import Pause

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from canary.probing.idempotent import Renewal

log = structlog.get_logger(__name__)


class Succession:
    """Asks the owner of a producer for its next generation. Used by the producer's own thread.

    What killed a client may kill the next one at once (a revoked right, say), and every generation counts: so each
    client in a row waits longer (Pause).

    Args:
        producer: its name, for logs.
        renew: returns under what to go on; when it raises it is asked again, up to ten seconds later.
        stopping: ends every wait.
    """

    def __init__(self, producer: str, renew: Callable[[str], Renewal], stopping: threading.Event) -> None:
        self.pause = Pause()
        self._producer = producer
        self._renew = renew
        self._stopping = stopping

    @property
    def due(self) -> bool:
        """Whether the next generation may begin without a pause."""
        return not self.pause.left_s

    def after_death(self, reason: str) -> Renewal | None:
        """Return the next generation, after a pause where one is due; None when told to stop before."""
        if self._stopping.wait(self.pause.left_s):
            return None
        self.pause.start()
        return self.at_once(reason)

    def at_once(self, reason: str) -> Renewal | None:
        """Return the next generation as soon as the owner has one; None when told to stop before."""
        attempts = 0
        while not self._stopping.is_set():
            try:
                return self._renew(reason)
            except Exception:  # the owner's store may be away: nothing to do but ask again
                attempts += 1
                log.warning("renewal_refused", worker=self._producer, attempts=attempts, exc_info=True)
                self._stopping.wait(min(attempts, 10))
        return None
