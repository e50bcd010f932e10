"""A drill of a live cluster: its drill topic is harmed, and the way from Kafka to the pager is proven."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Final

from canary.anomalies.policy import DRILL
from canary.drills.catalogue import Entry
from canary.drills.rig.rig import Ground, NotInTimeError
from canary.drills.stage import KNOWABLE, PROBES
from canary.drills.steps.step import LiveStep
from canary.errors import UserError
from canary.lab import LabError
from canary.settings.clusters import ClusterSettings
from storage.store import Store
from storage.store.values import DrillRun, StoredViolation, ViolationFilter

_LONGEST_NS: Final = 15 * 60 * 10**9
"""A drill whose process died is over after so long."""
_FRESH_NS: Final = 15 * 10**9
_FOUND_S: Final = 30.0
_NOT_POSSIBLE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A live cluster, and how a drill of it is performed.

    Attributes:
        cluster: its settings, with an address.
        store: the one that its runner writes to.
        actor: who asked for it, for the record of actions.
        page_s: how long to wait for the pager's webhook, in s; None: do not wait, and prove no page.
        stopping: ends every wait.
        tell: is given each line of the timeline as it happens.
    """

    cluster: ClusterSettings
    store: Store
    actor: str
    page_s: float | None
    stopping: Event
    tell: Callable[[str], None]

    def perform(self, entry: Entry) -> DrillRun:
        """Perform a drill, and return what came of it; an ``error`` in it says what failed.

        Raises:
            UserError: it cannot be performed there.
            StoppedError: it is to end.
        """
        topic = self._ready(entry)
        now = time.time_ns()
        run = self.store.drills.begin(self.cluster.name, entry.name, topic, now, now + _LONGEST_NS, self.actor)
        self.store.actions.record(self.actor, "drill", f"cluster {self.cluster.name}", now, {"drill": entry.name})
        ground = Ground(
            kafka=self.cluster.client_config(),
            group=f"{self.cluster.identifier_prefix}-drill",
            topics={PROBES: topic},
            stopping=self.stopping,
            tell=self.tell,
        )
        error: str | None = "it was stopped"
        try:
            self._steps(entry, ground, run)
            self._until_found(entry, ground, run)
            self._until_paged(ground, run)
            error = None
        except LabError as failure:
            error = str(failure)
        finally:
            ended = time.time_ns()
            self.store.violations.end([one.id for one in self._found(run)], ended)
            self.store.drills.note(run.id, ended_ns=ended, error=error)
        return self.store.drills.get(run.id) or run

    def _ready(self, entry: Entry) -> str:
        """Return the topic that is harmed."""
        name, topic = self.cluster.name, self.cluster.drill_topic
        if not entry.drill.live:
            raise UserError(f"{entry.name} harms brokers: it needs a throwaway cluster: leave --cluster out, or own it")
        if topic is None:
            raise UserError(f"cluster {name} has no drill topic; switch the mode on: modes: {{drill: {{}}}}")
        now = time.time_ns()
        if not any(view.cluster == name and now - view.at_ns < _FRESH_NS for view in self.store.views.all()):
            self.store.leases.try_write()  # if the store takes no write, that is what is wrong, and it says so
            raise UserError(f"no runner judges cluster {name}; start one: canary run", _NOT_POSSIBLE)
        self.store.end_abandoned_drills(name, now)
        last = self.store.drills.last(name)
        if last is not None and last.ended_ns is None:
            raise UserError(f"the drill {last.name} of cluster {name} still runs; wait for its end", _NOT_POSSIBLE)
        return topic

    def _steps(self, entry: Entry, ground: Ground, run: DrillRun) -> None:
        for step in entry.drill.steps:
            if isinstance(step, LiveStep):
                ground.note(str(step))
                step.take(ground)
        harmed: dict[str, list[int]] = {}
        for places in ground.places.values():
            for place in places:
                harmed.setdefault(str(place.partition), []).append(place.offset)
        self.store.drills.note(run.id, knowable_ns=int(ground.marks[KNOWABLE] * 1e9), harmed=harmed)

    def _until_found(self, entry: Entry, ground: Ground, run: DrillRun) -> None:
        wanted = {
            (said.kind, place[1:])
            for said in entry.drill.says
            for name in said.names
            for place in ground.places.get(name, ())
        }

        def seen() -> dict[tuple[object, tuple[object, object]], int]:
            return {
                (one.evidence.get("found"), (one.partition, one.offset)): one.first_seen_ns for one in self._found(run)
            }

        ground.until(lambda: wanted <= seen().keys(), _FOUND_S, f"the canary finds {entry.name}")
        at_ns = max(at for found, at in seen().items() if found in wanted)
        self.store.drills.note(run.id, detected_ns=at_ns)
        ground.note(f"the canary has found it, {at_ns / 1e9 - ground.marks[KNOWABLE]:.1f} s after it could be known")

    def _until_paged(self, ground: Ground, run: DrillRun) -> None:
        if self.page_s is None:
            return

        def paged() -> bool:
            known = self.store.drills.get(run.id)
            return known is not None and known.paged_ns is not None

        ground.patience = 1.0
        ground.note(f"waiting for Alertmanager's webhook, at most {self.page_s:g} s")
        try:
            ground.until(paged, self.page_s, "Alertmanager's webhook comes back")
        except NotInTimeError as error:
            raise NotInTimeError(
                f"{error}; see whether Prometheus scrapes this canary and has its rules, and whether Alertmanager's "
                "receiver for pages has the webhook /api/v1/drills/paged (deploy/alertmanager.yml)"
            ) from error
        ground.note("the page has left: Alertmanager's webhook came back")

    def _found(self, run: DrillRun) -> Iterator[StoredViolation]:
        """Yield what was filed as this drill's, with evidence."""
        listed = self.store.violations.page(
            ViolationFilter(kind=DRILL, cluster=run.cluster, topic=run.topic, since_ns=run.began_ns), None, 1000
        )
        for one in listed.items:
            whole = self.store.violations.get(one.id)
            if whole is not None and whole.evidence.get("drill") == run.id:
                yield whole
