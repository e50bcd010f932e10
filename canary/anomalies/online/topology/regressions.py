"""Offset regressions: the end of a log goes back, which shows a loss in a topic that the canary does not write to.

The rule is the probe topic's (decision 5): a lower end counts if it is listed twice in a row, in the same incarnation,
at a leader epoch that is not older. Example: the end is 100 at epoch 4, then 80 at epoch 5, then 120 at epoch 5. The
log has grown over the place again, but the first look counts because its epoch was newer: a leader answers ListOffsets
only when its high watermark has passed the start of its own epoch (KIP-207), so a lower end is a cut and no lag.

Not seen: records that are cut off and written again between two samples of a busy topic.
"""

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology import timeline, watched_incarnations
from canary.anomalies.online.topology.state import End

_ANEW_NS = 3_000_000_000
"""So long a leader that has stalled while a topic was made anew may answer, by name, for the log that it still has."""
_APART_NS = 900_000_000
"""Two looks closer together are one: a broker with old metadata may give a former topic id twice."""


def listed(scope: Scope, fact: f.WatchedListed) -> None:
    """Start, end and last stable offset of a partition that the operator named."""
    if fact.start < 0 or fact.end < fact.start:
        return
    with watched_incarnations.judged_by(scope, fact.topic, fact.partition, fact.topic_id, fact.end):
        _listed(scope, fact)


def _listed(scope: Scope, fact: f.WatchedListed) -> None:
    top, key = scope.state.topology, (fact.topic, fact.partition)
    known, doubted = top.ends.get(key), timeline.is_in_question(scope, fact.topic)
    if not timeline.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch):
        return  # a former leader
    fresh = End(fact.topic_id, fact.start, fact.end, fact.stable, fact.leader_epoch, fact.sample, at_ns=fact.at_ns)
    if known is None or (fact.leader_epoch or 0) < (known.epoch or 0):
        top.ends[key] = fresh  # a first look; or the epoch went back, which is reported: compare from here on
        if known is None and (doubted or timeline.was_recreated(scope, fact.topic)):
            fresh.anew_ns = fact.at_ns
        return
    fresh.anew_ns = known.anew_ns
    if known.anew_ns and fact.at_ns - known.anew_ns < _ANEW_NS and fact.leader_epoch == known.epoch:
        top.ends[key] = fresh
        return
    if known.doubt_sample is not None and fact.sample > known.doubt_sample:
        _look_again(scope, fact, known, fresh, doubted=doubted)
    elif fact.end >= known.end:
        top.ends[key] = fresh
    elif known.doubt_sample is None:
        known.doubt_sample, known.doubt_ns = fact.sample, fact.at_ns
        known.doubt_end, known.doubt_epoch = fact.end, fact.leader_epoch


def _look_again(scope: Scope, fact: f.WatchedListed, known: End, fresh: End, *, doubted: bool) -> None:
    """Decide a doubt: the end is still lower, or was lower under a newer leader, or it was no cut.

    While the topic's id is ``doubted`` it is decided again and again, for as long as the end may be another topic's.
    """
    newer = known.doubt_epoch is not None and known.epoch is not None and known.doubt_epoch > known.epoch
    lower, passed_ns = fact.end < known.end, fact.at_ns - known.doubt_ns
    if lower and not newer and passed_ns < _APART_NS:
        return
    top, key = scope.state.topology, (fact.topic, fact.partition)
    lasts = passed_ns >= watched_incarnations.SETTLED_NS
    if newer or not lower or lasts or not doubted:
        top.ends[key] = fresh
    if not lower and not newer:
        return
    lineage = top.lineages.get(key)
    if lineage is not None:  # its next epoch shows the same cut
        lineage.said = max(lineage.said, fact.leader_epoch or 0)
    cut = min(known.doubt_end, fact.end)
    evidence = {
        "end_before": known.end,
        "end": cut,
        "end_now": fact.end,
        "log_start": fact.start,
        "leader_epoch_before": known.epoch,
        "leader_epoch": fact.leader_epoch,
    }
    summary = f"the log ended at {known.end} and then at {cut}: at least {known.end - cut} records are gone"
    epoch = fact.leader_epoch if known.doubt_epoch is None else known.doubt_epoch
    where = Where(*key, cut, leader_epoch=epoch)
    violation = scope.violation("offset-regression", where, summary, evidence=evidence, by="watch")
    violation = violation.since(known.at_ns, known.doubt_ns)
    watched_incarnations.found(scope, violation, fact.topic_id, known.doubt_ns, lasts=lower and lasts)
