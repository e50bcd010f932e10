"""The state of the online engine as a runner publishes it: what its pages show, and every series that it measures.

It is made once a second, of a thousand partitions too, so what there is of each is measured in columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from canary.anomalies.online.gauges import Waiting, stalled, suspects, unseen, waiting
from canary.anomalies.online.log import ISOLATIONS, Log
from canary.anomalies.online.losses.scrub import ratio
from canary.anomalies.online.meters import Histogram, LeaderMeters, Meters, RandomReads
from canary.anomalies.online.state import Probed, State, Topic
from canary.anomalies.online.topology import watched_incarnations
from canary.metrics.metric import Column, Measurement
from canary.metrics.proofs import Proof, proofs
from canary.metrics.published import Published, Rows, TopicView, Unanswered

NO_LEADER = "none"
"""The label ``leader`` of a partition without a known leader."""
MEMBER = "canary_leader_failures_total"
"""It has a series for each broker of the cluster."""
_NOTHING, _UNLED = Meters(), LeaderMeters()
_OF_MODES = {
    "canary_probes_sent_total": attrgetter("sent"),
    "canary_probes_acked_total": attrgetter("acked"),
    "canary_probes_failed_total": attrgetter("failed"),
    "canary_probes_indeterminate_total": attrgetter("indeterminate"),
    "canary_probes_skipped_total": attrgetter("skipped"),
    "canary_probes_late_total": attrgetter("late"),
    "canary_unverified_expired_total": attrgetter("unverified"),
}
_OF_READERS = {
    "canary_consumer_position": "position",
    "canary_unseen_probes": "unseen",
    "canary_unseen_oldest_seconds": "oldest_unseen_s",
    "canary_consumer_stalled": "stalled",
}
"""The field of ConsumerView that each metric is."""
_OF_LEADERS = {
    "canary_leader_produce_latency_seconds": attrgetter("produce_latency"),
    "canary_leader_end_to_end_latency_seconds": attrgetter("delivery_latency"),
}


def measured(state: State) -> Published:
    """Return the state as it is published, with every series of the runner."""
    logs = [(topic, log) for topic in state.topics.values() for _, log in sorted(topic.logs.items())]
    places = tuple(
        dict.fromkeys([*((topic.name, log.partition) for topic, log in logs), *state.meters, *_probed(state)])
    )
    meters = [state.meters.get(place, _NOTHING) for place in places]
    unread = list(waiting(state))
    partitions = Rows(_partitions(logs, meters), _consumers(state, logs, meters, unread))
    columns = chain(
        _counters(state, places, meters), _gauges(state, logs, partitions.columns), _readers(partitions.consumers)
    )
    suspicions, proven = suspects(state), proofs(state, unread)
    unanswered = tuple(Unanswered(what, since_ns, words) for what, (since_ns, _, words) in state.unanswered.items())
    return Published(
        cluster_id=state.cluster_id,
        since_ns=state.since_ns,
        now_ns=state.now_ns,
        ordinal=state.ordinal,
        brokers=tuple(state.brokers),
        topics=tuple(map(_topic, state.topics.values())),
        partitions=partitions,
        stopped=state.stopped,
        waiting_for=state.stopped or next((f"{one.question}: {one.error}" for one in unanswered), None),
        unanswered=() if state.stopped else unanswered,
        proofs=proven,
        watched_ns=0 if state.stopped else max(state.started[1], *(one.at_ns for one in state.asks.values()), 0),
        suspects=sum(suspicions.values()),
        doubted=tuple(TopicView(**one._asdict()) for one in watched_incarnations.doubted(state)),
        places=places,
        columns=tuple(column for column in columns if any(value is not None for value in column.values)),
        measurements=(
            *_of_cluster(state, partitions.columns["leader"]),
            *(Measurement("canary_suspects", (kind,), count) for kind, count in suspicions.items()),
            *_proven(proven),
        ),
    )


def _proven(found: Iterable[Proof]) -> Iterator[Measurement]:
    for one in (proof for proof in found if proof.partitions):
        labels = one.topic, one.mode
        yield Measurement("canary_mode_silent", labels, one.silent.of if one.silent else 0)
        yield Measurement("canary_mode_verified_until_timestamp_seconds", labels, one.verified_ns / 1e9)


def _topic(topic: Topic) -> TopicView:
    return TopicView(
        topic=topic.name,
        topic_id=topic.topic_id,
        unmarked=topic.unmarked,
        known=topic.known,
        fresh=topic.fresh,
        partitions=topic.partitions,
        incarnations=len(topic.dead_ids) + 1,
        promises=topic.promises,
        gone_since_ns=topic.gone_since_ns,
        other_id=None if topic.other is None else topic.other.topic_id,
        other_since_ns=None if topic.other is None else topic.other.since_ns,
        other_is_former=topic.other is not None and topic.other.topic_id in topic.dead_ids,
        over_ns=topic.over_ns,
        voided=topic.voided,
        modes=tuple(sorted(topic.modes())),
    )


def _partitions(logs: Sequence[tuple[Topic, Log]], meters: Sequence[Meters]) -> dict[str, Sequence[Any]]:
    """Return the columns of the probed partitions; the first of the ``meters`` are theirs."""
    sums = {
        name: [sum(getattr(one, name).values()) for one in meters[: len(logs)]]
        for name in ("sent", "acked", "failed", "indeterminate")
    }
    return {
        "topic": [topic.name for topic, _ in logs],
        "partition": [log.partition for _, log in logs],
        "topic_id": [topic.topic_id for topic, _ in logs],
        "fresh": [log.listed_ordinal > 0 for _, log in logs],
        "scrubbed_ns": [log.scrubbed_ns for _, log in logs],
        "rereading": [bool(log.rereads or log.wanted) for _, log in logs],
        "leader": [log.leader for _, log in logs],
        "leader_epoch": [log.epoch for _, log in logs],
        "isr": [tuple(log.isr) for _, log in logs],
        "replicas": [tuple(log.replicas) for _, log in logs],
        "start": [log.start for _, log in logs],
        "end": [log.end for _, log in logs],
        "stable": [log.stable for _, log in logs],
        **sums,
    }


def _consumers(
    state: State, logs: Sequence[tuple[Topic, Log]], meters: Sequence[Meters], unread: Iterable[Waiting]
) -> dict[str, dict[str, Sequence[Any]]]:
    """Return, by consumer, the columns of how far it is in each log; None in those that it does not read."""
    by_place = unseen(state, unread)
    found: dict[str, dict[str, Sequence[Any]]] = {}
    for name in dict.fromkeys(chain(*(log.readers for _, log in logs))):
        readers = [log.readers.get(name) for _, log in logs]
        late = [by_place.get((topic.name, log.partition, name), (0, 0.0)) for topic, log in logs]
        found[name] = {
            "isolation": [reader and reader.isolation for reader in readers],
            "position": [reader and reader.position for reader in readers],
            "seen": [reader and one.seen.get(name, 0) for reader, one in zip(readers, meters, strict=False)],
            "unseen": [reader and count for reader, (count, _) in zip(readers, late, strict=True)],
            "oldest_unseen_s": [
                reader and (round(oldest_s, 3) if oldest_s else 0.0)
                for reader, (_, oldest_s) in zip(readers, late, strict=True)
            ],
            "stalled": [reader and stalled(state, log, reader) for reader, (_, log) in zip(readers, logs, strict=True)],
        }
    return found


def _of_cluster(state: State, leaders: Iterable[int | None]) -> Iterator[Measurement]:
    """Yield what is measured once, and what is known of partitions that are not probed, from its first time on."""
    for mode, latency in state.commit_latency.items():
        name = "canary_transaction_latency_seconds"
        yield Measurement(name, (mode,), latency.sum, tuple(latency.counts))
    for topic in {**dict.fromkeys(state.probed), **dict.fromkeys(state.random_reads)}:
        reads = state.random_reads.get(topic, RandomReads())
        yield Measurement("canary_random_reads_total", (topic, "answered"), reads.answered)
        yield Measurement("canary_random_reads_total", (topic, "unanswered"), reads.unanswered)
        if reads.answered:
            name = "canary_random_read_latency_seconds"
            yield Measurement(name, (topic,), reads.latency.sum, tuple(reads.latency.counts))
    yield from _of_brokers(state)
    top = state.topology
    for (topic, number), count in top.unclean.items():
        if state.log(topic, number) is None:
            yield Measurement("canary_unclean_elections_total", (topic, str(number)), count)
    for (topic, number), count in top.regressions.items():
        yield Measurement("canary_offset_regressions_total", (topic, str(number)), count)
    if state.brokers:
        without = set(state.brokers).difference(leaders).union(*state.unprobed.values())
        yield Measurement("canary_brokers_without_probe", (), len(without))


def _of_brokers(state: State) -> Iterator[Measurement]:
    for number, broker in sorted(state.topology.members(state.now_ns).items()):
        if broker.host:
            yield Measurement("canary_broker_info", (str(number), broker.rack or "", broker.host), 1)
        meters = state.leaders.get(number, _UNLED)
        yield Measurement(MEMBER, (str(number),), meters.failures)
        for name, of in _OF_LEADERS.items():
            latency = of(meters)
            yield Measurement(name, (str(number),), latency.sum, tuple(latency.counts))


def _probed(state: State) -> Iterator[tuple[str, int]]:
    """Yield the partitions that are to be probed: those of the settings until the topic is known."""
    for name, probed in state.probed.items():
        topic = state.topics.get(name)
        for partition in topic.logs if topic is not None and topic.logs else probed.partitions:
            yield name, partition


def _counters(state: State, places: Sequence[tuple[str, int]], meters: Sequence[Meters]) -> Iterator[Column]:
    """Yield what was counted; of the modes and consumers of topics that are probed from the start, at 0."""
    probed = [state.probed.get(topic) for topic, _ in places]
    modes = dict.fromkeys(chain(*(one.modes for one in state.probed.values()), *(one.sent for one in meters)))
    at_0 = {
        mode: [
            0 if (to_be is not None and mode in to_be.modes) or mode in one.sent else None
            for to_be, one in zip(probed, meters, strict=True)
        ]
        for mode in modes
    }
    for name, of in _OF_MODES.items():
        yield from _counts(name, list(map(of, meters)), at_0)
    everywhere = [0 if to_be is not None else None for to_be in probed]
    at_0, written = dict.fromkeys(ISOLATIONS, everywhere), _written(probed, meters)
    yield from _counts("canary_probes_seen_total", [one.seen for one in meters], at_0, written)
    yield from _counts("canary_foreign_records_total", [one.foreign for one in meters], {})
    yield _column("canary_offset_regressions_total", (one.regressions for one in meters))
    yield from _histograms("canary_produce_latency_seconds", [one.produce_latency for one in meters])
    yield from _histograms("canary_end_to_end_latency_seconds", [one.delivery_latency for one in meters], written)


def _written(probed: Iterable[Probed | None], meters: Iterable[Meters]) -> str | tuple[str, ...]:
    """Return the mode that writes to each partition: there is one for each topic, the last one where none is set."""
    modes = tuple(
        next(iter(to_be.modes), "") if to_be is not None else next(reversed(one.sent), "")
        for to_be, one in zip(probed, meters, strict=True)
    )
    return modes[0] if len(set(modes)) == 1 else modes


def _counts(
    name: str,
    counters: Sequence[Mapping[str, int]],
    at_0: Mapping[str, Sequence[int | None]],
    *more: str | tuple[str, ...],
) -> Iterator[Column]:
    nowhere: Sequence[int | None] = [None] * len(counters)
    for label in dict.fromkeys(chain(at_0, *counters)):
        others = at_0.get(label, nowhere)
        values = [counter.get(label, other) for counter, other in zip(counters, others, strict=True)]
        yield _column(name, values, label, *more)


def _histograms(
    name: str, by_label: Sequence[Mapping[str, Histogram]], *more: str | tuple[str, ...]
) -> Iterator[Column]:
    for label in dict.fromkeys(chain(*by_label)):
        found = [one.get(label) for one in by_label]
        counts = tuple([None if one is None else tuple(one.counts) for one in found])
        yield _column(name, [None if one is None else one.sum for one in found], label, *more, counts=counts)


def _gauges(
    state: State, logs: Sequence[tuple[Topic, Log]], partitions: Mapping[str, Sequence[Any]]
) -> Iterator[Column]:
    now_ns, unclean = state.now_ns, state.topology.unclean
    leaders = tuple([NO_LEADER if leader is None or leader < 0 else str(leader) for leader in partitions["leader"]])
    waited = [max((log.given_up_ns or now_ns) - log.tried_ns, 0) / 1e9 if log.tried_ns else 0.0 for _, log in logs]
    yield _column("canary_unacknowledged_seconds", waited, leaders)
    yield _column("canary_last_acknowledged_timestamp_seconds", (log.acked_ns / 1e9 for _, log in logs))
    yield _column("canary_log_start_offset", partitions["start"])
    yield _column("canary_log_end_offset", partitions["end"])
    yield _column("canary_leader_epoch", partitions["leader_epoch"])
    in_sync = [None if log.leader is None else len(log.isr) for _, log in logs]
    yield _column("canary_partition_isr", in_sync)
    least = [-1 if topic.min_insync_replicas is None else topic.min_insync_replicas for topic, _ in logs]
    under = [None if number is None else int(number < most) for number, most in zip(in_sync, least, strict=True)]
    yield _column("canary_partition_under_min_isr", under)
    scrubbed = [ratio(log) if log.scrub_began_ns else None for _, log in logs]
    yield _column("canary_scrub_position_ratio", scrubbed)
    since = [log.scrub_began_ns and (log.scrubbed_ns or log.scrub_began_ns) for _, log in logs]
    yield _column("canary_scrub_age_seconds", [max(now_ns - ns, 0) / 1e9 if ns else None for ns in since])
    yield _column(
        "canary_unclean_elections_total", [unclean.get((topic.name, log.partition), 0) for topic, log in logs]
    )


def _readers(consumers: Mapping[str, Mapping[str, Sequence[Any]]]) -> Iterator[Column]:
    for name, columns in consumers.items():
        for metric, field in _OF_READERS.items():
            yield _column(metric, columns[field], name)


def _column(
    name: str,
    values: Iterable[float | None],
    *labels: str | tuple[str, ...],
    counts: tuple[tuple[int, ...] | None, ...] = (),
) -> Column:
    return Column(name, labels, tuple(values), counts)
