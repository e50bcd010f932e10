"""Conditions that former processes left open in the store, and that nothing in this process will end.

The end of one is known only when the cluster was watched for as long as it takes to report it anew: what holds still
is reported in that time, and what is not has ended, at the latest when this process began. Until then it stays open.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import structlog

from canary.anomalies.online.topology.liveness import LIMIT_NS
from canary.anomalies.policy import CONDITIONS, UNREMEMBERED
from canary.anomalies.violation import Violation
from canary.runner.context import ClusterContext
from canary.runner.publishing.troubles import incarnation
from canary.settings.watch import WatchSettings
from storage.store.values import StoredViolation

log = structlog.get_logger(__name__)

_ALONE_NS: Final = 10 * 60 * 10**9
"""A runner that has shown no view for so long judges no more."""
_ROUNDS_NS: Final = 60 * 10**9
"""A condition is reported so long after its set time at the latest: the rounds that find it come that often."""
_LONGEST_TRANSACTION_S: Final = 15 * 60.0
"""What brokers let a transaction be open (transaction.max.timeout.ms), unless they are set otherwise."""


def anew_ns(kind: str, watch: WatchSettings) -> int:
    """Return after how long (ns, watched) a process that remembers nothing has reported a condition that holds."""
    set_s = {
        "blind": 0.0,  # a runner's own: it has just looked for itself
        "group-stuck": 3 * watch.group_stuck_after,  # the time of groups that commit seldom
        "hanging-transaction": watch.hanging_after or _LONGEST_TRANSACTION_S,
        "offline-partition": max(watch.offline_after, watch.under_replicated_after),
        "stalled": LIMIT_NS / 1e9,
        "unwritable": LIMIT_NS / 1e9,
        "clock-skew": LIMIT_NS / 1e9,
    }
    return 0 if kind == "blind" else int(set_s.get(kind, watch.under_replicated_after) * 1e9) + _ROUNDS_NS


class Unended:
    """What was left. Not thread-safe: the flusher has a lock."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._cluster = context.cluster.name
        self._runner = context.runner
        self._remembered: set[str] | None = None
        """The conditions that held when the process before ended, as far as the ledger knows; None: not known."""
        self._kinds: dict[str, str] | None = None
        """The kinds of what was left, by the violations' ids; None: not asked for yet."""
        self._began_ns = context.clock.now_ns()
        self._first_ns: int | None = None

    def remember(self, conditions: Iterable[Violation]) -> None:
        """Take the conditions that the tracker knows of at the start: it will end these itself."""
        self._remembered = {violation.key(self._cluster) for violation in conditions}

    def reported(self, key: str) -> None:
        """Note that this process has reported a condition: it will end it itself."""
        if self._kinds is not None:
            self._kinds.pop(key, None)

    def found(self) -> dict[str, str] | None:
        """Ask the store, once: return the kinds of what was left, by id; None: it was asked before."""
        if self._kinds is not None:
            return None
        alone = self._remembered is not None and self._is_alone()
        rows = self._context.store.violations.unended(self._cluster, CONDITIONS)
        return {row.id: row.kind for row in rows if self._is_left(row, alone=alone)}

    def keep(self, found: dict[str, str], waiting: Mapping[str, Violation], ended: Collection[str]) -> None:
        """Keep what was found, without what this process has reported (``waiting``) or ended since it began."""
        for key, one in waiting.items():  # what the ledger has kept: blindness is for no tracker to end
            if one.topic_id.startswith(incarnation(self._runner)):
                found[key] = one.kind
            else:
                found.pop(key, None)
        self._kinds = {key: kind for key, kind in found.items() if key not in ended}

    def over(self, watched_ns: int | None) -> list[str]:
        """Return what can be ended; ``watched_ns``: how long the cluster was watched in all, None: not known yet."""
        if self._first_ns is None:
            self._first_ns = watched_ns
        for_ns, watch = (watched_ns or 0) - (self._first_ns or 0), self._context.cluster.watch
        return sorted(key for key, kind in (self._kinds or {}).items() if for_ns >= anew_ns(kind, watch))

    def end(self, ids: Collection[str]) -> None:
        """End some in the store, as of this process's beginning."""
        if ids:
            self._context.store.violations.end(sorted(ids), self._began_ns)
            log.info("conditions_ended", cluster=self._cluster, left_by="former processes", number=len(ids))

    def _is_alone(self) -> bool:
        """Say whether no other runner judges this cluster: it would end what it has reported itself."""
        since_ns = self._context.clock.now_ns() - _ALONE_NS
        others = [view for view in self._context.store.views.all() if view.cluster == self._cluster]
        heard = any(view.runner != self._runner and view.at_ns > since_ns for view in others)
        return self._context.cluster.share.of == 1 and not heard

    def _is_left(self, row: StoredViolation, *, alone: bool) -> bool:
        share = self._context.cluster.share
        if row.kind == "blind" and row.topic_id:
            return row.topic_id.startswith(incarnation(self._runner))
        if row.kind == "another-cluster" or (row.kind == "unclean-election" and row.offset is not None):
            return False  # every start looks for itself; and what is proven is no condition
        if row.kind in UNREMEMBERED and share.of > 1:  # of those that share a cluster one watches groups
            return share.index == 0
        return alone and row.id not in (self._remembered or ())
