"""The thread that owns ledger and tracker: durable first, then folded, then told (ARCHITECTURE decision 4)."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from canary.anomalies.online import Findings, Tracker, view
from canary.client.quiet import Gate
from canary.client.worker import Worker
from canary.facts import Tick
from canary.metrics import Measurement, measurements
from canary.runner import envelope
from storage.ledger import LedgerError

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable
    from pathlib import Path

    from canary.anomalies.violation import Violation
    from canary.client.ports import Clock
    from canary.facts import Fact
    from canary.runner.flush import Flusher
    from canary.runner.inbox import FactQueue
    from storage.ledger import Ledger

log = structlog.get_logger(__name__)

_TICK_S = 1.0
_MOST = 20_000
"""Facts of one frame at most: bounds the time between a fact and its judgement when much comes at once."""
_RETRY_S = 1.0
_SEAL_AGAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Published:
    """What the judge shows to other threads: plain values that nobody changes any more.

    ``judged_ns`` is the judge's progress: when the last facts were made durable and folded.
    """

    at_ns: int
    judged_ns: int
    view: dict[str, Any] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    sealed: tuple[Path, ...] = ()
    facts: int = 0


class Judge(Worker):
    """Takes facts from ``inbox`` in their order; everything found goes to ``findings`` and the flusher.

    Args:
        ledger: open, and its own from now on.
        tracker: the state after the replay.
        inbox: the one queue.
        findings: what the cluster's runner must act on.
        flusher: keeps violations until the store has them.
        clock: what time it is.
        fsync_interval: how long facts are gathered, in s.

    ``blocked`` says why facts cannot be made durable, and names the ledger; None while they can. It goes on by itself.
    """

    def __init__(
        self,
        ledger: Ledger,
        tracker: Tracker,
        *,
        inbox: FactQueue,
        findings: queue.SimpleQueue[Findings],
        flusher: Flusher,
        clock: Clock,
        fsync_interval: float,
    ) -> None:
        super().__init__("judge")
        self._ledger = ledger
        self._tracker = tracker
        self._inbox = inbox
        self._findings = findings
        self._flusher = flusher
        self._clock = clock
        self._fsync_interval = fsync_interval
        self.blocked: str | None = None
        self._drops: list[Path] = []
        self._sealed: tuple[Path, ...] = ()
        self._seal_at = 0.0
        self._gate = Gate()
        self._changed = threading.Condition()
        self._judged_ns = clock.now_ns()
        self._published = Published(self._judged_ns, self._judged_ns)
        self._last_fact = time.monotonic()

    @property
    def directory(self) -> Path:
        """Where the ledger is."""
        return self._ledger.directory

    @property
    def failing(self) -> str | None:
        """What of the ledger fails while facts are made durable all the same: no other file can be opened, say."""
        return self._ledger.failing

    @property
    def published(self) -> Published:
        """The last view."""
        return self._published

    def wait_for(self, reached: Callable[[Published], bool], timeout: float) -> bool:
        """Wait until a published view satisfies ``reached``; returns whether one did within ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self._published) or self.stopping.is_set(), timeout)

    def drop(self, path: Path) -> None:
        """Let the ledger drop a segment that is in the probe log, soon."""
        with self._changed:
            self._drops.append(path)

    def run(self) -> None:
        """Judge until stopped, then until the queue is empty or cannot be made durable."""
        self._publish()
        published_at = time.monotonic()
        while not self.stopping.is_set() or self._inbox.pending:
            facts = self._inbox.gather(self._fsync_interval, _MOST)
            now = time.monotonic()
            if facts:
                self._last_fact = now
            elif now - self._last_fact >= _TICK_S:
                facts = [Tick(self._clock.now_ns())]
                self._last_fact = now
            if facts and not self._judge(facts):
                break
            self._tidy()
            if now - published_at >= min(self._fsync_interval, 0.5) or self.stopping.is_set():
                self._publish()
                published_at = now
        self._seal()
        self._publish()
        self._ledger.close()

    def _judge(self, facts: list[Fact]) -> bool:
        """Make ``facts`` durable, however long that takes, and fold them. Returns False when stopped before that."""
        while True:
            try:
                self._ledger.append(facts)
                break
            except LedgerError as error:
                if self.blocked is None:
                    log.error("ledger_blocked", error=str(error), facts=len(facts))  # noqa: TRY400  # no trace
                self.blocked = str(error)
                self._inbox.halt(halted=True)
                self._publish()  # what else is known is shown meanwhile, and how much waits
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
        if findings.renewed:  # whoever renews its clients looks at what is published to see what for
            self._publish()
        self._tell(findings)
        return True

    def _tell(self, findings: Findings) -> None:
        self._flusher.violations(findings.violations)
        self._flusher.ended(findings.ended)
        self._flusher.changed(findings.changes)
        for ended in findings.ended:
            log.info("condition_ended", kind=ended.kind, topic=ended.topic, partition=ended.partition)
        for violation in findings.violations:
            log.warning(
                "violation",
                kind=violation.kind,
                severity=violation.severity,
                topic=violation.topic,
                partition=violation.partition,
                offset=violation.offset,
                count=violation.count,
                summary=violation.sentence,
            )
        if findings.rereads or findings.renewed or findings.unknown_producers or findings.stopped:
            self._findings.put(findings)

    def _tidy(self) -> None:
        if self._ledger.due and time.monotonic() >= self._seal_at:
            self._seal()
        with self._changed:
            drops, self._drops = self._drops, []
        for path in drops:
            self._ledger.drop(path)

    def _seal(self) -> None:
        try:
            sealed = envelope.seal(self._tracker, self._flusher.undelivered(), self._flusher.unended())
            self._ledger.seal(sealed)
        except LedgerError as error:
            self._seal_at = time.monotonic() + _SEAL_AGAIN_S
            log.error("segment_not_sealed", error=str(error))  # noqa: TRY400  # one line, no trace

    def _publish(self) -> None:
        try:
            self._sealed = tuple(self._ledger.sealed())
        except LedgerError as error:  # a next look may succeed; what is judged does not hang on it
            if self._gate.admit("sealed") is not None:
                log.warning("segments_not_listed", error=str(error))
        state = self._tracker.state
        state.now_ns = max(state.now_ns, self._clock.now_ns())
        extra = (
            Measurement("canary_ledger_pending_rows", (), self._inbox.pending),
            Measurement("canary_ledger_errors_total", (), self._ledger.errors),
        )
        published = Published(
            self._clock.now_ns(),
            self._judged_ns,
            view(state),
            (*measurements(state), *extra),
            self._sealed,
            state.ordinal,
        )
        with self._changed:
            self._published = published
            self._changed.notify_all()


def undelivered_of(violations: list[Violation]) -> list[Violation]:
    """Return violations to hand to a new flusher, oldest first."""
    return sorted(violations, key=lambda violation: violation.at_ns)
