"""Conditions that former processes left open in the store, and that no memory of this process has.

What the tracker judges it adopts at the start, and ends by its evidence. What watchers of groups, transactions and
mirrors judge ends when they have looked for as long as it takes to report it anew: what holds still is reported in that
time. A runner's own blindness ends at once, because it has just looked for itself. Of all else the end is not known.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from canary.anomalies.policy import CONDITIONS, UNREMEMBERED
from canary.anomalies.violation import Violation
from canary.metrics.watched.watched import Watched
from canary.runner.context import ClusterContext
from canary.runner.publishing.troubles import incarnation
from canary.settings import ClusterSettings
from storage.store.values import StoredViolation

log = structlog.get_logger(__name__)

_ALONE_NS: Final = 10 * 60 * 10**9
"""A runner that has shown no view for so long judges no more."""
_ROUND_NS: Final = 60 * 10**9
"""Between two looks of a watcher at most so much counts as watched; a condition is reported so long after its time."""
_LONGEST_TRANSACTION_S: Final = 15 * 60.0
"""What brokers let a transaction be open (transaction.max.timeout.ms), unless they are set otherwise."""
_OFFSET_SKIPS_S: Final = 10 * 60.0
"""MirrorMaker 2 writes a checkpoint of each group once a minute, and each is judged."""


def is_alone(context: ClusterContext) -> bool:
    """Say whether no other runner judges this cluster: it would end what it has reported itself.

    A store that was away has heard of nobody since: a view counts that is not much older than this runner's own one.
    """
    views = [one for one in context.store.views.all() if one.cluster == context.cluster.name]
    now_ns = min([context.clock.now_ns(), *(one.at_ns for one in views if one.runner == context.runner)])
    heard = any(one.runner != context.runner and one.at_ns > now_ns - _ALONE_NS for one in views)
    return context.cluster.share.of == 1 and not heard


def left_open(context: ClusterContext) -> list[Violation]:
    """Return the conditions that the store has open, and that a tracker has to end: it adopts what it does not know."""
    kinds = CONDITIONS - UNREMEMBERED
    rows = context.store.violations.unended(context.cluster.name, kinds) if is_alone(context) else []
    found = (_condition(row) for row in rows if row.kind != "blind" or not row.topic_id)
    return [one for one in found if one.kind != "unclean-election" or one.offset is None]  # else it is proven


def _condition(row: StoredViolation) -> Violation:
    same: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("kind", "severity", "topic", "topic_id", "partition", "offset", "identity", "leader_epoch", "mode")
    }
    since = {"since_ns": row.first_seen_ns}
    return Violation(**same, at_ns=row.last_seen_ns, by="watch", summary=row.summary, evidence=since)


@dataclass(slots=True)
class _Looked:
    """For how long (ns) a watcher has looked, and when last."""

    last_ns: int
    for_ns: int = 0


class Unended:
    """What watchers, and this runner itself, left. Not thread-safe: the flusher has a lock."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._cluster = context.cluster.name
        self._own = incarnation(context.runner)
        self._kinds: dict[str, str] | None = None
        """The kinds of what was left, by the violations' ids; None: not asked for yet."""
        self._began_ns = context.clock.now_ns()
        self._looked: dict[str, _Looked] = {}

    def reported(self, key: str) -> None:
        """Note that this process has reported a condition: it will end it itself."""
        if self._kinds is not None:
            self._kinds.pop(key, None)

    def found(self) -> dict[str, str] | None:
        """Ask the store, once: return the kinds of what was left, by id; None: it was asked before."""
        if self._kinds is not None:
            return None
        share = self._context.cluster.share
        mine = share.index == 0 if share.of > 1 else is_alone(self._context)  # of those that share one watches groups
        rows = self._context.store.violations.unended(self._cluster, CONDITIONS & UNREMEMBERED | {"blind"})
        own = (row.topic_id.startswith(self._own) if row.kind == "blind" else mine for row in rows)
        return {row.id: row.kind for row, left in zip(rows, own, strict=True) if left}

    def keep(self, found: dict[str, str], waiting: Mapping[str, Violation], ended: Collection[str]) -> None:
        """Keep what was found, without what this process has reported (``waiting``) or ended since it began."""
        for key, one in waiting.items():  # what the ledger has kept: blindness is for no tracker to end
            if one.topic_id.startswith(self._own):
                found[key] = one.kind
            else:
                found.pop(key, None)
        self._kinds = {key: kind for key, kind in found.items() if key not in ended}

    def over(self, watched: Callable[[], Watched]) -> list[str]:
        """Return what can be ended, by what watchers have looked at by now."""
        if not self._kinds:
            return []
        over = {"blind", *self._long_looked(watched())}
        return sorted(key for key, kind in self._kinds.items() if kind in over)

    def end(self, ids: Collection[str]) -> None:
        """End some in the store, as of this process's beginning."""
        if ids:
            self._context.store.violations.end(sorted(ids), self._began_ns)
            log.info("conditions_ended", cluster=self._cluster, left_by="former processes", number=len(ids))

    def _long_looked(self, watched: Watched) -> Iterator[str]:
        """Yield the kinds whose watchers have looked for long enough, or are not wanted any more."""
        for kind, (is_wanted, set_s) in _set_times(self._context.cluster).items():
            at_ns = _known_ns(kind, watched)
            looked = self._looked.setdefault(kind, _Looked(at_ns))
            if at_ns > looked.last_ns > 0:
                looked.for_ns += min(at_ns - looked.last_ns, _ROUND_NS)
            looked.last_ns = at_ns or looked.last_ns
            if not is_wanted or looked.for_ns >= set_s * 1e9 + _ROUND_NS:
                yield kind


def _set_times(cluster: ClusterSettings) -> dict[str, tuple[bool, float]]:
    """Return by kind whether it is watched for, and after how long (s) one that holds is reported by a new process."""
    watch = cluster.watch
    return {
        "group-stuck": (bool(watch.groups), 3 * watch.group_stuck_after),  # the time of groups that commit seldom
        "hanging-transaction": (bool(watch.transactions), watch.hanging_after or _LONGEST_TRANSACTION_S),
        "mirror-offset-skips": (bool(cluster.replicated_from), _OFFSET_SKIPS_S),
    }


def _known_ns(kind: str, watched: Watched) -> int:
    """Return as of when all is known of what a kind is about (ns); 0: something of it is not known now."""
    one: Iterable[Any]
    if kind == "mirror-offset-skips":
        one = () if watched.mirrors is None else watched.mirrors.mirrors
        return min((each.at_ns for each in one if not each.unknown and not each.translation_unknown), default=0)
    seen = watched.groups if kind == "group-stuck" else watched.transactions
    return 0 if seen is None or seen.unknown is not None else seen.at_ns
