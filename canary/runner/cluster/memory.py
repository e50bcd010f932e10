"""What a start knows of the starts before it: the replayed ledger, held against what the store was shown."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
import structlog

from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed, State
from canary.anomalies.online.topology.state import Limits, Watched
from canary.anomalies.violation import Violation
from canary.facts import MemoryLost
from canary.metrics.published import loads
from canary.runner.cluster.connection import Connection
from canary.runner.cluster.readers import racks_of
from canary.runner.context import ClusterContext
from canary.runner.publishing import snapshot
from canary.runner.publishing.flusher import Flusher
from canary.runner.publishing.unended import left_open
from canary.settings import ClusterSettings
from canary.threads import system
from canary.watching.selection import Selection
from canary.workloads.catalogue import WORKLOADS
from storage.ledger import Ledger, LedgerError, Recovery

log = structlog.get_logger(__name__)

Predecessors = dict[tuple[str, str], tuple[int, int]]
"""By topic and mode: the first producer id, and the highest generation."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a start begins with.

    ``facts`` is how many facts the tracker has folded; ``lost`` says what is forgotten, None if nothing is;
    ``remembered_ns`` is the time of the last fact in the ledger, None for an empty one; ``gaps`` are those of mirrored
    topics that the ledger has found again, and the store may not have yet.
    """

    tracker: Tracker
    facts: int
    lost: MemoryLost | None
    installation: str
    began_ns: int
    remembered_ns: int | None
    gaps: Sequence[Violation] = ()

    def predecessors(self) -> Predecessors:
        """Return the producers that the ledger knows."""
        known: Predecessors = {}
        for producer_id, producer in self.tracker.state.producers.items():
            first, highest = known.get((producer.topic, producer.mode), (producer_id, 0))
            known[producer.topic, producer.mode] = first, max(highest, producer.generation)
        return known


def recall(context: ClusterContext, connection: Connection, ledger: Ledger) -> tuple[Memory, Flusher] | None:
    """Replay the ledger, and ask the store whether it is whole; None when the runner is stopped before.

    The flusher holds the violations that the store does not have yet.

    Raises:
        LedgerError: the ledger cannot be read, or was written by another version.
    """
    recovery = ledger.recover()
    tracker, flusher = _replayed(context, ledger, recovery)
    store, state = context.store, tracker.state
    answers = connection.ask(
        lambda: (
            store.views.get(context.cluster.name, context.runner),
            store.identities.installation(state.installation),
            left_open(context),
        ),
        "memory",
    )
    if answers is None:
        return None
    view, installation, left = answers
    began_ns = context.clock.now_ns()
    shown = None if view is None else view.view
    if view is not None:
        with contextlib.suppress(ValueError):  # another version's: the counters of clients begin anew
            context.meters.resume(loads(view.view, view.at_ns).measurements)
    lost = memory_lost(state, recovery.damage, shown, installation, began_ns, flusher.shown)
    if state.installation not in {None, installation}:  # our records bear another tag, and are foreign here
        tracker = _configured(Tracker(), context.cluster)
    if lost is not None:
        flusher.withheld = tracker.state.ordinal  # until that is durable, the last view is all that tells of it
        ledger.skip(began_ns // 10**9)  # a segment is written for longer than a second: fewer were begun by now
    known = {one.key(context.cluster.name) for one in [*tracker.conditions(), *flusher.unended()]}
    tracker.adopt(one for one in left if one.key(context.cluster.name) not in known)
    gaps = [one for one in flusher.replayed() if one.kind == "mirror-gap"]
    memory = Memory(tracker, tracker.state.ordinal, lost, installation, began_ns, state.now_ns or None, gaps)
    return memory, flusher


def _replayed(context: ClusterContext, ledger: Ledger, recovery: Recovery) -> tuple[Tracker, Flusher]:
    """Fold what the ledger holds; the flusher gets the violations that the store may not have yet.

    Facts of former processes are judged by what those probed, as far as it is known; the next start by the settings.
    """
    if recovery.torn:
        log.warning("ledger_tail_dropped", what=recovery.torn)
    try:
        tracker, undelivered, ended, shown = snapshot.unseal(recovery.state)
    except ValueError as error:
        raise LedgerError(f"the ledger {ledger.directory} is of another version of canary: {error}") from error
    former = tracker.state.probed
    configured = _configured(tracker, context.cluster).state.probed
    tracker.state.probed = {**configured, **former}
    flusher = Flusher(context)
    flusher.shown = shown
    flusher.violations(undelivered)
    flusher.ended(ended)
    began, facts = system.monotonic(), 0
    for batch in recovery.facts:
        tracker.fold(batch)
        facts += len(batch)
        findings = tracker.drain()
        flusher.violations(findings.violations)
        flusher.ended(findings.ended)
        flusher.changed(findings.changes)
    tracker.state.probed = configured
    flusher.changed(tracker.topology())
    seconds = round(system.monotonic() - began, 3)
    log.info("ledger_replayed", cluster=context.cluster.name, facts=facts, seconds=seconds)
    return tracker, flusher


def _configured(tracker: Tracker, cluster: ClusterSettings) -> Tracker:
    """Return the tracker, with the settings that it judges by."""
    watch = cluster.watch
    tracker.state.topology.limits = Limits(
        offline_s=watch.offline_after, isr_of_one_s=watch.isr_of_one_after, under_s=watch.under_replicated_after
    )
    tracker.state.topology.watched = watched(cluster)
    tracker.state.probed = probed(cluster)
    return tracker


def watched(cluster: ClusterSettings) -> Watched:
    """Return what the settings name under ``watch``: topics, but for probe topics, and patterns."""
    watch, ours = cluster.watch, {cluster.topic_of(mode) for mode in cluster.modes.enabled()}
    chosen = Selection((*watch.topics, *watch.epochs), watch.offsets)
    return Watched(sorted(chosen.literal.union(chosen.names) - ours), sorted(chosen.patterns))


def probed(cluster: ClusterSettings) -> dict[str, Probed]:
    """Return by topic what the settings want probed: the partitions, the modes, and more readers.

    A mode that reads what another one writes has nothing to do more often than that one writes.
    """
    found: dict[str, Probed] = {}
    modes = cluster.modes.enabled()
    for mode, settings in modes.items():
        topic = cluster.topic_of(mode)
        share = cluster.share_of(topic)
        known = found.setdefault(
            topic, Probed([], list(share.mine(cluster.topic.partitions)), share=[share.index, share.of])
        )
        workload = WORKLOADS[mode]
        (known.committing if workload.topic == "none" else known.modes).append(mode)
        source = modes.get(workload.source or "")
        known.intervals[mode] = max(settings.interval, source.interval if source is not None else 0.0)
    if cluster.topic.name in found:
        found[cluster.topic.name].readers = list(racks_of(cluster))
    return found


def memory_lost(
    state: State, damage: str | None, shown: bytes | None, installation: str, at_ns: int, had: int = 0
) -> MemoryLost | None:
    """Return what is forgotten, None if nothing is.

    A ledger that was cut off at the end of a frame, wiped, or put back looks whole. But the store has the last view
    that a runner published, with the number of facts that it was made of (``ordinal``), and each of those facts had
    been durable. Example: the view says 1,000 and the ledger holds 800 facts, so 200 are gone. The ledger in turn
    knows how many facts the last view told of that the store has had: a view that tells of fewer is of a store that was
    put back, and what was reported after it is in neither.

    ``state`` is what the ledger holds, ``damage`` what of it cannot be read (Recovery.damage), ``shown`` the last view
    of this cluster that the store has from this runner, ``installation`` the store's, ``had`` the number of facts of
    the last view that the store has had, 0 for none.
    """
    view = orjson.loads(shown) if shown is not None else {}
    judged = view.get("ordinal", 0)
    from_ns = state.now_ns or view.get("since_ns")
    if judged < had:
        from_ns = view.get("now_ns") or state.since_ns
    if damage is not None:
        reason = f"the ledger is damaged ({damage})"
    elif state.installation not in {None, installation}:
        reason = "the ledger belongs to another installation than the store"
    elif judged < had:
        reason = (
            f"the store tells of {judged:,} facts, and had been shown {had:,}: it was put back or wiped, and what was "
            "reported since is forgotten there"
        )
    elif state.ordinal >= judged:
        return None
    elif state.ordinal:
        reason = (
            f"the ledger tells of {state.ordinal:,} facts, and {judged:,} had been judged: it was cut off or put back"
        )
    else:
        reason = "the ledger is empty, and had not been: it was wiped, or its disk is another one"
    return MemoryLost(at_ns, from_ns or None, reason)
