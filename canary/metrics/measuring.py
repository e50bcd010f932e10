"""The state of the online engine as measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online.cluster import ISOLATIONS
from canary.anomalies.online.scrubbing import ratio
from canary.anomalies.online.state import Meters
from canary.anomalies.online.view import stalled, suspects, unseen
from canary.metrics.catalogue import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canary.anomalies.online.state import Histogram, Log, State, Topic

NO_LEADER = "none"
"""The label ``leader`` where nobody leads, as far as known."""


def measurements(state: State) -> list[Measurement]:
    """Return every series of the runner, without the cluster's name."""
    found: list[Measurement] = []
    for place in dict.fromkeys([*state.meters, *_probed(state)]):
        probed = state.probed.get(place[0])
        modes, consumers = (probed.modes, ISOLATIONS) if probed is not None else ((), ())
        found.extend(_counters(state.meters.get(place) or Meters(), *place, modes, consumers))
    for topic in state.topics.values():
        for log in topic.logs.values():
            found.extend(_gauges(state, topic, log))
    found.extend(
        Measurement("canary_transaction_latency_seconds", (mode,), h.sum, tuple(h.counts))
        for mode, h in state.commit_latency.items()
    )
    found.extend(_topology(state))
    leaders = {log.leader for topic in state.topics.values() for log in topic.logs.values()}
    if state.brokers:
        without = {b for b in state.brokers if b not in leaders}.union(*state.unprobed.values())
        found.append(Measurement("canary_brokers_without_probe", (), len(without)))
    found.extend(Measurement("canary_suspects", (kind,), n) for kind, n in suspects(state).items())
    return found


def _topology(state: State) -> Iterator[Measurement]:
    """Elections and regressions: of probed partitions from the start, at 0; of others once there was one."""
    top = state.topology
    probed = [(topic.name, number) for topic in state.topics.values() for number in topic.logs]
    for topic, number in dict.fromkeys([*probed, *top.unclean]):
        count = top.unclean.get((topic, number), 0)
        yield Measurement("canary_unclean_elections_total", (topic, str(number)), count)
    for (topic, number), count in top.regressions.items():
        yield Measurement("canary_offset_regressions_total", (topic, str(number)), count)


def _probed(state: State) -> Iterator[tuple[str, int]]:
    """Yield the places that are to be probed: as they are set until the topic is known."""
    for name, probed in state.probed.items():
        topic = state.topics.get(name)
        for partition in topic.logs if topic is not None and topic.logs else probed.partitions:
            yield name, partition


def _counters(
    meters: Meters, topic: str, number: int, modes: Iterable[str], consumers: Iterable[str]
) -> Iterator[Measurement]:
    """Yield what was counted in a partition; of modes and consumers that are to be there from the start, at 0."""
    partition = str(number)
    for name, values in (
        ("canary_probes_sent_total", meters.sent),
        ("canary_probes_acked_total", meters.acked),
        ("canary_probes_failed_total", meters.failed),
        ("canary_probes_indeterminate_total", meters.indeterminate),
        ("canary_probes_seen_total", meters.seen),
        ("canary_foreign_records_total", meters.foreign),
        ("canary_unverified_expired_total", meters.unverified),
    ):
        for label, value in values.items():
            yield Measurement(name, (topic, partition, label), value)
    for consumer in consumers:
        if consumer not in meters.seen:
            yield Measurement("canary_probes_seen_total", (topic, partition, consumer), 0)
    for mode in dict.fromkeys([*meters.sent, *modes]):  # every outcome exists from the start, at 0
        for name, values in (
            ("canary_probes_sent_total", meters.sent),
            ("canary_probes_acked_total", meters.acked),
            ("canary_probes_failed_total", meters.failed),
            ("canary_probes_indeterminate_total", meters.indeterminate),
            ("canary_unverified_expired_total", meters.unverified),
        ):
            if mode not in values:
                yield Measurement(name, (topic, partition, mode), 0)
    yield Measurement("canary_offset_regressions_total", (topic, partition), meters.regressions)
    for name, histograms in (
        ("canary_produce_latency_seconds", meters.produce_latency),
        ("canary_end_to_end_latency_seconds", meters.delivery_latency),
    ):
        for label, histogram in histograms.items():
            yield _histogram(name, (topic, partition, label), histogram)


def _histogram(name: str, labels: tuple[str, ...], histogram: Histogram) -> Measurement:
    return Measurement(name, labels, histogram.sum, tuple(histogram.counts))


def _gauges(state: State, topic: Topic, log: Log) -> Iterator[Measurement]:
    place = (topic.name, str(log.partition))
    leader = NO_LEADER if log.leader is None or log.leader < 0 else str(log.leader)
    waited_ns = state.now_ns - log.tried_ns if log.tried_ns else 0
    yield Measurement("canary_unacknowledged_seconds", (*place, leader), max(waited_ns, 0) / 1e9)
    yield Measurement("canary_log_start_offset", place, log.start)
    if log.end is not None:
        yield Measurement("canary_log_end_offset", place, log.end)
    if log.epoch is not None:
        yield Measurement("canary_leader_epoch", place, log.epoch)
    if log.leader is not None:
        yield Measurement("canary_partition_isr", place, len(log.isr))
        under = topic.min_insync_replicas is not None and len(log.isr) < topic.min_insync_replicas
        yield Measurement("canary_partition_under_min_isr", place, int(under))
    if log.scrub_began_ns:
        yield Measurement("canary_scrub_position_ratio", place, ratio(log))
        age_ns = state.now_ns - (log.scrubbed_ns or log.scrub_began_ns)
        yield Measurement("canary_scrub_age_seconds", place, max(age_ns, 0) / 1e9)
    for name, reader in log.readers.items():
        count, oldest = unseen(state, topic, log, name)
        yield Measurement("canary_consumer_position", (*place, name), reader.position)
        yield Measurement("canary_unseen_probes", (*place, name), count)
        yield Measurement("canary_unseen_oldest_seconds", (*place, name), oldest)
        yield Measurement("canary_consumer_stalled", (*place, name), int(stalled(state, log, reader)))
