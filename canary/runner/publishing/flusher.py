"""The thread that writes to the store: each second's view, and each violation at once, until the store has it."""

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import orjson
import structlog

from canary.anomalies.policy import is_due
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Violation
from canary.facts import MemoryLost
from canary.metrics import Measurement
from canary.metrics.findings import Audit
from canary.metrics.measuring import MEMBER
from canary.metrics.published import Published, dumps
from canary.metrics.watched.watched import Watched
from canary.runner.context import ClusterContext
from canary.runner.publishing.troubles import Trouble, blindness
from canary.runner.publishing.unended import Unended
from canary.threads import system
from canary.threads.ports import clock_ahead_ns
from canary.threads.worker import Worker
from canary.watching.audit.certificates import expiries
from storage.store import StoreError

log = structlog.get_logger(__name__)

_LOGGED = ("kind", "severity", "topic", "partition", "offset", "count")
_INTERVAL_S = 1.5
"""It flushes so often at least: the judge wakes it with a new view each second, unless it hangs."""
_PAUSE_S = 0.05
_BATCH = 500
_CERTIFICATES_S = 60.0
_FILED_KEPT = 5_000
"""So many violations, ends and changes are kept that the store has had, for a store that is put back while we run."""
_CHANGES_KEPT = 200_000
"""The most topology changes that wait for an unreachable store. Older ones are dropped; a start sends the present state
again."""


@dataclasses.dataclass(slots=True)
class _Filed:
    """What the store has had since the view before."""

    violations: dict[str, Violation] = dataclasses.field(default_factory=dict)
    ends: dict[str, Violation] = dataclasses.field(default_factory=dict)
    changes: list[TopologyChange] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.violations) + len(self.ends) + len(self.changes)

    def follow(self, later: "_Filed") -> None:
        """Take what was filed afterwards: a condition that holds anew has not ended."""
        for key, violation in later.violations.items():
            self.violations[key] = violation
            self.ends.pop(key, None)
        self.ends.update(later.ends)
        self.changes += later.changes


class Flusher(Worker):
    """Writes to the store. Violations and ends of conditions are kept until the store has them.

    A database that fails over may come back without its last transactions, which it had confirmed. So before anything
    else the view that is there is held against the one saved last; what was filed since the older one is filed again,
    and if that is more than is kept, ``forgotten`` is told. With each view the generations of this process are
    registered again, if the store lacks them: other runners look them up.

    ``latest`` returns what the judge published last. ``shown`` is the ordinal of the last view that the store has had,
    also from the processes before, 0 for none.
    """

    def __init__(self, context: ClusterContext, latest: Callable[[], Published] | None = None) -> None:
        super().__init__("flusher")
        self._settings = context.cluster
        self._store = context.store
        self._cluster = context.cluster.name
        self._runner = context.runner
        self._clock = context.clock
        self._meters = context.meters
        self._generations = context.generations
        self._night_s = context.settings.schedule.longest_gap_s
        self._night_asked = context.settings.schedule.asked_for(context.cluster)
        self.latest = latest
        self.shown = 0
        self.withheld = -1
        """A view of so many facts, or fewer, is not shown: it would hide what was forgotten from the next start."""
        self.audited: Callable[[], tuple[int, Audit] | None] = lambda: None
        """Returns when the last audit was done (ns), and its outcome."""
        self.watched: Callable[[], Watched] = Watched
        """Returns what is known of what is watched besides the probes."""
        self.troubles: Callable[[], Mapping[str, Trouble | None]] = dict
        """Returns, by part of the runner, what it cannot do now; None: it works."""
        self.forgotten: Callable[[MemoryLost], None] = lambda _: None
        """Is told what a store that was put back while this process runs no longer has, and nobody else does."""
        self._waiting: dict[str, Violation] = {}
        self._ended: dict[str, Violation] = {}
        self._filed = _Filed()
        """Filed since the last view: a store with that view may not have it."""
        self._earlier: deque[tuple[int, _Filed]] = deque()
        """What was filed before, with the ordinal of the view after it."""
        self._kept = 0
        """How much that is."""
        self._kept_from = 0
        """All that was filed after the view of this ordinal is kept."""
        self._saved_ns = 0
        """The time of the view that this process saved last; 0: none yet."""
        self._changes: deque[TopologyChange] = deque(maxlen=_CHANGES_KEPT)
        self._lock = system.lock()
        self._failing = False
        self._blind: Violation | None = None
        self._left = Unended(context)
        self._expiries: Mapping[str, float] = {}
        self._expiries_due = 0.0

    def violations(self, found: Iterable[Violation]) -> None:
        """Take violations to deliver."""
        with self._lock:
            for violation in found:
                key = violation.key(self._cluster)
                self._waiting[key] = violation
                self._ended.pop(key, None)
                self._filed.ends.pop(key, None)
                self._left.reported(key)
                self.woken.set()

    def ended(self, over: Iterable[Violation]) -> None:
        """Take conditions that hold no more; their violations are delivered first."""
        with self._lock:
            for violation in over:
                key = violation.key(self._cluster)
                self._ended[key] = violation
                self._left.reported(key)

    def _machines_ns(self, at_ns: int) -> int:
        """Return what the machine's clock says when the runner's says ``at_ns``, as it is set now."""
        return at_ns + clock_ahead_ns(self._clock)

    def report(self, found: Sequence[Violation], over: Sequence[Violation]) -> None:
        """Take what was found, and conditions that end, and log them."""
        self.violations(found)
        self.ended(over)
        for ended in over:
            log.info("condition_ended", kind=ended.kind, topic=ended.topic, partition=ended.partition)
        for violation in found:
            log.warning("violation", **{name: getattr(violation, name) for name in _LOGGED}, summary=violation.sentence)

    def replayed(self) -> list[Violation]:
        """Take all that waits as found by former processes, whose conditions no part of this one has in its memory.

        Returns what has not ended of it.
        """
        with self._lock:
            left = {key: one for key, one in self._waiting.items() if key not in self._ended}
            self._left.replayed(left)
        return list(left.values())

    def changed(self, changes: Iterable[TopologyChange]) -> None:
        """Take changes of the topology, oldest first."""
        with self._lock:
            self._changes.extend(changes)

    def unended(self) -> list[Violation]:
        """Return the conditions whose end a store that has the last view may not know."""
        with self._lock:
            return list({**self._filed.ends, **self._ended}.values())

    def undelivered(self) -> list[Violation]:
        """Return the violations that a store that has the last view may not have."""
        with self._lock:
            return list({**self._filed.violations, **self._waiting}.values())

    def run(self) -> None:
        """Flush until stopped, and once more at the end."""
        while not self.stopping.is_set():
            self.flush()
            self.stopping.wait(_PAUSE_S)
            self.wait(_INTERVAL_S)
        self.flush()

    def flush(self) -> bool:
        """Write all that waits. Returns False if the store did not take it: it is kept then."""
        parts = self.troubles()
        self._judge_blindness({part: trouble for part, trouble in parts.items() if trouble is not None})
        try:
            self._find_put_back()
            self._find_left()
            self._write_violations()
            self._end_left()
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
        before, now_ns = self._blind, self._clock.now_ns()
        if any(trouble.blind for trouble in troubles.values()):
            since_ns = before.evidence["since_ns"] if before is not None else now_ns
            said = blindness(self._runner, troubles, since_ns, now_ns)
            if before is None or before.summary != said.summary or is_due(before.at_ns, now_ns):
                self._blind = said
                self.violations([said.retimed(self._machines_ns)])
                log.error("blind", cluster=self._cluster, summary=said.summary)
        elif before is not None:
            self._blind = None
            self.ended([dataclasses.replace(before, at_ns=self._machines_ns(now_ns))])
            log.info("condition_ended", kind=before.kind, cluster=self._cluster)

    def _find_left(self) -> None:
        """Find, once, the conditions that former processes left open and that no part of this process will end."""
        found = self._left.found()
        if found is None:
            return
        with self._lock:
            self._left.keep(found, self._waiting, self._ended)

    def _end_left(self) -> None:
        with self._lock:
            over = self._left.over(self.watched, hears=self._blind is None)
        if over:
            self.ended(over)
            log.info("conditions_ended", cluster=self._cluster, left_by="former processes", number=len(over))

    def _write_violations(self) -> None:
        while True:
            with self._lock:
                batch = dict(list(self._waiting.items())[:_BATCH])
            if not batch:
                return
            self._store.violations.record(self._cluster, self._store.drills.filed(self._cluster, list(batch.values())))
            self._forget(self._waiting, batch, self._filed.violations)

    def _write_ends(self) -> None:
        with self._lock:
            over = dict(self._ended)
        if not over:
            return
        self._store.violations.end(list(over), max(violation.at_ns for violation in over.values()))
        self._forget(self._ended, over, self._filed.ends)

    def _forget(
        self, waiting: dict[str, Violation], written: Mapping[str, Violation], delivered: dict[str, Violation]
    ) -> None:
        """Drop what the store has, unless something newer waits under its key."""
        with self._lock:
            for key, violation in written.items():
                if waiting.get(key) is violation:
                    del waiting[key]
                    delivered[key] = violation

    def _write_changes(self) -> None:
        while self._changes:
            with self._lock:
                batch = list(itertools.islice(self._changes, _BATCH))
            self._store.topology.record(self._cluster, batch)
            with self._lock:
                for _ in batch:
                    self._filed.changes.append(self._changes.popleft())

    def _write_view(self, parts: Mapping[str, Trouble | None]) -> None:
        if self.latest is None:
            return
        shown = self.latest()
        if not shown.now_ns or shown.ordinal <= self.withheld:
            return
        audited = self.audited()
        done = None if audited is None else dataclasses.replace(audited[1], at_ns=audited[0])
        watched = self.watched()
        now_ns = self._clock.now_ns()
        members = {one.labels[0] for one in shown.measurements if one.name == MEMBER}
        ahead_ns = clock_ahead_ns(self._clock)
        shown = dataclasses.replace(
            shown,
            audit=done,
            groups=watched.groups,
            transactions=watched.transactions,
            replicas=watched.replicas,
            mirrors=watched.mirrors,
            told_ns=now_ns + ahead_ns,
            troubles=tuple((one.words, one.blind) for one in parts.values() if one is not None),
            shard=(self._settings.share.index, self._settings.share.of),
            night_s=self._night_s,
            night_asked=self._night_asked,
            objectives=self._settings.objectives.declared(),
            measurements=(
                *shown.measurements,
                *(() if done is None else done.measurements()),
                *watched.measurements(),
                *(Measurement("canary_part_failing", (part,), int(one is not None)) for part, one in parts.items()),
                *self._certificates(),
                *self._meters.measured(members, {str(number) for number in shown.brokers}),
            ),
        )
        at_ns = shown.judged_ns + ahead_ns
        if self._generations:
            self._store.identities.register(self._cluster, self._generations.copy())
        self._store.views.save(self._cluster, self._runner, at_ns, dumps(shown))
        with self._lock:
            if not self._saved_ns:
                self._kept_from = max(self._kept_from, self.shown)
            self._saved_ns, self.shown = at_ns, shown.ordinal
            if self._filed:
                self._earlier.append((shown.ordinal, self._filed))
                self._kept += len(self._filed)
                self._filed = _Filed()
            while self._kept > _FILED_KEPT:
                self._kept_from, oldest = self._earlier.popleft()
                self._kept -= len(oldest)

    def _find_put_back(self) -> None:
        """File again what a store lacks that has an older view than was saved last."""
        views, who = self._store.views, (self._cluster, self._runner)
        if not self._saved_ns or views.saved_ns(*who) == self._saved_ns:
            return
        there = views.get(*who)
        told = orjson.loads(there.view) if there is not None else {}
        had, self._saved_ns = told.get("ordinal", 0), there.at_ns if there is not None else 0
        if had >= self.shown:  # that it saved the view was not confirmed
            return
        log.error("store_put_back", cluster=self._cluster, facts=had, shown=self.shown)
        again = _Filed()
        with self._lock:
            lacking = [filed for ordinal, filed in self._earlier if ordinal > had]
            for filed in (*lacking, self._filed):
                again.follow(filed)
            for _ in lacking:
                self._earlier.pop()
            self._kept -= sum(map(len, lacking))
            again.follow(_Filed(self._waiting, self._ended, list(self._changes)))
            self._waiting, self._ended, self._filed = again.violations, again.ends, _Filed()
            self._changes = deque(again.changes, maxlen=_CHANGES_KEPT)
            shown, self.shown = self.shown, had
        if had < self._kept_from:
            reason = (
                f"the store tells of {had:,} facts, and had been shown {shown:,}: it was put back or wiped while the "
                f"canary ran, and what was reported up to fact {self._kept_from:,} is forgotten there"
            )
            self.forgotten(MemoryLost(self._clock.now_ns(), told.get("now_ns"), reason))

    def _certificates(self) -> list[Measurement]:
        now = system.monotonic()
        if now >= self._expiries_due:
            self._expiries_due = now + _CERTIFICATES_S
            self._expiries = expiries(self._settings.client_config())
        name = "canary_certificate_expiry_timestamp_seconds"
        return [Measurement(name, (certificate,), at_s) for certificate, at_s in self._expiries.items()]
