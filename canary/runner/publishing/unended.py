"""Conditions that former processes left open in the store, and that no memory of this process has.

What the tracker judges it adopts at the start, and ends by its evidence. What watchers of groups, transactions and
mirrors judge ends when they have looked for as long as it takes to report it anew: what holds still is reported in that
time. So does what the replay of the ledger finds again, which a store that was away has not got yet. A runner's own
blindness ends at once, because it has just looked for itself. Of all else the end is not known.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from canary.anomalies.policy import CONDITIONS, UNREMEMBERED
from canary.anomalies.violation import Violation
from canary.metrics.watched.watched import Watched
from canary.runner.context import ClusterContext
from canary.runner.publishing.troubles import incarnation
from canary.settings import ClusterSettings
from storage.store.values import StoredViolation

_ALONE_NS: Final = 10 * 60 * 10**9
"""A runner that has shown no view for so long judges no more."""
_ROUND_NS: Final = 60 * 10**9
"""Between two looks of a watcher at most so much counts as watched; a condition is reported so long after its time."""
_LONGEST_TRANSACTION_S: Final = 4 * 3600.0
"""Unless it is set, brokers say how long a transaction may be open (transaction.max.timeout.ms, 15 minutes by default):
seldom for longer than that."""
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
    """Return the conditions that the store has open, and that a tracker has to end: it adopts what it does not know.

    Not a suspected unclean election, whose suspicion is forgotten: nobody can say that it is over.
    """
    kinds = CONDITIONS - UNREMEMBERED - {"unclean-election"}
    rows = context.store.violations.unended(context.cluster.name, kinds) if is_alone(context) else []
    return [_condition(row) for row in rows if row.kind != "blind" or not row.topic_id]


def _condition(row: StoredViolation) -> Violation:
    same: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("kind", "severity", "topic", "topic_id", "partition", "offset", "identity", "leader_epoch", "mode")
    }
    evidence = {"since_ns": row.last_seen_ns, **row.evidence}
    return Violation(**same, at_ns=row.last_seen_ns, by="watch", summary=row.summary, evidence=evidence)


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
        self._rows: dict[str, Violation] | None = None
        """What was left, by id; None: the store was not asked for it yet."""
        self._replayed: dict[str, Violation] = {}
        """What the ledger has found again of it, by id: the store may not have it yet."""
        self._began_ns = context.clock.now_ns()
        self._looked: dict[str, _Looked] = {}

    def reported(self, key: str) -> None:
        """Note that this process has reported a condition: it will end it itself."""
        self._replayed.pop(key, None)
        if self._rows is not None:
            self._rows.pop(key, None)

    def replayed(self, found: Mapping[str, Violation]) -> None:
        """Take the violations, by id, that the ledger has found again and that have not ended."""
        self._replayed = {
            key: one
            for key, one in found.items()
            if one.kind in CONDITIONS & UNREMEMBERED or (one.kind == "blind" and one.topic_id.startswith(self._own))
        }

    def found(self) -> list[StoredViolation] | None:
        """Ask the store, once: return what was left; None: it was asked before."""
        if self._rows is not None:
            return None
        share = self._context.cluster.share
        mine = share.index == 0 if share.of > 1 else is_alone(self._context)  # of those that share one watches groups
        rows = self._context.store.violations.unended(self._cluster, CONDITIONS & UNREMEMBERED | {"blind"})
        return [row for row in rows if (row.topic_id.startswith(self._own) if row.kind == "blind" else mine)]

    def keep(self, found: Iterable[StoredViolation], waiting: Collection[str], ended: Collection[str]) -> None:
        """Keep what was found, without what this process has reported (the rest of ``waiting``) or ended."""
        left = {row.id: _condition(row) for row in found if row.id not in waiting} | self._replayed
        self._rows = {key: one for key, one in left.items() if key not in ended}

    def over(self, watched: Callable[[], Watched], *, hears: bool = True) -> list[Violation]:
        """Return what can be ended, as of this process's beginning, by what watchers have looked at by now.

        Unless this process ``hears`` them, what they report may still wait for the ledger: their looks do not count.
        """
        if not self._rows:
            return []
        seen = watched()
        long = {"blind", *self._long_looked(seen, hears=hears)}
        over = (row for row in self._rows.values() if row.kind in long and not _may_hold(row, seen))
        return [replace(one, at_ns=self._began_ns) for one in over]

    def _long_looked(self, watched: Watched, *, hears: bool) -> Iterator[str]:
        """Yield the kinds whose watchers have looked for long enough, or are not wanted any more."""
        for kind, (is_wanted, set_s) in _set_times(self._context.cluster).items():
            at_ns = _known_ns(kind, watched)
            looked = self._looked.setdefault(kind, _Looked(at_ns))
            if hears and at_ns > looked.last_ns > 0:
                looked.for_ns += min(at_ns - looked.last_ns, _ROUND_NS)
            looked.last_ns = at_ns or looked.last_ns
            if not is_wanted or (hears and looked.for_ns >= set_s * 1e9 + _ROUND_NS):
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
    if kind == "mirror-offset-skips":
        mirrors = () if watched.mirrors is None else watched.mirrors.mirrors
        known = not any(one.unknown or one.translation_unknown for one in mirrors)
        return min((one.at_ns for one in mirrors), default=0) if known else 0
    seen = watched.groups if kind == "group-stuck" else watched.transactions
    return 0 if seen is None or seen.unknown is not None else seen.at_ns


def _may_hold(row: Violation, watched: Watched) -> bool:
    """Say whether a group may still be stuck: it is not known now, or has something that it does not read."""
    groups = () if watched.groups is None else watched.groups.groups
    own = (one for one in groups if row.topic_id == f"group {one.group}")
    doubtful = ("stuck", "unmoved", "unknown")
    return any(one.error is not None or any(one.states.get(state, 0) for state in doubtful) for one in own)
