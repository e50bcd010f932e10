"""Epoch boundaries: what an election cut off a log, exactly, however much was written since.

A new leader's epoch begins where its log ended when it was elected. If that is below a high watermark that an earlier
leader told, readers may have been given what is gone. Example: leader epoch 4 told the high watermark 120, and epoch 5
begins at 80: offsets 80 to 119 were cut, also where the log has long grown to 500. What was above the high watermark
was never promised, and an orderly election may cut it: epoch 5 that begins at 120 or above has cut nothing.

Only logs of topics with an id are judged: a topic that is made again begins at offset 0, too.
"""

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology import timeline, watched_incarnations
from canary.anomalies.online.topology.state import Lineage


def seen(scope: Scope, fact: f.EpochSeen) -> None:
    """An epoch of a log that the operator named, or a higher high watermark in it."""
    if fact.start < 0 or fact.leader_epoch < 0:
        return
    with watched_incarnations.judged_by(scope, fact.topic, fact.partition, fact.topic_id):
        _seen(scope, fact)


def _seen(scope: Scope, fact: f.EpochSeen) -> None:
    top, key = scope.state.topology, (fact.topic, fact.partition)
    known = top.lineages.get(key)
    fresh = Lineage(fact.topic_id, fact.leader_epoch, fact.leader, fact.start, fact.end, fact.leader_epoch)
    fresh.end_ns = fact.at_ns
    if known is None or known.topic_id != fact.topic_id:
        top.lineages[key] = fresh
    elif fact.leader_epoch > known.epoch:
        top.lineages[key] = fresh
        if fact.start < known.end:
            _cut(scope, fact, known, fresh)
        elif known.end > fresh.end:
            fresh.end, fresh.end_epoch, fresh.end_ns = known.end, known.end_epoch, known.end_ns
    elif fact.leader_epoch == known.epoch:
        if fact.end >= known.end:
            known.end, known.end_epoch, known.end_ns = fact.end, fact.leader_epoch, fact.at_ns
        if fact.leader >= 0:
            known.leader = fact.leader
    elif fact.leader >= 0 and timeline.epoch_listed(scope, *key, fact.leader_epoch):
        top.lineages[key] = fresh  # it went back, which is reported: compare from here on
    timeline.epoch_begun(scope, key)


def _cut(scope: Scope, fact: f.EpochSeen, known: Lineage, fresh: Lineage) -> None:
    top, key = scope.state.topology, (fact.topic, fact.partition)
    if fact.topic_id is None:
        return
    fresh.end = max(fact.end, fact.start)
    fresh.cut, fresh.cut_ns = fact.start, fact.at_ns
    if fact.leader_epoch <= known.said:
        return
    top.ends.pop(key, None)  # what it is now is no regression of its own
    evidence = {
        "end_before": known.end,
        "end": fact.start,
        "leader_epoch_before": known.end_epoch,
        "leader_epoch": fact.leader_epoch,
        "leader": fact.leader if fact.leader >= 0 else None,
        "cut": [fact.start, known.end],
        "proof": "OffsetForLeaderEpoch",
    }
    summary = (
        f"leader epoch {fact.leader_epoch} begins at {fact.start}, and epoch {known.end_epoch} had told the high "
        f"watermark {known.end}: {known.end - fact.start} offsets were cut"
    )
    where = Where(*key, fact.start, leader_epoch=fact.leader_epoch)
    violation = scope.violation("offset-regression", where, summary, evidence=evidence, by="watch").since(known.end_ns)
    watched_incarnations.found(scope, violation, fact.topic_id, fact.at_ns)
