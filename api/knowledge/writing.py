"""Whether the store takes writes: this process tries it itself, as a runner reaches it only through the store.

A runner that is dead and a store that takes no write look alike: nothing arrives any more. For example, another process
holds the lock of an SQLite file: reads are answered, and each runner's view grows old. So a row of its own is written
once a minute, and at once when nothing arrives. A write that hangs occupies one thread of its own and delays nobody.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Final, NamedTuple

from storage.store.errors import StoreError, UnwritableError
from storage.store.store import Store

EVERY_S: Final = 60.0
AGAIN_S: Final = 10.0
"""So long after the last trial the next one begins while the store is in doubt."""
PATIENCE_S: Final = 3.0
"""A write that takes longer counts as not taken: runners write each second."""
WAIT_S = 0.5
"""So long an answer waits for the outcome of the trial that it began."""


class Written(NamedTuple):
    """Whether the store took the last write; ``takes`` None: it is not known. ``why``: for what reason not."""

    takes: bool | None = None
    why: str = ""


UNKNOWN: Final = Written()


@dataclass(slots=True)
class Writing:
    """The trials of this process."""

    store: Store
    monotonic: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock)
    _began: float = float("-inf")
    _running: bool = False
    _last: Written = UNKNOWN

    async def look(self, *, suspected: bool) -> Written:
        """Begin a trial if one is due, and return what is known; ``suspected``: nothing of a runner arrives."""
        if self._begins(suspected=suspected):
            ended: Future[None] = Future()
            Thread(target=self._try, args=(ended,), name="store-trial", daemon=True).start()
            await asyncio.wait([asyncio.wrap_future(ended)], timeout=WAIT_S)  # it goes on, and is known later
        return self.known

    @property
    def known(self) -> Written:
        """What is known now: nothing while a trial runs that the store may take yet."""
        with self._lock:
            if not self._running or self._last.takes is False:
                return self._last
            late = self.monotonic() - self._began >= PATIENCE_S
            return Written(False, f"a write is not done within {PATIENCE_S:g} s") if late else UNKNOWN

    def _begins(self, *, suspected: bool) -> bool:
        with self._lock:
            now = self.monotonic()
            pause = AGAIN_S if suspected or self._last.takes is False else EVERY_S
            if self._running or now - self._began < pause:
                return False
            self._began, self._running = now, True
            return True

    def _try(self, ended: Future[None]) -> None:
        found = UNKNOWN
        try:
            self.store.leases.try_write()
            found = Written(True)
        except UnwritableError as error:
            found = Written(False, error.reason)
        except StoreError:
            found = Written(False, "it does not answer")
        finally:
            with self._lock:
                self._running, self._last = False, found
            ended.set_result(None)
