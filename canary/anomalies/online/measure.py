"""What the state looks like from outside: measurements for /metrics, and the view for pages and API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.metrics.catalogue import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.anomalies.online.state import Histogram, Log, Meters, Reader, State, Stream, Topic

STALLED_NS = 10 * 10**9
"""A consumer that has something to read and reads nothing for so long is stalled."""


def measurements(state: State) -> list[Measurement]:
    """Return every series of the runner, without the cluster's name."""
    found: list[Measurement] = []
    for (name, partition), meters in state.meters.items():
        found.extend(_counters(meters, name, str(partition)))
    for topic in state.topics.values():
        for log in topic.logs.values():
            found.extend(_gauges(state, topic, log))
    found.extend(
        Measurement("canary_transaction_latency_seconds", (mode,), h.sum, tuple(h.counts))
        for mode, h in state.commit_latency.items()
    )
    leaders = {log.leader for topic in state.topics.values() for log in topic.logs.values()}
    if state.brokers:
        found.append(Measurement("canary_brokers_without_probe", (), sum(b not in leaders for b in state.brokers)))
    found.extend(Measurement("canary_suspects", (kind,), n) for kind, n in suspects(state).items())
    return found


def suspects(state: State) -> dict[str, int]:
    """Return kind to how many suspicions wait for confirmation."""
    counts: dict[str, int] = {"lost-write": 0}
    for topic in state.topics.values():
        for log in topic.logs.values():
            counts["lost-write"] += sum(m.count for m in log.missing) + len(log.unplaced)
            for held in log.held.values():
                counts[held.violation.kind] = counts.get(held.violation.kind, 0) + 1
    return counts


def _counters(meters: Meters, topic: str, partition: str) -> Iterator[Measurement]:
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
    for mode in meters.sent:  # every outcome exists from the start, at 0
        for name, values in (
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
    yield Measurement("canary_log_start_offset", place, log.start)
    if log.end is not None:
        yield Measurement("canary_log_end_offset", place, log.end)
    if log.epoch is not None:
        yield Measurement("canary_leader_epoch", place, log.epoch)
    if log.leader is not None:
        yield Measurement("canary_partition_isr", place, len(log.isr))
        under = topic.min_insync_replicas is not None and len(log.isr) < topic.min_insync_replicas
        yield Measurement("canary_partition_under_min_isr", place, int(under))
    for name, reader in log.readers.items():
        count, oldest = unseen(state, topic, log, name)
        yield Measurement("canary_consumer_position", (*place, name), reader.position)
        yield Measurement("canary_unseen_probes", (*place, name), count)
        yield Measurement("canary_unseen_oldest_seconds", (*place, name), oldest)
        yield Measurement("canary_consumer_stalled", (*place, name), int(stalled(state, log, reader)))


def stalled(state: State, log: Log, reader: Reader) -> bool:
    """Say whether the reader has had something to read for long, and read nothing."""
    goal = log.stable if reader.isolation == "read_committed" and log.stable is not None else log.end
    return goal is not None and reader.position < goal and state.now_ns - reader.moved_at_ns > STALLED_NS


def unseen(state: State, topic: Topic, log: Log, consumer: str) -> tuple[int, float]:
    """Return how many promises the consumer has not been given yet, and the age of the oldest in seconds."""
    count, oldest_ns = 0, state.now_ns
    for stream in _streams(topic, log):
        waiting = stream.unseen.get(consumer)
        if not waiting:
            continue
        count += waiting.total
        first = waiting.first()
        if first is not None:
            oldest_ns = min(oldest_ns, _sent_at(stream, first, state.now_ns))
    return count, max(state.now_ns - oldest_ns, 0) / 1e9 if count else 0.0


def _sent_at(stream: Stream, sequence: int, default: int) -> int:
    from canary.anomalies.online.scope import sent_time  # noqa: PLC0415  # for one function

    at_ns = sent_time(stream, sequence)
    return default if at_ns is None else at_ns


def _streams(topic: Topic, log: Log) -> Iterator[Stream]:
    return (stream for stream in topic.streams if stream.partition == log.partition)


def view(state: State) -> dict[str, Any]:
    """Return the state as pages and API show it: JSON values (the shape is in CONTRACTS' partitions and summary)."""
    partitions: list[dict[str, Any]] = []
    for topic in state.topics.values():
        for log in sorted(topic.logs.values(), key=lambda x: x.partition):
            meters = state.meters.get((topic.name, log.partition))
            consumers = {}
            for name, reader in log.readers.items():
                count, oldest = unseen(state, topic, log, name)
                consumers[name] = {
                    "isolation": reader.isolation,
                    "position": reader.position,
                    "seen": meters.seen.get(name, 0) if meters else 0,
                    "unseen": count,
                    "oldest_unseen_s": round(oldest, 3),
                    "stalled": stalled(state, log, reader),
                }
            partitions.append(
                {
                    "topic": topic.name,
                    "topic_id": topic.topic_id,
                    "partition": log.partition,
                    "fresh": log.listed_ordinal > 0,
                    "rereading": bool(log.rereads or log.wanted),
                    "leader": log.leader,
                    "leader_epoch": log.epoch,
                    "isr": log.isr,
                    "replicas": log.replicas,
                    "start": log.start,
                    "end": log.end,
                    "stable": log.stable,
                    "sent": sum(meters.sent.values()) if meters else 0,
                    "acked": sum(meters.acked.values()) if meters else 0,
                    "failed": sum(meters.failed.values()) if meters else 0,
                    "indeterminate": sum(meters.indeterminate.values()) if meters else 0,
                    "consumers": consumers,
                }
            )
    return {
        "version": 1,
        "cluster_id": state.cluster_id,
        "since_ns": state.since_ns,
        "now_ns": state.now_ns,
        "brokers": state.brokers,
        "topics": [
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "known": topic.known,
                "fresh": topic.fresh,
                "partitions": topic.partitions,
                "incarnations": len(topic.dead_ids) + 1,
                "promises": topic.promises,
                "gone_since_ns": topic.gone_since_ns,
                "modes": sorted({stream.mode for stream in topic.streams}),
            }
            for topic in state.topics.values()
        ],
        "partitions": partitions,
        "waiting_for": state.stopped or state.watch_error,
        "suspects": sum(suspects(state).values()),
    }
