"""The thread that writes to the store: a view once a second, and each violation until the store has it."""

import dataclasses
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import structlog

from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Violation
from canary.metrics import Measurement
from canary.metrics.findings import Audit
from canary.metrics.published import Published, dumps
from canary.runner.context import ClusterContext
from canary.runner.publishing.troubles import Trouble, blindness, incarnation
from canary.threads.worker import Worker
from canary.watching.audit.certificates import expiries
from storage.store import StoreError
from storage.store.values import ViolationFilter

log = structlog.get_logger(__name__)

_INTERVAL_S = 1.0
_BATCH = 500
_CERTIFICATES_S = 60.0
_CHANGES_KEPT = 200_000
"""The most topology changes that wait for an unreachable store. Older ones are dropped; a start sends the present state
again."""


class Flusher(Worker):
    """Writes to the store. Violations and ends of conditions are kept until the store has them.

    ``latest`` returns what the judge published last.
    """

    def __init__(self, context: ClusterContext, latest: Callable[[], Published] | None = None) -> None:
        super().__init__("flusher")
        self._settings = context.cluster
        self._store = context.store
        self._cluster = context.cluster.name
        self._runner = context.runner
        self._clock = context.clock
        self._night_s = context.settings.schedule.longest_gap_s
        self.latest = latest
        self.audited: Callable[[], tuple[int, Audit] | None] = lambda: None
        """Returns when the last audit was done (ns), and its outcome."""
        self.troubles: Callable[[], Mapping[str, Trouble | None]] = dict
        """Returns, by part of the runner, what it cannot do now; None: it works."""
        self._waiting: dict[str, Violation] = {}
        self._ended: dict[str, Violation] = {}
        self._changes: deque[TopologyChange] = deque(maxlen=_CHANGES_KEPT)
        self._lock = threading.Lock()
        self._failing = False
        self._blind: Violation | None = None
        self._predecessor_ended = False
        """Whether the blindness that a former process left open is ended."""
        self._expiries: Mapping[str, float] = {}
        self._expiries_due = 0.0

    def violations(self, found: Iterable[Violation]) -> None:
        """Take violations to deliver."""
        with self._lock:
            for violation in found:
                key = violation.key(self._cluster)
                self._waiting[key] = violation
                self._ended.pop(key, None)

    def ended(self, over: Iterable[Violation]) -> None:
        """Take conditions that hold no more; their violations are delivered first."""
        with self._lock:
            for violation in over:
                self._ended[violation.key(self._cluster)] = violation

    def changed(self, changes: Iterable[TopologyChange]) -> None:
        """Take changes of the topology, oldest first."""
        with self._lock:
            self._changes.extend(changes)

    def unended(self) -> list[Violation]:
        """Return the conditions whose end the store does not know yet."""
        with self._lock:
            return list(self._ended.values())

    def undelivered(self) -> list[Violation]:
        """Return the violations that the store does not have yet."""
        with self._lock:
            return list(self._waiting.values())

    def run(self) -> None:
        """Flush until stopped, and once more at the end."""
        while not self.stopping.is_set():
            began = time.monotonic()
            self.flush()
            left = _INTERVAL_S - (time.monotonic() - began)
            self.stopping.wait(max(left, 0.05))
        self.flush()

    def flush(self) -> bool:
        """Write all that waits. Returns False if the store did not take it: it is kept then."""
        parts = self.troubles()
        self._judge_blindness({part: trouble for part, trouble in parts.items() if trouble is not None})
        try:
            self._write_violations()
            self._end_predecessor()
            self._write_ends()
            self._write_changes()
            self._write_view(parts)
        except StoreError as error:
            if not self._failing:
                log.warning("store_unreachable", error=str(error))
            self._failing = True
            return False
        if self._failing:
            log.info("store_back")
        self._failing = False
        return True

    def _judge_blindness(self, troubles: Mapping[str, Trouble]) -> None:
        """Begin or end the violation ``blind``. It is no fact: the ledger may be what fails."""
        before, self._blind = self._blind, None
        if any(trouble.blind for trouble in troubles.values()):
            since_ns = before.at_ns if before is not None else self._clock.now_ns()
            self._blind = blindness(self._runner, troubles, since_ns)
            if before is None or before.summary != self._blind.summary:
                log.error("blind", cluster=self._cluster, summary=self._blind.summary)
                self.violations([self._blind])
        elif before is not None:
            log.info("condition_ended", kind=before.kind, cluster=self._cluster)
            self.ended([before])

    def _end_predecessor(self) -> None:
        """End the blindness of this runner's former process, which can no longer do that itself."""
        if self._predecessor_ended:
            return
        own = self._blind.key(self._cluster) if self._blind is not None else None
        left = [
            row.id
            for state in ("open", "acknowledged")
            for row in self._store.violations.page(
                ViolationFilter(kind="blind", cluster=self._cluster, state=state)
            ).items
            if row.topic_id.startswith(incarnation(self._runner)) and row.id != own
        ]
        self._store.violations.end(left, self._clock.now_ns())
        self._predecessor_ended = True

    def _write_violations(self) -> None:
        while True:
            with self._lock:
                batch = dict(list(self._waiting.items())[:_BATCH])
            if not batch:
                return
            self._store.violations.record(self._cluster, list(batch.values()))
            self._forget(self._waiting, batch)

    def _write_ends(self) -> None:
        with self._lock:
            over = dict(self._ended)
        if not over:
            return
        self._store.violations.end(list(over), max(violation.at_ns for violation in over.values()))
        self._forget(self._ended, over)

    def _forget(self, waiting: dict[str, Violation], written: Mapping[str, Violation]) -> None:
        """Drop what the store has, unless something newer waits under its key."""
        with self._lock:
            for key, violation in written.items():
                if waiting.get(key) is violation:
                    del waiting[key]

    def _write_changes(self) -> None:
        while self._changes:
            with self._lock:
                batch = list(itertools.islice(self._changes, _BATCH))
            self._store.topology.record(self._cluster, batch)
            with self._lock:
                for _ in batch:
                    self._changes.popleft()

    def _write_view(self, parts: Mapping[str, Trouble | None]) -> None:
        if self.latest is None:
            return
        shown = self.latest()
        if not shown.now_ns:
            return
        audited = self.audited()
        done = None if audited is None else dataclasses.replace(audited[1], at_ns=audited[0])
        now_ns = self._clock.now_ns()
        # the clock never steps; the API's may have been set since
        set_ns = round((time.time_ns() - now_ns) / 1e9) * 10**9
        shown = dataclasses.replace(
            shown,
            audit=done,
            told_ns=now_ns + set_ns,
            troubles=tuple((one.words, one.blind) for one in parts.values() if one is not None),
            shard=(self._settings.share.index, self._settings.share.of),
            night_s=self._night_s,
            measurements=(
                *shown.measurements,
                *(done.measurements() if done is not None else ()),
                *(Measurement("canary_part_failing", (part,), int(one is not None)) for part, one in parts.items()),
                *self._certificates(),
            ),
        )
        self._store.views.save(self._cluster, self._runner, shown.judged_ns + set_ns, dumps(shown))

    def _certificates(self) -> list[Measurement]:
        now = time.monotonic()
        if now >= self._expiries_due:
            self._expiries_due = now + _CERTIFICATES_S
            self._expiries = expiries(self._settings.client_config())
        name = "canary_certificate_expiry_timestamp_seconds"
        return [Measurement(name, (certificate,), at_s) for certificate, at_s in self._expiries.items()]
