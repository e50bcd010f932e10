"""Offset regressions: the end of a log goes back, which shows a loss in a topic that the canary does not write to.

The rule is the probe topic's (decision 5): a lower end counts if it is listed twice in a row, in the same incarnation,
at a leader epoch that is not older. Example: the end is 100 at epoch 4, then 80 at epoch 5, then 120 at epoch 5. The
log has grown over the place again, but the first look counts because its epoch was newer: a leader answers ListOffsets
only when its high watermark has passed the start of its own epoch (KIP-207), so a lower end is a cut and no lag.

Not seen: records that are cut off and written again between two samples of a busy topic.
"""

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology import timeline, vanished
from canary.anomalies.online.topology.state import End

_ANEW_NS = 3_000_000_000
"""So long a leader that has stalled while a topic was made anew may answer, by name, for the log that it still has."""
_APART_NS = 900_000_000
"""Two looks closer together are one: a broker with old metadata may give a former topic id twice."""


def listed(scope: Scope, fact: f.WatchedListed) -> None:
    """Start, end and last stable offset of a partition that the operator named."""
    top = scope.state.topology
    if fact.start < 0 or fact.end < fact.start:
        return
    key = (fact.topic, fact.partition)
    if not of_present_topic(scope, fact.topic, fact.topic_id):
        return
    known = top.ends.get(key)
    if not timeline.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch):
        return  # a former leader
    fresh = End(fact.topic_id, fact.start, fact.end, fact.stable, fact.leader_epoch, fact.sample, at_ns=fact.at_ns)
    if known is None or known.topic_id != fact.topic_id or (fact.leader_epoch or 0) < (known.epoch or 0):
        top.ends[key] = fresh  # a first look; or the epoch went back, which is reported: compare from here on
        if known is None and timeline.was_recreated(scope, fact.topic):
            fresh.anew_ns = fact.at_ns
        return
    fresh.anew_ns = known.anew_ns
    if known.anew_ns and fact.at_ns - known.anew_ns < _ANEW_NS and fact.leader_epoch == known.epoch:
        top.ends[key] = fresh
        return
    if known.doubt_sample is not None and fact.sample > known.doubt_sample:
        _look_again(scope, fact, known, fresh)
    elif fact.end >= known.end:
        top.ends[key] = fresh
    elif known.doubt_sample is None:
        known.doubt_sample, known.doubt_ns = fact.sample, fact.at_ns
        known.doubt_end, known.doubt_epoch = fact.end, fact.leader_epoch


def of_present_topic(scope: Scope, topic: str, topic_id: str | None) -> bool:
    """Take the id of a topic that is not probed; return False if it is a former one's, by a broker's old metadata."""
    before = scope.state.topology.topics.get(topic)
    if before is not None and topic_id in before.dead_ids:
        return False
    former_id = before.topic_id if before is not None else None
    records = None if before is None else vanished.records_of(scope.state.topology, topic, before)
    timeline.topic_seen(scope, topic, topic_id)
    was_said = before is not None and before.said_gone
    if before is not None:
        before.said_gone = False
    if before is not None and former_id is not None and topic_id is not None and topic_id != former_id:
        is_news = topic in scope.state.topology.watched.names and records != 0 and not was_said
        scope.report(
            "topic-recreated",
            Where(topic),
            f"topic {topic} was deleted and made again{f': {records:,} records were in it' if records else ''}",
            severity="critical" if is_news else "warning",
            evidence={"former_topic_id": former_id, "topic_id": topic_id, "promises_voided": 0, "records": records},
            by="watch",
            after_ns=before.former_ns,
        )
    return True


def _look_again(scope: Scope, fact: f.WatchedListed, known: End, fresh: End) -> None:
    """Decide a doubt: the end is still lower, or was lower under a newer leader, or it was no cut."""
    newer = known.doubt_epoch is not None and known.epoch is not None and known.doubt_epoch > known.epoch
    if not newer and fact.end < known.end and fact.at_ns - known.doubt_ns < _APART_NS:
        return
    top, key = scope.state.topology, (fact.topic, fact.partition)
    top.ends[key] = fresh
    if fact.end >= known.end and not newer:
        return
    lineage = top.lineages.get(key)
    if lineage is not None:  # its next epoch shows the same cut
        lineage.said = max(lineage.said, fact.leader_epoch or 0)
    top.regressions[key] = top.regressions.get(key, 0) + 1
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
    happened = {"after_ns": known.at_ns, "before_ns": known.doubt_ns}
    scope.report("offset-regression", where, summary, evidence=evidence, by="watch", **happened)
