"""Blocking calls (of the store, the probe log) with a time limit."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

import structlog

from storage.store.errors import UnwritableError

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)


class UnavailableError(Exception):
    """The store or the probe log did not answer in time, or failed."""

    def __init__(self, what: str, detail: str) -> None:
        """Say that ``what`` is not available, and why."""
        super().__init__(f"{what}: {detail}")
        self.what = what
        self.detail = detail


class Calls:
    """A few daemon threads for blocking calls: one that hangs delays neither other requests nor the end of the process.

    (`concurrent.futures` joins its threads at exit: a hanging database would keep the process alive.)
    """

    def __init__(
        self,
        what: str,
        errors: tuple[type[Exception], ...],
        *,
        refusals: tuple[type[Exception], ...] = (),
        threads: int = 8,
        timeout: float = 5.0,
    ) -> None:
        """Make calls of ``what``; ``errors`` except ``refusals`` mean that it is unavailable; ``timeout`` in s."""
        self._what = what
        self._errors = errors
        self._refusals = refusals
        self._timeout = timeout
        self._threads = threads
        self._started = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[Future[object], Callable[[], object]]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    async def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return ``function(...)``.

        Raises:
            UnavailableError: no answer within the timeout, or an error.
        """
        return await self.within(self._timeout, function, *args, **kwargs)

    async def within(self, seconds: float, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return ``function(...)``, as a call does, with a timeout of ``seconds``."""
        future: Future[T] = Future()
        self._submit(future, lambda: function(*args, **kwargs))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            log.warning("call_timed_out", what=self._what, seconds=seconds)
            raise UnavailableError(self._what, f"no answer within {seconds:g} s") from None
        except self._refusals:
            raise
        except self._errors as error:
            log.warning("call_failed", what=self._what, error=str(error))
            locked = f"it takes no write: {error.reason}" if isinstance(error, UnwritableError) else None
            detail = locked or f"{type(error).__name__}; the log of the API says more"
            raise UnavailableError(self._what, detail) from error

    def _submit(self, future: Future[T], call: Callable[[], T]) -> None:
        self._jobs.put((future, call))  # type: ignore[arg-type]  # a Future[T] with the Callable that gives its T
        if not self._idle.acquire(blocking=False):
            with self._lock:
                if self._started < self._threads:
                    self._started += 1
                    threading.Thread(target=self._work, name=f"{self._what}-call-{self._started}", daemon=True).start()

    def _work(self) -> None:
        while True:
            future, call = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  # raised where the call is awaited
                    future.set_exception(error)
            del future, call
            self._idle.release()
