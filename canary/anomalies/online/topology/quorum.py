"""The metadata quorum: who leads it, and whether it has gone back.

The epoch of the quorum's leader and the end of its log only rise, as long as the controllers keep what they have
acknowledged. Example: the epoch was 12 and the log ended at 90,000; then the one controller's disk is emptied and
formatted again with the same cluster id, and the epoch is 1, the end 50. Brokers that follow it know of no topic and
rename the logs that they have to ``-stray``; those that had a higher epoch go on with the metadata of before, and lose
it when they are started again.

A former controller that is cut off answers with an older epoch, too. So what is older counts when it holds: for 60 s
every answer is older, through more than half of the brokers, while the log grows, which takes a majority of the voters.
A log that has grown beyond its former end before that, in the same epoch, is not recognised.
"""

from typing import Final

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology import timeline
from canary.anomalies.online.topology.state import Quorum
from canary.facts.incarnation import AGREED_S

_AGREED_NS: Final = int(AGREED_S * 1e9)


def seen(scope: Scope, fact: f.QuorumSeen) -> None:
    """An answer of the quorum: it is taken unless it is older than one before, and not believed yet."""
    top, end = scope.state.topology, fact.high_watermark
    known = top.quorum
    if end is not None:  # a former release did not note it
        if known is None or (fact.leader_epoch >= known.epoch and not 0 <= end < known.end):
            top.quorum = Quorum(fact.leader_epoch, max(end, -1 if known is None else known.end), fact.at_ns)
        elif not _went_back(scope, known, fact, end):
            return
    timeline.quorum_seen(scope, fact)


def _went_back(scope: Scope, known: Quorum, fact: f.QuorumSeen, end: int) -> bool:
    """Take an older answer; return whether it is believed, which is reported."""
    if not known.back_ns or fact.leader_epoch != known.back_epoch or end < known.back_end:
        known.back_ns, known.back_epoch, known.back_end, known.through = fact.at_ns, fact.leader_epoch, end, []
    if fact.through is not None and fact.through not in known.through:
        known.through.append(fact.through)
    most = 2 * len(known.through) > len(scope.state.brokers)
    if not most or end <= known.back_end or fact.at_ns - known.back_ns < _AGREED_NS:
        return False
    changes = {
        "the epoch of its leader": (known.epoch, fact.leader_epoch),
        "the end of its log": (known.end, known.back_end),
    }
    back = [f"{what} from {before:,} to {now:,}" for what, (before, now) in changes.items() if now < before]
    scope.report(
        "metadata-went-back",
        Where(""),
        f"the metadata quorum went back: {', '.join(back)}",
        evidence={
            "leader_epoch_before": known.epoch,
            "leader_epoch": fact.leader_epoch,
            "end_before": known.end,
            "end": known.back_end,
            "controller": fact.controller,
            "through_brokers": sorted(known.through),
            "client": "quorum-watcher",
        },
        by="watch",
        after_ns=known.at_ns,
        before_ns=known.back_ns,
    )
    scope.state.topology.quorum = Quorum(fact.leader_epoch, end, fact.at_ns)
    return True
