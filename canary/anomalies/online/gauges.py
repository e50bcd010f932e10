"""What the state looks like from outside: the view for pages and API (canary.metrics.measuring has the numbers)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.anomalies.online.scope import sent_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.anomalies.online.state import Log, Reader, State, Stream, Topic

STALLED_NS = 10 * 10**9
"""A consumer that has something to read and reads nothing for so long is stalled."""


def suspects(state: State) -> dict[str, int]:
    """Return kind to how many suspicions wait for confirmation."""
    counts: dict[str, int] = {"lost-write": 0}
    for topic in state.topics.values():
        for log in topic.logs.values():
            counts["lost-write"] += sum(m.count for m in log.missing) + len(log.unplaced)
            if log.regression is not None or log.lost_offsets:
                counts["truncation"] = counts.get("truncation", 0) + 1
            for held in log.held.values():
                counts[held.violation.kind] = counts.get(held.violation.kind, 0) + held.violation.count
    return counts


def stalled(state: State, log: Log, reader: Reader) -> bool:
    """Say whether the reader has had something to read for long, and read nothing."""
    goal = log.goal(reader)
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
                    "scrubbed_ns": log.scrubbed_ns,
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
        "ordinal": state.ordinal,
        "brokers": state.brokers,
        "topics": [
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "unmarked": topic.unmarked,
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
        "stopped": state.stopped,
        "waiting_for": state.stopped or state.watch_error,
        "suspects": sum(suspects(state).values()),
    }
