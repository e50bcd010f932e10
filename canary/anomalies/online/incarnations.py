"""Incarnations: which topic id facts belong to, and when the promises of one become void (decision 7).

A topic ends when it has been gone for GONE_NS, or when another id is told. Whichever comes first says how many promises
end with it (``_end``): `promises-void`, or `topic-recreated` if nobody saw that it was gone.
"""

from dataclasses import replace
from typing import Final

from canary import facts as f
from canary.anomalies.online.losses import confirmation, other_id
from canary.anomalies.online.rules import retention, wrong_cluster
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import ASKS_KEPT, Ask, FormerLimit, Topic
from canary.anomalies.online.topology import clock, liveness, timeline
from canary.facts.incarnation import Sighting, sighting

_RETENTIONS_KEPT = 5
GONE_NS: Final = 10 * 10**9
"""A topic that every answer has lacked for so long is over, unless it acknowledged something meanwhile: a single broker
may not know of it. The runner makes its topic again only then."""


def watch_asked(scope: Scope, fact: f.WatchAsked) -> None:
    """A round of questions begins: its answers are judged against what is known now."""
    state = scope.state
    clock.asked(state, fact)
    ends: dict[str, dict[int, list[int | None]]] = {
        name: {p: [log.replicated_end, log.known_end] for p, log in topic.logs.items()}
        for name, topic in state.topics.items()
    }
    state.unanswered = {what: one for what, one in state.unanswered.items() if one[1] > state.round_ordinal}
    state.round_ordinal = state.ordinal
    state.asks[fact.sample] = Ask(state.ordinal, fact.at_ns, ends, wrong_cluster.positions(scope))
    while len(state.asks) > ASKS_KEPT:
        del state.asks[min(state.asks)]
    liveness.judge(scope)


def watch_failed(scope: Scope, fact: f.WatchFailed) -> None:
    """A question of a round got no answer: nothing is judged by it, until a whole round has passed without that."""
    state = scope.state
    what, _, words = fact.error.partition(": ")
    since_ns, *_ = state.unanswered.get(what, [fact.at_ns])
    state.unanswered[what] = [since_ns, state.ordinal, words]
    liveness.unanswered(scope, fact.error)


def topic_seen(scope: Scope, fact: f.TopicSeen) -> None:
    """The topic's id: the same id confirms the facts before the question, another id voids them."""
    state = scope.state
    liveness.answered(scope)
    topic = scope.topic(fact.topic)
    found = sighting(fact.topic_id, topic.topic_id, agreed=bool(fact.agreed))
    if found is Sighting.DOUBTFUL:
        other_id.told(scope, topic, fact)
        return
    topic.other = None
    timeline.topic_seen(scope, fact.topic, fact.topic_id)
    asked = state.asks.get(fact.sample)
    if not topic.known:
        topic.known, topic.unmarked = True, fact.topic_id is None
    elif found is Sighting.NEW:
        _recreated(scope, topic, fact)
        return
    topic.topic_id = topic.topic_id or fact.topic_id  # brokers tell it after an upgrade
    if not topic.fresh and fact.topic_id is not None:  # the probe log may have it in doubt since a former process
        scope.found.agreed.append(replace(fact, sample=0, agreed=True))
    topic.gone_since_ns, topic.over_ns, topic.voided, topic.fresh = None, None, 0, True
    if 0 < topic.partitions < fact.partitions:
        scope.found.renewed.append(fact.topic)
    topic.partitions = max(topic.partitions, fact.partitions)  # none ever goes: who lists fewer does not know all
    if asked is not None:
        other_id.confirmed(scope, topic, asked)
        confirmation.release(scope, topic, asked)


def _recreated(scope: Scope, old: Topic, fact: f.TopicSeen) -> None:
    state = scope.state
    new = Topic(
        old.name,
        fact.topic_id,
        known=True,
        fresh=True,
        dead_ids=[*(one for one in old.dead_ids if one != fact.topic_id), *([old.topic_id] if old.topic_id else [])],
        first_generations={
            producer_id: producer.generation + 1
            for producer_id, producer in state.producers.items()
            if producer.topic == old.name
        },
        partitions=fact.partitions,
        retention_ms=old.retention_ms,
        retention_bytes=old.retention_bytes,
        min_insync_replicas=old.min_insync_replicas,
    )
    said, held = old.over_ns is not None, _end(scope, old)
    state.topics[old.name] = new
    for producer_id, doubts in state.doubts.items():
        state.doubts[producer_id] = [doubt for doubt in doubts if doubt[0] != old.name]
    for ask in state.asks.values():
        ask.ends.pop(old.name, None)  # of another log
        ask.positions.pop(old.name, None)
    for transaction in state.transactions.values():
        transaction.writes = [w for w in transaction.writes if w[0] != old.name]
        transaction.reads = [r for r in transaction.reads if r[0] != old.name]
    scope.found.renewed.append(old.name)
    how = (
        "is a former incarnation again, as every broker says"
        if fact.topic_id in old.dead_ids
        else "was deleted and made again"
    )
    ended = f"{old.voided:,} acknowledged and unexpired promises of its former incarnation are void"
    scope.report(
        "topic-recreated",
        Where(new),
        f"topic {old.name} {how}: {ended}{', as was said when it was gone' if said else ''}",
        severity="critical" if held else "warning",
        evidence={"former_topic_id": old.topic_id, "topic_id": fact.topic_id, "promises_voided": old.voided},
        by="watch",
        after_ns=timeline.topic_of(scope, old.name, ours=True).former_ns,
    )


def topic_gone(scope: Scope, fact: f.TopicGone) -> None:
    """The topic does not exist: nothing is judged until it does. After GONE_NS its promises are void."""
    topic = scope.topic(fact.topic)
    if topic.gone_since_ns is None:
        topic.gone_since_ns = fact.at_ns
        timeline.topic_gone(scope, fact.topic)
    alive_ns = max([topic.gone_since_ns, *(log.acked_ns for log in topic.logs.values())])
    if topic.over_ns is not None or fact.at_ns - alive_ns < GONE_NS:
        return
    held, topic.over_ns = _end(scope, topic), fact.at_ns
    if held:
        scope.report(
            "promises-void",
            Where(topic),
            f"topic {topic.name} is gone, and {held:,} acknowledged and unexpired promises with it",
            evidence={"topic_id": topic.topic_id, "promises_voided": held, "gone_since_ns": topic.gone_since_ns},
            by="watch",
            after_ns=timeline.topic_of(scope, topic.name, ours=True).seen_ns,
        )


def held_promises(topic: Topic) -> int:
    """Return how many promises a topic holds: acknowledged, neither expired nor known as lost."""
    held = 0
    for stream in topic.streams:
        here = IntervalSet.of((run.key, run.end) for run in stream.places)
        for a, b in stream.unplaced:
            here.add(a, b)
        promised = (part for a, b in here for part in stream.promised.within(a, b))
        held += sum(y - x for a, b in promised for x, y in stream.lost.without(a, b))
    return held


def _end(scope: Scope, topic: Topic) -> int:
    """Close what waits in a topic that is over; return how many promises become void by that, which were not before.

    What no consumer was given will never be known: it is unverified.
    """
    held = held_promises(topic) if topic.over_ns is None else 0
    topic.voided += held
    for stream in topic.streams:
        for a, b in list(retention.unread(stream)):
            retention.expired_unread(scope, topic, stream, a, b)
    return held


def topic_configured(scope: Scope, fact: f.TopicConfigured) -> None:
    """The retention in force, by which earlier advances of the start are judged."""
    topic = scope.topic(fact.topic)
    compacted = fact.cleanup_policy is not None and "delete" not in fact.cleanup_policy
    for formers, before, now in (
        (topic.former_retentions, topic.retention_ms, fact.retention_ms),
        (topic.former_retention_bytes, topic.retention_bytes, fact.retention_bytes),
    ):
        if before is not None and not topic.compacted and (before != now or compacted):
            formers.append(FormerLimit(fact.at_ns, before))
            del formers[:-_RETENTIONS_KEPT]
    topic.retention_ms, topic.retention_bytes = fact.retention_ms, fact.retention_bytes
    topic.min_insync_replicas = fact.min_insync_replicas
    timeline.topic_of(scope, fact.topic, ours=True).min_isr = fact.min_insync_replicas
    topic.compacted, topic.configured_ns = compacted, scope.state.now_ns
    for log in topic.logs.values():
        retention.settle_expiry(scope, topic, log)
