"""Threads with a name, a beginning and an end."""

from collections.abc import Callable, Sequence

import structlog

from canary.threads import system

log = structlog.get_logger(__name__)


class Worker:
    """Base of everything that runs beside the runner. A subclass does its work in ``run``, until ``stopping``.

    The threads, of which most workers have one, are daemons: a client library that hangs in its own close() may cost a
    thread, never the shutdown. ``failure`` is the exception that ended ``run`` last, if one did;
    canary.runner.supervision.supervisor restarts it. ``turns`` is how often it has waited for its next round.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self.turns = 0
        self.stopping = system.event()
        self.woken = system.event()
        self._threads = [self._new_thread() for _ in range(threads)]

    def _new_thread(self) -> system.Thread:
        return system.thread(self._main, self.name)

    def start(self) -> None:
        """Begin. Once only."""
        for thread in self._threads:
            thread.start()

    def restart(self) -> None:
        """Begin again in the place of threads that have ended, with all that the object holds; the others go on.

        Raises:
            RuntimeError: the system gives no thread.
        """
        for number, thread in enumerate(self._threads):
            if not thread.is_alive():
                self._threads[number] = self._new_thread()
                self._threads[number].start()

    @property
    def alive(self) -> bool:
        """Whether every thread runs."""
        return all(thread.is_alive() for thread in self._threads)

    def ask_stop(self) -> None:
        """Ask it to end, without waiting; so that many can end at the same time."""
        self.stopping.set()
        self.woken.set()

    def stop(self, timeout: float = 5.0) -> bool:
        """Ask it to end and wait at most ``timeout`` seconds. Returns whether it has ended."""
        self.ask_stop()
        deadline = system.monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(deadline - system.monotonic(), 0.0))
        running = any(thread.is_alive() for thread in self._threads)
        if running:
            log.warning("worker_still_running", worker=self.name, waited_s=timeout)
        return not running

    def wait(self, seconds: float) -> bool:
        """Sleep until ``woken`` is set or ``seconds`` have passed. Returns whether to go on."""
        self.turns += 1
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
        except Exception as error:  # the edge of a thread: every failure must be logged
            self.failure = error
            log.exception("worker_failed", worker=self.name)


def stop_together(parts: Sequence[Worker], seconds: float) -> None:
    """Ask all to end, then wait for all of them ``seconds`` together, and a moment for each that is still late."""
    for part in parts:
        part.ask_stop()
    deadline = system.monotonic() + seconds
    for part in parts:
        part.stop(max(deadline - system.monotonic(), 0.1))


def in_background(what: Callable[[], object], name: str) -> system.Thread:
    """Run ``what`` in a daemon thread of its own, because it may hang and nothing depends on when it ends."""

    def run() -> None:
        try:
            what()
        except Exception:  # the edge of a thread: every failure must be logged
            log.exception("background_failed", what=name)

    thread = system.thread(run, name)
    thread.start()
    return thread
