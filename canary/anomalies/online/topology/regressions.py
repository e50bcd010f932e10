"""The end of a log that goes back: loss in a topic that we do not write to, seen without any probe.

The rule is the probe topic's (decision 5): a lower end counts at a leader epoch that is not older, in the same
incarnation, twice in a row. Where the log has grown over the place again by the second look, the first one counts if
it was at a newer epoch: a leader answers ListOffsets only when its high watermark has passed the start of its own
epoch (KIP-207), so an end below what was shown before is a cut and no lag. What is cut and written again between two
samples of a busy topic cannot be seen this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online import topology
from canary.anomalies.online.topology_found import violation
from canary.anomalies.online.topology_state import End

if TYPE_CHECKING:
    from canary import facts as f
    from canary.anomalies.online.scope import Scope


_APART_NS = 900_000_000
"""Two looks closer together are one: a broker that has not heard of a topic made again may tell the former id twice."""


def listed(scope: Scope, fact: f.WatchedListed) -> None:
    """Start, end and last stable offset of a partition that the operator named."""
    top = scope.state.topology
    if fact.start < 0 or fact.end < fact.start:
        return
    key = (fact.topic, fact.partition)
    before = top.topics.get(fact.topic)
    if before is not None and fact.topic_id in before.dead_ids:
        return  # a broker that has not heard yet
    former_id = before.topic_id if before is not None else None
    topology.topic_seen(scope, fact.topic, fact.topic_id)
    if former_id is not None and fact.topic_id is not None and fact.topic_id != former_id:
        summary = f"topic {fact.topic} was deleted and made again"
        evidence = {"former_topic_id": former_id, "topic_id": fact.topic_id, "promises_voided": 0}
        scope.emit(violation(scope, "topic-recreated", fact.topic, None, None, summary, evidence=evidence))
    known = top.ends.get(key)
    if not topology.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch):
        return  # a leader of yesterday
    fresh = End(fact.topic_id, fact.start, fact.end, fact.stable, fact.leader_epoch, fact.sample)
    if known is None or known.topic_id != fact.topic_id or (fact.leader_epoch or 0) < (known.epoch or 0):
        top.ends[key] = fresh  # a first look; or the epoch went back, which has been said: compared from here on
        return
    if known.doubt_sample is not None and fact.sample > known.doubt_sample:
        _look_again(scope, fact, known, fresh)
    elif fact.end >= known.end:
        top.ends[key] = fresh
    elif known.doubt_sample is None:
        known.doubt_sample, known.doubt_ns = fact.sample, fact.at_ns
        known.doubt_end, known.doubt_epoch = fact.end, fact.leader_epoch


def _look_again(scope: Scope, fact: f.WatchedListed, known: End, fresh: End) -> None:
    """The end was lower before: it still is, or it was under a newer leader, or it was nothing."""
    newer = known.doubt_epoch is not None and known.epoch is not None and known.doubt_epoch > known.epoch
    if not newer and fact.end < known.end and fact.at_ns - known.doubt_ns < _APART_NS:
        return
    if fact.end < known.end or newer:
        _say(scope, fact, known)
    scope.state.topology.ends[fact.topic, fact.partition] = fresh


def _say(scope: Scope, fact: f.WatchedListed, known: End) -> None:
    top = scope.state.topology
    key = (fact.topic, fact.partition)
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
    scope.emit(violation(scope, "offset-regression", *key, cut, summary, evidence=evidence))
