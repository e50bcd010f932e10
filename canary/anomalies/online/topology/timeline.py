"""The timeline of the whole cluster's topology, and what in it is wrong, folded from the watcher's facts.

Every change of a partition's leader, replicas or ISR, of any topic, of the brokers and of the controller becomes a
:class:`TopologyChange` for the store. Four kinds of judgement are made of it:

* *conditions* (conditions.py) hold for a while, are reported after their set time and ended when they are over;
* an *unclean election* (elections.py) is a leader outside the last known ISR; with evidence of loss it is critical;
* an *offset regression* (regressions.py) is an end that went back, of a log that the operator named;
* a *leader epoch* that goes back, in several answers in a row, is metadata that was restored or lost.

A mere sign is evidence and no violation: a broker that comes and goes, a broker id at another address, a broker that
comes back and has none of its replicas in sync for long (an empty disk, or a long absence). All of it is in the
timeline, and in the evidence of violations within ten minutes after it.
"""

from collections.abc import Iterator
from typing import Any

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology import conditions, elections, liveness, vanished
from canary.anomalies.online.topology.state import UNKNOWN_LEADER, Broker, ControllerTold, Epoch, Known, Place, Topology
from canary.anomalies.topology_change import TopologyChange

_EVENTS_KEPT = 200
_ISRS_KEPT = 8
_DEAD_IDS_KEPT = 20
_EPOCH_FIRST_NS = 3 * 10**9
"""Leaders and epochs are asked for together and answered one after the other, at most so long apart."""
_LOWER_TIMES = 5
"""A lower leader epoch so many times in a row is no former leader with old metadata."""
_FORMER_TIMES = 60
"""The same where the log still ends where it ended in that epoch, as that of a leader that was cut off does."""
_WATCHED_CAP_NS = {"probe": 3 * 10**9, "all": 10 * 10**9}
"""Watched time between two rounds at most; beyond it the cluster was not watched."""
_REFILL_NS = 30 * 10**9
_CONTROLLER_TIMES = 40
"""A controller named so many times in a row is believed. KRaft's brokers name any live broker, each time another."""


def runner_started(scope: Scope) -> None:
    """The cluster was not watched for a while: the next sight of each place is a first one."""
    for known in scope.state.topology.topics.values():
        for place in known.partitions.values():
            place.leader = UNKNOWN_LEADER
        known.told_ids, known.others = {}, {one: other for one, other in known.others.items() if other.ends}
        for end in (end for other in known.others.values() for end in other.ends.values()):
            end.doubt_sample = None
    for end in scope.state.topology.ends.values():
        end.doubt_sample = None  # rounds are numbered anew
    scope.state.topology.quorum_epoch = -1  # it may not be asked any more


def topic_of(scope: Scope, name: str, *, ours: bool) -> Known:
    """Return what is known of a topic's topology, made when it is new."""
    known = scope.state.topology.topics.setdefault(name, Known())
    if ours and not known.ours:
        known.ours, known.others, known.held = True, {}, {}
    return known


def partition_seen(scope: Scope, fact: f.PartitionSeen | f.WatchedPartition, *, ours: bool) -> None:
    """Leader, replicas and ISR of a partition of any topic."""
    top = scope.state.topology
    known = topic_of(scope, fact.topic, ours=ours)
    top.vanished.pop(fact.topic, None)
    replicas, isr = broker_ids(fact.replicas), broker_ids(fact.isr)
    place = known.partitions.get(fact.partition)
    if place is not None and (place.leader, place.replicas, place.isr) == (fact.leader, replicas, isr):
        return
    if place is None:
        place = known.partitions[fact.partition] = Place(fact.leader, replicas, isr, fact.at_ns)
    else:
        if place.leader != UNKNOWN_LEADER:
            elections.changed(scope, fact, place, isr)
        if place.leader != fact.leader:
            _epoch_over(scope, (fact.topic, fact.partition), place, fact.at_ns)
        if len(place.isr) == len(place.replicas):
            place.isrs.append(place.isr)
        place.leader, place.replicas, place.isr, place.at_ns = fact.leader, replicas, isr, fact.at_ns
    if len(isr) == len(replicas):
        place.isrs.clear()
    elif isr:
        place.isrs.append(isr)
        del place.isrs[:-_ISRS_KEPT]
    key = (fact.topic, fact.partition)
    if fact.leader < 0 or len(isr) < len(replicas):
        top.degraded[key] = ours
    elif key not in top.suspects:
        top.degraded.pop(key, None)
    scope.found.changes.append(_change(fact.topic, fact.partition, place))
    epoch_begun(scope, key)


def topic_seen(scope: Scope, name: str, topic_id: str | None) -> None:
    """The id of a probed topic, or of one whose offsets are watched; another id is another topic."""
    known = topic_of(scope, name, ours=name in scope.state.topics)
    known.said_gone = False
    if known.topic_id is not None and topic_id is not None and topic_id != known.topic_id:
        former = [*(one for one in known.dead_ids if one != topic_id), known.topic_id]
        known.dead_ids, known.former_ns = former[-_DEAD_IDS_KEPT:], known.seen_ns
        told = {} if known.ours else dict(known.partitions)
        forget(scope, name, known)
        for number, one in told.items():  # what is the same as before is not told again
            known.partitions[number] = Place(UNKNOWN_LEADER, one.replicas, one.isr, one.at_ns)
    if topic_id is not None:
        known.topic_id, known.seen_ns = topic_id, scope.state.now_ns


def watched_gone(scope: Scope, fact: f.WatchedGone) -> None:
    """A topic that the canary does not write to is not listed any more, or does not exist, asked for by its name."""
    if fact.by_name:
        vanished.asked(scope, fact)
    else:
        topic_gone(scope, fact.topic)


def topic_gone(scope: Scope, name: str) -> None:
    """The topic is gone, and so are its conditions."""
    top = scope.state.topology
    known = top.topics.get(name)
    if known is None or not known.partitions:
        return
    if not known.ours:
        vanished.not_listed(scope, name, known)
        known.others, known.held = {}, {}
    forget(scope, name, known)
    if not known.ours:
        if known.topic_id is None:  # a topic whose id is known is recognised when it is recreated
            del top.topics[name]
        for places in (top.unclean, top.regressions):
            for key in [key for key in places if key[0] == name]:
                del places[key]
    scope.found.changes.append(TopologyChange(scope.state.now_ns, "topic", name, 0, detail="gone"))


def forget(scope: Scope, name: str, known: Known) -> None:
    """Forget the places of a topic that is gone or recreated."""
    top, probed = scope.state.topology, scope.state.topics.get(name)
    conditions.end_all(scope, lambda key: key[1] == name)
    for partition in {*known.partitions, *(() if probed is None else probed.logs)}:  # one may be listed and not seen
        key = (name, partition)
        top.degraded.pop(key, None)
        top.suspects.pop(key, None)
        top.ends.pop(key, None)
        top.epochs.pop(key, None)
        top.lineages.pop(key, None)
    known.partitions.clear()


def configured(scope: Scope, fact: f.WatchedConfigured) -> None:
    """min.insync.replicas of a topic whose replicas are out of sync."""
    topic_of(scope, fact.topic, ours=False).min_isr = fact.min_insync_replicas


def cluster_seen(scope: Scope, fact: f.ClusterSeen) -> None:
    """The live brokers and the controller."""
    top, live = scope.state.topology, set(broker_ids(fact.brokers))
    first = not top.brokers
    for number in sorted(live - top.brokers.keys()):
        top.brokers[number] = Broker(since_ns=fact.at_ns)
        if not first:
            _event(scope, {"event": "broker-joined", "broker": number})
    for number, broker in top.brokers.items():
        if broker.live == (number in live):
            continue
        broker.away_ns = fact.at_ns - broker.since_ns if number in live else 0
        broker.live, broker.since_ns, broker.refilling = number in live, fact.at_ns, 0
        broker.returned_watched_ns = top.watched_ns.get("probe", 0) if broker.live else None
        away = {"away_s": round(broker.away_ns / 1e9)} if broker.live else {}
        _event(scope, {"event": "broker-returned" if broker.live else "broker-left", "broker": number, **away})
        scope.found.changes.append(_broker_change(fact.at_ns, number, broker))
    _controller(scope, fact, several=len(live) > 1)


def _controller(scope: Scope, fact: f.ClusterSeen, *, several: bool) -> None:
    """Believe a controller that is named again and again; a single live broker can only name itself."""
    top = scope.state.topology
    if top.quorum_epoch >= 0 or fact.controller is None or fact.controller == top.controller or not several:
        top.controller_told = None
        return
    told = top.controller_told
    if told is None or told.broker != fact.controller:
        told = top.controller_told = ControllerTold(fact.controller, fact.at_ns)
    told.times += 1
    if told.times < _CONTROLLER_TIMES:
        return
    _controller_is(scope, told.broker, told.at_ns)


def quorum_seen(scope: Scope, fact: f.QuorumSeen) -> None:
    """The controller that leads the metadata quorum: what brokers name in its place is no matter any more."""
    top = scope.state.topology
    if (fact.controller, fact.leader_epoch) != (top.controller, top.quorum_epoch):
        _controller_is(scope, fact.controller, fact.at_ns, fact.leader_epoch)
    top.quorum_epoch = fact.leader_epoch


def _controller_is(scope: Scope, number: int, at_ns: int, epoch: int | None = None) -> None:
    top = scope.state.topology
    if top.controller is not None and top.controller != number:
        _event(scope, {"event": "controller-changed", "from": top.controller, "to": number})
    top.controller, top.controller_told = number, None
    scope.found.changes.append(TopologyChange(at_ns, "controller", "", 0, leader=number, leader_epoch=epoch))


def broker_seen(scope: Scope, fact: f.BrokerSeen) -> None:
    """A broker's address; its id at another host is another machine, or the same one moved."""
    top = scope.state.topology
    broker = top.brokers.setdefault(fact.broker, Broker(since_ns=fact.at_ns))
    if (broker.host, broker.rack) == (fact.host, fact.rack):
        return
    if broker.host and broker.host != fact.host:
        _event(scope, {"event": "broker-id-reused", "broker": fact.broker, "former": broker.host, "address": fact.host})
    broker.host, broker.rack = fact.host, fact.rack
    scope.found.changes.append(_broker_change(fact.at_ns, fact.broker, broker))


def topology_seen(scope: Scope, fact: f.TopologySeen) -> None:
    """A round is complete: its time counts as watched, and conditions are judged."""
    liveness.answered(scope)
    top = scope.state.topology
    before = top.rounds.get(fact.extent)
    step = 0 if before is None else min(max(fact.at_ns - before, 0), _WATCHED_CAP_NS.get(fact.extent, 0))
    top.rounds[fact.extent] = fact.at_ns
    top.watched_ns[fact.extent] = top.watched_ns.get(fact.extent, 0) + step
    elections.settle(scope, fact.extent)
    conditions.judge(scope, fact.extent)
    if fact.extent == "probe":  # which comes also where no other topic is watched
        _refilling(scope)
    else:
        vanished.judge(scope)


def epoch_listed(scope: Scope, topic: str, partition: int, epoch: int | None, *, stands: bool = False) -> bool:
    """Take the leader epoch of an answer (None: none); return whether to believe the answer.

    A lower epoch is a former leader's with old metadata; several in a row are a regression, and from then on the lower
    one is the partition's epoch. None after an earlier epoch is no leader's answer. ``stands``: the log ends where it
    ended in that epoch, so many more are needed. So they are of a higher epoch that went back, where the log stands: it
    is that of a deleted topic, say, which a leader that was cut off still serves.
    """
    top = scope.state.topology
    known = top.epochs.get((topic, partition))
    if epoch is None:
        return known is None
    if known is None or epoch > (max(known.epoch, known.highest) if stands else known.epoch):
        highest = -1 if known is None else known.highest
        top.epochs[topic, partition] = known = Epoch(epoch, at_ns=scope.state.now_ns, highest=highest)
    if epoch == known.epoch:
        known.lower, known.seen_ns = 0, scope.state.now_ns
        if not known.former:
            _place_epoch(scope, topic, partition, epoch)
        return True
    known.lower += 1
    if known.lower < (_FORMER_TIMES if stands else _LOWER_TIMES) or is_in_question(scope, topic):
        return False
    if epoch < known.epoch:
        summary = f"the leader epoch went back from {known.epoch} to {epoch}"
        evidence = {"leader_epoch_before": known.epoch, "leader_epoch": epoch}
        where = Where(topic, partition, leader_epoch=epoch)
        after_ns = known.seen_ns
        scope.report("leader-epoch-regression", where, summary, evidence=evidence, by="watch", after_ns=after_ns)
    highest = max(known.epoch, known.highest)
    top.epochs[topic, partition] = Epoch(epoch, at_ns=scope.state.now_ns, highest=highest)
    return True


def epoch_read(scope: Scope, topic: str, partition: int, epoch: int) -> bool:
    """Take the leader epoch of a record; return whether it is a new leader's.

    Records that were appended before the epoch went back bear higher epochs, and prove nothing.
    """
    known = scope.state.topology.epochs.get((topic, partition))
    if known is None or epoch <= max(known.epoch, known.highest):
        return False
    known.epoch, known.lower, known.at_ns = epoch, 0, scope.state.now_ns
    return True


def is_former(scope: Scope, topic: str, partition: int, epoch: int) -> bool:
    """Whether a higher leader epoch than this one was seen, or another leader, whose epoch is not known yet."""
    known = scope.state.topology.epochs.get((topic, partition))
    if known is None:
        return False
    return epoch < max(known.epoch, known.highest) or (epoch == known.epoch and known.former)


def is_latest(scope: Scope, topic: str, partition: int, epoch: int) -> bool:
    """Whether no higher leader epoch than this one was seen."""
    known = scope.state.topology.epochs.get((topic, partition))
    return known is None or epoch >= max(known.epoch, known.highest)


def is_in_question(scope: Scope, topic: str) -> bool:
    """Whether brokers give two ids of a watched topic: the one may come with an answer about the other one's log."""
    known = scope.state.topology.topics.get(topic)
    return known is not None and bool(known.others)


def was_recreated(scope: Scope, topic: str) -> bool:
    """Whether a topic of this name was deleted and made again: a leader that was cut off may still hold that one."""
    known = scope.state.topology.topics.get(topic)
    return known is not None and bool(known.dead_ids)


def _epoch_over(scope: Scope, key: tuple[str, int], place: Place, at_ns: int) -> None:
    """Another leader has another epoch: the next one in an answer, unless that came just before the leader did."""
    known = scope.state.topology.epochs.get(key)
    if known is not None and place.leader != UNKNOWN_LEADER:
        known.former = at_ns - known.at_ns > _EPOCH_FIRST_NS
    place.epoch = place.start = None


def epoch_begun(scope: Scope, key: tuple[str, int]) -> None:
    """Place the epoch of a log whose epochs are watched at its leader, once that is seen to lead."""
    top = scope.state.topology
    lineage, seen = top.lineages.get(key), top.topics.get(key[0])
    place = seen.partitions.get(key[1]) if seen is not None else None
    if lineage is None or place is None or place.leader < 0 or place.leader != lineage.leader:
        return
    known = top.epochs.get(key)
    if known is not None and lineage.epoch < known.epoch:
        return
    if known is not None and lineage.epoch == known.epoch:
        known.former = False
    if epoch_listed(scope, *key, lineage.epoch) and (place.epoch, place.start) == (lineage.epoch, None):
        place.start = lineage.start
        scope.found.changes.append(_change(*key, place, scope.state.now_ns))


def _place_epoch(scope: Scope, topic: str, partition: int, epoch: int) -> None:
    seen = scope.state.topology.topics.get(topic)
    place = seen.partitions.get(partition) if seen is not None else None
    if place is None or place.leader < 0 or place.epoch == epoch:
        return
    place.epoch, place.start = epoch, None
    elections.epoch_placed(scope, (topic, partition), place.leader)
    scope.found.changes.append(_change(topic, partition, place, scope.state.now_ns))


def everything(top: Topology) -> Iterator[TopologyChange]:
    """Yield the present topology as changes, each since when it holds: what a store should know of it."""
    for name, known in top.topics.items():
        for partition, place in known.partitions.items():
            if place.leader != UNKNOWN_LEADER:
                yield _change(name, partition, place)
    for number, broker in top.brokers.items():
        yield _broker_change(broker.since_ns, number, broker)


def _refilling(scope: Scope) -> None:
    """Note a broker that has been back for a while without a replica in sync, and when it has one again."""
    top = scope.state.topology
    for number, broker in top.brokers.items():
        back, now = broker.returned_watched_ns, top.watched_ns.get("probe", 0)
        if back is None or now - back < _REFILL_NS:
            continue
        hosted = [place for k in top.topics.values() for place in k.partitions.values() if number in place.replicas]
        empty = bool(hosted) and not any(number in place.isr for place in hosted)
        if empty and broker.refilling:
            continue
        if empty:
            broker.refilling = len(hosted)
            told = {"replicas": len(hosted), "away_s": round(broker.away_ns / 1e9)}
            _event(scope, {"event": "broker-refilling", "broker": number, **told})
        else:
            broker.returned_watched_ns = None
            if not broker.refilling:
                continue
            broker.refilling = 0
            _event(scope, {"event": "broker-refilled", "broker": number, "took_s": round((now - back) / 1e9)})
        broker.since_ns = scope.state.now_ns
        scope.found.changes.append(_broker_change(broker.since_ns, number, broker))


def _event(scope: Scope, event: dict[str, Any]) -> None:
    events = scope.state.topology.events
    events.append({"at_ns": scope.state.now_ns, **event})
    del events[:-_EVENTS_KEPT]


def _change(topic: str, partition: int, place: Place, at_ns: int | None = None) -> TopologyChange:
    since_ns = place.at_ns if at_ns is None else at_ns
    replicas, isr = (",".join(map(str, ids)) for ids in (place.replicas, place.isr))
    start = "" if place.start is None else str(place.start)
    return TopologyChange(since_ns, "partition", topic, partition, place.leader, replicas, isr, start, place.epoch)


def _broker_change(at_ns: int, number: int, broker: Broker) -> TopologyChange:
    detail = f"{broker.host or 'somewhere'}{f' rack {broker.rack}' if broker.rack else ''}" if broker.live else ""
    if broker.refilling:
        detail += f", none of its {broker.refilling} replicas in sync"
    return TopologyChange(at_ns, "broker", "", number, detail=detail)


def broker_ids(text: str) -> list[int]:
    """Return the ids of a fact, which has them as "1,2,3", "" for none."""
    return [int(number) for number in text.split(",") if number]
