"""A thread with a name, a beginning and an end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = structlog.get_logger(__name__)


class Worker:
    """Base of everything that runs beside the runner. A subclass says in ``run`` what it does until ``stopping``.

    The thread is a daemon: a client library that hangs in its own close() may cost a thread, never the shutdown.
    ``failure`` is the exception that ended ``run`` last, if one did; what follows is the supervisor's business
    (canary.runner.supervision).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.woken = threading.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Begin. Once only."""
        self._thread.start()

    def restart(self) -> None:
        """Begin again after ``run`` has ended, with all that the object holds.

        Raises:
            RuntimeError: the system gives no thread.
        """
        self._thread = threading.Thread(target=self._main, name=self.name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def ask_stop(self) -> None:
        """Say that it should end, without waiting; so that many can end at the same time."""
        self.stopping.set()
        self.woken.set()

    def stop(self, timeout: float = 5.0) -> bool:
        """Say that it should end and wait at most ``timeout`` seconds. Returns whether it has ended."""
        self.ask_stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self.alive:
            log.warning("worker_still_running", worker=self.name, waited_s=timeout)
        return not self.alive

    def wait(self, seconds: float) -> bool:
        """Sleep until somebody sets ``woken`` or ``seconds`` have passed. Returns whether to go on."""
        self.woken.wait(seconds)
        self.woken.clear()
        return not self.stopping.is_set()

    def run(self) -> None:
        """Do the work; return soon (within a second) after ``stopping`` is set."""
        raise NotImplementedError

    def end(self) -> None:
        """Settle what is open, in the same thread: called when ``run`` has ended, by an exception, too."""

    def _main(self) -> None:
        try:
            try:
                self.run()
            finally:
                self.end()
        except Exception as error:  # the edge of a thread: whatever it is must be told
            self.failure = error
            log.exception("worker_failed", worker=self.name)


class Stoppable(Protocol):
    """What can be told to end, and waited for, as a worker can."""

    def ask_stop(self) -> None:
        """Say that it should end, without waiting."""

    def stop(self, timeout: float = 5.0) -> bool:
        """Say so, and wait at most ``timeout`` seconds. Returns whether it has ended."""


def stop_together(parts: Sequence[Stoppable], seconds: float) -> None:
    """Tell all of them to end, then wait for all, ``seconds`` together and a moment for each that is still late."""
    for part in parts:
        part.ask_stop()
    deadline = time.monotonic() + seconds
    for part in parts:
        part.stop(max(deadline - time.monotonic(), 0.1))


def in_background(what: Callable[[], object], name: str) -> threading.Thread:
    """Run ``what`` in a daemon thread of its own, because it may hang and nothing depends on when it ends."""

    def run() -> None:
        try:
            what()
        except Exception:  # the edge of a thread: whatever it is must be told
            log.exception("background_failed", what=name)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
