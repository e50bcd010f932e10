"""The state of the online engine as a runner publishes it: what its pages show, and every series that it measures."""

from collections.abc import Iterable, Iterator

from canary.anomalies.online.gauges import stalled, suspects, unseen
from canary.anomalies.online.log import ISOLATIONS, Log
from canary.anomalies.online.losses.scrub import ratio
from canary.anomalies.online.meters import Histogram, Meters
from canary.anomalies.online.state import State, Topic
from canary.metrics.catalogue import Measurement
from canary.metrics.published import ConsumerView, PartitionView, Published, TopicView

NO_LEADER = "none"
"""The label ``leader`` of a partition without a known leader."""


def measured(state: State) -> Published:
    """Return the state as it is published, with every series of the runner."""
    partitions: list[PartitionView] = []
    series: list[Measurement] = [*_counters_of_all(state)]
    for topic in state.topics.values():
        for _, log in sorted(topic.logs.items()):
            one = _partition(state, topic, log)
            partitions.append(one)
            series.extend(_gauges(state, topic, log, one))
    series.extend(
        _histogram("canary_transaction_latency_seconds", (mode,), one) for mode, one in state.commit_latency.items()
    )
    series.extend(_topology(state))
    if state.brokers:
        leaders = {one.leader for one in partitions}
        without = {broker for broker in state.brokers if broker not in leaders}.union(*state.unprobed.values())
        series.append(Measurement("canary_brokers_without_probe", (), len(without)))
    suspicions = suspects(state)
    series.extend(Measurement("canary_suspects", (kind,), count) for kind, count in suspicions.items())
    return Published(
        cluster_id=state.cluster_id,
        since_ns=state.since_ns,
        now_ns=state.now_ns,
        ordinal=state.ordinal,
        brokers=tuple(state.brokers),
        topics=tuple(map(_topic, state.topics.values())),
        partitions=tuple(partitions),
        stopped=state.stopped,
        waiting_for=state.stopped or state.watch_error,
        suspects=sum(suspicions.values()),
        measurements=tuple(series),
    )


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
        modes=tuple(sorted({stream.mode for stream in topic.streams})),
    )


def _partition(state: State, topic: Topic, log: Log) -> PartitionView:
    meters = state.meters.get((topic.name, log.partition)) or Meters()
    consumers = {}
    for name, reader in log.readers.items():
        count, oldest_s = unseen(state, topic, log, name)
        consumers[name] = ConsumerView(
            isolation=reader.isolation,
            position=reader.position,
            seen=meters.seen.get(name, 0),
            unseen=count,
            oldest_unseen_s=round(oldest_s, 3),
            stalled=stalled(state, log, reader),
        )
    return PartitionView(
        topic=topic.name,
        partition=log.partition,
        topic_id=topic.topic_id,
        fresh=log.listed_ordinal > 0,
        scrubbed_ns=log.scrubbed_ns,
        rereading=bool(log.rereads or log.wanted),
        leader=log.leader,
        leader_epoch=log.epoch,
        isr=tuple(log.isr),
        replicas=tuple(log.replicas),
        start=log.start,
        end=log.end,
        stable=log.stable,
        sent=sum(meters.sent.values()),
        acked=sum(meters.acked.values()),
        failed=sum(meters.failed.values()),
        indeterminate=sum(meters.indeterminate.values()),
        consumers=consumers,
    )


def _topology(state: State) -> Iterator[Measurement]:
    """Elections and regressions: of probed partitions from the start, at 0; of others once there was one."""
    top = state.topology
    probed = [(topic.name, number) for topic in state.topics.values() for number in topic.logs]
    for topic, number in dict.fromkeys([*probed, *top.unclean]):
        count = top.unclean.get((topic, number), 0)
        yield Measurement("canary_unclean_elections_total", (topic, str(number)), count)
    for (topic, number), count in top.regressions.items():
        yield Measurement("canary_offset_regressions_total", (topic, str(number)), count)


def _counters_of_all(state: State) -> Iterator[Measurement]:
    for place in dict.fromkeys([*state.meters, *_probed(state)]):
        probed = state.probed.get(place[0])
        modes, consumers = (probed.modes, ISOLATIONS) if probed is not None else ((), ())
        yield from _counters(state.meters.get(place) or Meters(), *place, modes, consumers)


def _probed(state: State) -> Iterator[tuple[str, int]]:
    """Yield the partitions that are to be probed: those of the settings until the topic is known."""
    for name, probed in state.probed.items():
        topic = state.topics.get(name)
        for partition in topic.logs if topic is not None and topic.logs else probed.partitions:
            yield name, partition


def _counters(
    meters: Meters, topic: str, number: int, modes: Iterable[str], consumers: Iterable[str]
) -> Iterator[Measurement]:
    """Yield what was counted in a partition; those of ``modes`` and ``consumers`` exist from the start, at 0."""
    place = (topic, str(number))
    modes, consumers = dict.fromkeys([*meters.sent, *modes]), tuple(consumers)
    for name, values, labels in (
        ("canary_probes_sent_total", meters.sent, modes),
        ("canary_probes_acked_total", meters.acked, modes),
        ("canary_probes_failed_total", meters.failed, modes),
        ("canary_probes_indeterminate_total", meters.indeterminate, modes),
        ("canary_probes_skipped_total", meters.skipped, modes),
        ("canary_unverified_expired_total", meters.unverified, modes),
        ("canary_probes_seen_total", meters.seen, consumers),
        ("canary_foreign_records_total", meters.foreign, ()),
    ):
        for label, value in (dict.fromkeys(labels, 0) | values).items():
            yield Measurement(name, (*place, label), value)
    yield Measurement("canary_offset_regressions_total", place, meters.regressions)
    for name, histograms in (
        ("canary_produce_latency_seconds", meters.produce_latency),
        ("canary_end_to_end_latency_seconds", meters.delivery_latency),
    ):
        for label, histogram in histograms.items():
            yield _histogram(name, (*place, label), histogram)


def _histogram(name: str, labels: tuple[str, ...], histogram: Histogram) -> Measurement:
    return Measurement(name, labels, histogram.sum, tuple(histogram.counts))


def _gauges(state: State, topic: Topic, log: Log, one: PartitionView) -> Iterator[Measurement]:
    place = (one.topic, str(one.partition))
    leader = NO_LEADER if one.leader is None or one.leader < 0 else str(one.leader)
    waited_ns = state.now_ns - log.tried_ns if log.tried_ns else 0
    yield Measurement("canary_unacknowledged_seconds", (*place, leader), max(waited_ns, 0) / 1e9)
    yield Measurement("canary_log_start_offset", place, one.start)
    if one.end is not None:
        yield Measurement("canary_log_end_offset", place, one.end)
    if one.leader_epoch is not None:
        yield Measurement("canary_leader_epoch", place, one.leader_epoch)
    if one.leader is not None:
        yield Measurement("canary_partition_isr", place, len(one.isr))
        under = topic.min_insync_replicas is not None and len(one.isr) < topic.min_insync_replicas
        yield Measurement("canary_partition_under_min_isr", place, int(under))
    if log.scrub_began_ns:
        yield Measurement("canary_scrub_position_ratio", place, ratio(log))
        age_ns = state.now_ns - (log.scrubbed_ns or log.scrub_began_ns)
        yield Measurement("canary_scrub_age_seconds", place, max(age_ns, 0) / 1e9)
    for name, consumer in one.consumers.items():
        yield Measurement("canary_consumer_position", (*place, name), consumer.position)
        yield Measurement("canary_unseen_probes", (*place, name), consumer.unseen)
        yield Measurement("canary_unseen_oldest_seconds", (*place, name), consumer.oldest_unseen_s)
        yield Measurement("canary_consumer_stalled", (*place, name), int(consumer.stalled))
