"""What the store is told: views at most once a second, and violations until it has them."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

import orjson
import structlog

from canary.client.worker import Worker
from canary.metrics import Measurement
from canary.runner import auditing
from canary.runner.troubles import blindness, incarnation
from canary.settings.sharing import Share
from canary.watching.certificates import expiries
from storage.store import StoreError
from storage.store.values import ViolationFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import Violation
    from canary.client.ports import Clock
    from canary.runner.judge import Published
    from canary.runner.troubles import Trouble
    from canary.watching.audited import Audit
    from storage.store import Store

log = structlog.get_logger(__name__)

_BATCH = 500
_CERTIFICATES_S = 60.0
_CHANGES_KEPT = 200_000
"""Changes of topology that wait for a store that is away at most; older ones are dropped, what is now is told again."""


class Flusher(Worker):
    """Writes to the store; nothing that it was given is dropped before the store has it.

    Args:
        store: the store.
        cluster: the cluster's name.
        runner: the runner's name.
        clock: what time it is.
        interval_s: seconds between two views.
        latest: returns what to show.
    """

    def __init__(
        self,
        store: Store,
        cluster: str,
        runner: str,
        clock: Clock,
        *,
        interval_s: float = 1.0,
        latest: Callable[[], Published] | None = None,
    ) -> None:
        super().__init__("flusher")
        self._store = store
        self._cluster = cluster
        self._runner = runner
        self._clock = clock
        self._interval_s = interval_s
        self.latest = latest
        self.audited: Callable[[], tuple[int, Audit] | None] = lambda: None
        """Returns the last audit and when it was done (ns)."""
        self.troubles: Callable[[], Mapping[str, Trouble | None]] = dict
        """Returns what each part of the runner cannot do now; None for what works."""
        self.share = Share()
        """Which of the cluster's partitions are the runner's."""
        self.night_s: float | None = None
        """The longest time between two reconciliations by the clock; None: there are none."""
        self.properties: Mapping[str, object] = {}
        """librdkafka's, which may name certificates."""
        self._waiting: dict[str, Violation] = {}
        self._ended: dict[str, Violation] = {}
        self._changes: deque[TopologyChange] = deque(maxlen=_CHANGES_KEPT)
        self._lock = threading.Lock()
        self._failing = False
        self._blind: Violation | None = None
        self._succeeded = False
        """Whether what a predecessor left open was ended."""
        self._expiries: Mapping[str, float] = {}
        self._expiries_due = 0.0

    def violations(self, found: Iterable[Violation]) -> None:
        """Take violations to deliver; wakes the thread."""
        with self._lock:
            for violation in found:
                key = violation.key(self._cluster)
                self._waiting[key] = violation
                self._ended.pop(key, None)
            waiting = bool(self._waiting)
        if waiting:
            self.woken.set()

    def ended(self, over: Iterable[Violation]) -> None:
        """Take conditions that hold no more; what was said of them before is delivered first."""
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
        """Return what the store does not have yet."""
        with self._lock:
            return list(self._waiting.values())

    def run(self) -> None:
        """Flush until stopped, and once more then."""
        while not self.stopping.is_set():
            began = time.monotonic()
            self.flush()
            left = self._interval_s - (time.monotonic() - began)
            self.stopping.wait(max(left, 0.05))
        self.flush()

    def flush(self) -> bool:
        """Deliver what there is; False when the store did not take it (it is kept)."""
        parts = self.troubles()
        self._say({part: trouble for part, trouble in parts.items() if trouble is not None})
        try:
            self._deliver()
            self._succeed()
            self._end()
            self._change()
            self._show(parts)
        except StoreError as error:
            if not self._failing:
                log.warning("store_unreachable", error=str(error))
            self._failing = True
            return False
        if self._failing:
            log.info("store_back")
        self._failing = False
        return True

    def _say(self, troubles: Mapping[str, Trouble]) -> None:
        """Say that losses may go unnoticed, or that this is over: no fact, for facts may be what cannot be kept."""
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

    def _succeed(self) -> None:
        """End what a predecessor said and could not take back."""
        if self._succeeded:
            return
        own = self._blind.key(self._cluster) if self._blind is not None else None
        left = [
            row.id
            for state in ("open", "acknowledged")
            for row in self._store.violations(ViolationFilter(kind="blind", cluster=self._cluster, state=state)).items
            if row.topic_id.startswith(incarnation(self._runner)) and row.id != own
        ]
        self._store.end(left, self._clock.now_ns())
        self._succeeded = True

    def _deliver(self) -> None:
        while True:
            with self._lock:
                batch = dict(list(self._waiting.items())[:_BATCH])
            if not batch:
                return
            self._store.record(self._cluster, list(batch.values()))
            with self._lock:
                for key, violation in batch.items():
                    if self._waiting.get(key) is violation:
                        del self._waiting[key]

    def _end(self) -> None:
        with self._lock:
            over = dict(self._ended)
        if not over:
            return
        self._store.end(list(over), max(violation.at_ns for violation in over.values()))
        with self._lock:
            for key, violation in over.items():
                if self._ended.get(key) is violation:
                    del self._ended[key]

    def _change(self) -> None:
        while self._changes:
            with self._lock:
                batch = list(itertools.islice(self._changes, _BATCH))
            self._store.record_topology(self._cluster, batch)
            with self._lock:
                for _ in batch:
                    self._changes.popleft()

    def _show(self, parts: Mapping[str, Trouble | None]) -> None:
        if self.latest is None:
            return
        shown = self.latest()
        if not shown.view:
            return
        document = dict(shown.view)
        measurements = list(shown.measurements)
        if (audited := self.audited()) is not None:
            document["audit"] = {"at_ns": audited[0], **auditing.as_json(audited[1])}
            measurements += auditing.measured(audited[1])
        now_ns = self._clock.now_ns()
        set_ns = round((time.time_ns() - now_ns) / 1e9) * 10**9  # ours goes on as it began; readers' were set since
        document["told_ns"] = now_ns + set_ns
        document["troubles"] = [[one.words, one.blind] for one in parts.values() if one is not None]
        measurements += [
            Measurement("canary_part_failing", (part,), int(one is not None)) for part, one in parts.items()
        ]
        document["shard"] = [self.share.index, self.share.of]
        document["night_s"] = self.night_s
        measurements += self._certificates()
        document["measurements"] = [
            [m.name, list(m.labels), m.value, list(m.counts)] if m.counts else [m.name, list(m.labels), m.value]
            for m in measurements
        ]
        self._store.save_view(self._cluster, self._runner, shown.judged_ns + set_ns, orjson.dumps(document))

    def _certificates(self) -> list[Measurement]:
        now = time.monotonic()
        if now >= self._expiries_due:
            self._expiries_due = now + _CERTIFICATES_S
            self._expiries = expiries(self.properties)
        name = "canary_certificate_expiry_timestamp_seconds"
        return [Measurement(name, (certificate,), at_s) for certificate, at_s in self._expiries.items()]
