"""The thread that owns ledger and tracker: facts become durable, then they are folded (ARCHITECTURE decision 4)."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import structlog

from canary.anomalies.online import Findings, Tracker
from canary.facts import ClockSeen, Facts, RunnerStarted, Tick, count
from canary.facts.gathering import gathered
from canary.kafka.quiet import Gate
from canary.metrics import Measurement, Published, measured
from canary.runner.context import ClusterContext
from canary.runner.publishing import snapshot
from canary.runner.publishing.flusher import Flusher
from canary.threads import system
from canary.threads.ports import clock_ahead_ns
from canary.threads.worker import Worker
from storage.ledger import Ledger, LedgerError

log = structlog.get_logger(__name__)

_TICK_S = 1.0
_SHOW_S = 1.0
"""How often a view is made for the store."""
_SOON_S = 0.5
"""How often one is made at least while a part of the runner waits for it."""
_MOST = 20_000
"""The most facts of one frame: bounds the time between a fact and its judgement when many come at once."""
_DOUBT_S = 0.05
"""How long facts are gathered at most while something is in doubt: the next ones may settle it."""
_RETRY_S = 1.0
_SEAL_AGAIN_S = 5.0
_UNKNOWN_NS = 60 * 10**9
"""How old the heartbeat of a judge is that has judged nothing yet and remembers nothing."""


class Judge(Worker):
    """Takes facts from the context's inbox in their order; what it finds goes to ``findings`` and to the flusher.

    Args:
        ledger: open; the judge closes it.
        tracker: the state after the replay.
        findings: what the cluster's runner must act on.
        flusher: keeps violations until the store has them.

    ``blocked`` is why facts cannot be made durable, with the ledger's name; None while they can. It ends by itself.
    """

    def __init__(
        self,
        context: ClusterContext,
        ledger: Ledger,
        tracker: Tracker,
        *,
        findings: system.Queue[Findings],
        flusher: Flusher,
    ) -> None:
        super().__init__("judge")
        self._ledger = ledger
        self.directory = ledger.directory
        self._tracker = tracker
        self._inbox = context.inbox
        self._findings = findings
        self._flusher = flusher
        self._clock = context.clock
        self._clock_ahead_ns = 0
        """How far the machine's clock is ahead of the runner's, as the tracker knows it."""
        self._fsync_interval = context.settings.runner.fsync_interval
        """How long facts are gathered, in s."""
        self._in_doubt = False
        self.blocked: str | None = None
        self._drops: list[Path] = []
        self.sealed: tuple[Path, ...] = ()
        """The ledger's sealed segments, oldest first, as of what was published last."""
        self.on_sealed: Callable[[], None] = lambda: None
        """Called when there are others."""
        self._seal_at = 0.0
        self._gate = Gate()
        self._changed = system.condition()
        self._waiting = 0
        """How many threads wait for a view."""
        self._judged_ns = _remembered_ns(tracker, self._clock.now_ns())
        self.published = Published(judged_ns=self._judged_ns)
        """What was published last; ``now_ns`` is 0 before the judge has begun."""
        self._last_fact = self.turned_s = system.monotonic()
        """When it last published a view, by the monotonic clock: about once a second, also while nothing is durable."""

    @property
    def failing(self) -> str | None:
        """What fails in the ledger although facts become durable, for example that no other file can be opened."""
        return self._ledger.failing

    def wait_for(self, reached: Callable[[Published], bool], timeout: float) -> bool:
        """Wait until a published view satisfies ``reached``; returns whether one did within ``timeout`` seconds.

        Meanwhile views are made more often.
        """
        with self._changed:
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: reached(self.published) or self.stopping.is_set(), timeout)
            finally:
                self._waiting -= 1

    def drop(self, path: Path) -> None:
        """Let the ledger drop a segment that is in the probe log, at the next turn."""
        with self._changed:
            self._drops.append(path)

    def run(self) -> None:
        """Judge until stopped, then until the queue is empty or cannot be made durable."""
        self._show()
        shown_at = published_at = system.monotonic()
        while not self.stopping.is_set() or self._inbox.pending:
            pause_s = min(self._fsync_interval, _DOUBT_S) if self._in_doubt else self._fsync_interval
            facts = gathered(self._inbox.gather(pause_s, _MOST))
            now = system.monotonic()
            if facts:
                self._last_fact = now
            elif now - self._last_fact >= _TICK_S:
                facts = [Tick(self._clock.now_ns())]
                self._last_fact = now
            if facts and not self._judge(facts):
                break
            self._tidy_ledger()
            if now - shown_at >= _SHOW_S:
                self._show()
                shown_at = published_at = now
            elif self.stopping.is_set() or (self._waiting and now - published_at >= min(self._fsync_interval, _SOON_S)):
                self._publish()
                published_at = now
        self._seal()
        self._publish()
        self._ledger.close()

    def _judge(self, facts: Facts) -> bool:
        """Make ``facts`` durable, however long that takes, and fold them. Returns False when stopped before that."""
        facts = self._with_clock(facts)
        while True:
            try:
                self._ledger.append(facts)
                break
            except LedgerError as error:
                if self.blocked is None:
                    log.error("ledger_blocked", error=str(error), facts=count(facts))  # noqa: TRY400  # no trace
                self.blocked = str(error)
                self._inbox.halt(halted=True)
                self._show()  # meanwhile, with the number of facts that wait
                if self.stopping.wait(_RETRY_S):
                    return False
        self._inbox.settle()
        if self.blocked is not None:
            log.info("ledger_goes_on")
            self.blocked = None
            self._inbox.halt(halted=False)
        self._tracker.fold(facts)
        self._judged_ns = self._clock.now_ns()
        findings = self._tracker.drain()
        self._in_doubt = findings.urgent
        if findings.renewed:  # clients are renewed as the published view says
            self._publish()
        self._deliver(findings)
        return True

    def _with_clock(self, facts: Facts) -> Facts:
        """Put before the facts how far the machine's clock is ahead, if it was set since the tracker was told last.

        It is read after all of them were seen. So nothing that was seen after the clock was set is judged before that
        is known. A process that begins says it itself.
        """
        begun = [(i + 1, one.clock_ahead_ns or 0) for i, one in enumerate(facts) if isinstance(one, RunnerStarted)]
        first, self._clock_ahead_ns = begun[-1] if begun else (0, self._clock_ahead_ns)
        ahead_ns = clock_ahead_ns(self._clock, self._clock_ahead_ns)
        if ahead_ns == self._clock_ahead_ns:
            return facts
        self._clock_ahead_ns = ahead_ns
        return [*facts[:first], ClockSeen(self._clock.now_ns(), ahead_ns), *facts[first:]]

    def _deliver(self, findings: Findings) -> None:
        self._flusher.report(findings.violations, findings.ended)
        self._flusher.changed(findings.changes)
        asks = findings.rereads or findings.renewed or findings.agreed or findings.unknown_producers
        if asks or findings.stopped or findings.urgent:
            self._findings.put(findings)

    def _tidy_ledger(self) -> None:
        if self._ledger.due and system.monotonic() >= self._seal_at:
            self._seal()
        with self._changed:
            drops, self._drops = self._drops, []
        for path in drops:
            self._ledger.drop(path)

    def _seal(self) -> None:
        try:
            undelivered, unended = self._flusher.undelivered(), self._flusher.unended()  # before what is shown
            sealed = snapshot.seal(self._tracker, undelivered, unended, self._flusher.shown)
            self._ledger.seal(sealed)
        except LedgerError as error:
            self._seal_at = system.monotonic() + _SEAL_AGAIN_S
            log.error("segment_not_sealed", error=str(error))  # noqa: TRY400  # one line, no trace

    def _show(self) -> None:
        """Publish a view for the store."""
        self._publish()
        self._flusher.woken.set()

    def _publish(self) -> None:
        try:
            before, self.sealed = self.sealed, tuple(self._ledger.sealed())
            if self.sealed != before:
                self.on_sealed()
        except LedgerError as error:  # judging goes on without it, and the next try may succeed
            if self._gate.admit("sealed") is not None:
                log.warning("segments_not_listed", error=str(error))
        state = self._tracker.state
        state.now_ns = max(state.now_ns, self._clock.now_ns())
        now = measured(state)
        own = (
            Measurement("canary_ledger_pending_rows", (), self._inbox.pending),
            Measurement("canary_ledger_errors_total", (), self._ledger.errors),
        )
        now = dataclasses.replace(now, judged_ns=self._judged_ns, measurements=(*now.measurements, *own))
        self.turned_s = system.monotonic()
        with self._changed:
            self.published = now
            self._changed.notify_all()


def _remembered_ns(tracker: Tracker, now_ns: int) -> int:
    """Return when facts were last judged before this process began: a judge that hangs at its start is not fresh."""
    known_ns = tracker.state.now_ns
    return known_ns if 0 < known_ns <= now_ns else now_ns - _UNKNOWN_NS
