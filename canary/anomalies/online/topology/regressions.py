"""Offset regressions: the end of a log goes back, which shows a loss in a topic that the canary does not write to.

The rule is the probe topic's (decision 5): a lower end counts if it is listed twice in a row, in the same incarnation,
at a leader epoch that is not older. Example: the end is 100 at epoch 4, then 80 at epoch 5, then 120 at epoch 5. The
log has grown over the place again, but the first look counts because its epoch was newer: a leader answers ListOffsets
only when its high watermark has passed the start of its own epoch (KIP-207), so a lower end is a cut and no lag.

Not seen: records that are cut off and written again between two samples of a busy topic.
"""

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology import clock, timeline, vanished
from canary.anomalies.online.topology.state import End, OtherIncarnation
from canary.facts.incarnation import Sighting, sighting

_ANEW_NS = 3_000_000_000
"""So long a leader that has stalled while a topic was made anew may answer, by name, for the log that it still has."""
_QUESTION_NS = 30 * 10**9
"""For so long another id is a question, after it was given last, and nothing is judged, after it was given first."""
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
    """Return whether an answer is about a topic as it is known, of one that is not probed; another id is a question.

    All brokers are asked which id it is (TopicIdWatcher). Meanwhile nothing is judged: a broker with old metadata gives
    the former id for the new log. Of a former id, which such a broker gives at any time, the known one's logs are.
    """
    known, state = timeline.topic_of(scope, topic, ours=False), scope.state
    other = known.other
    if sighting(topic_id, known.topic_id, agreed=False) is Sighting.DOUBTFUL:
        if other is None or other.topic_id != topic_id:
            other = known.other = OtherIncarnation(str(topic_id), state.now_ns, 0)
        other.told_ns = state.now_ns
        return False
    if other is not None and not clock.lately(state, other.told_ns, _QUESTION_NS):
        other = known.other = None
    if other is not None and other.topic_id not in known.dead_ids and clock.lately(state, other.since_ns, _QUESTION_NS):
        return False
    known.said_gone = False
    timeline.topic_seen(scope, topic, topic_id)
    return True


def is_another(scope: Scope, fact: f.WatchedAgreed) -> None:
    """Every broker gives the other id: the topic was made again, or restored metadata name a former one."""
    top = scope.state.topology
    known = top.topics.get(fact.topic)
    if known is None or known.other is None or known.other.topic_id != fact.topic_id:
        return
    other, former_id, was_said = known.other, known.topic_id, known.said_gone
    is_former = fact.topic_id in known.dead_ids
    records = vanished.records_of(top, fact.topic, known)
    timeline.topic_seen(scope, fact.topic, fact.topic_id)
    known.other, known.said_gone = None, False
    top.lineages |= {(fact.topic, partition): one for partition, one in other.lineages.items()}
    how = "is a former incarnation again, as every broker says" if is_former else "was deleted and made again"
    scope.report(
        "topic-recreated",
        Where(fact.topic),
        f"topic {fact.topic} {how}{f': {records:,} records were in it' if records else ''}",
        severity="critical" if fact.topic in top.watched.names and records != 0 and not was_said else "warning",
        evidence={"former_topic_id": former_id, "topic_id": fact.topic_id, "promises_voided": 0, "records": records},
        by="watch",
        after_ns=known.former_ns,
        before_ns=other.since_ns,
    )


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
