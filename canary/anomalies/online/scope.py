"""What a rule has at hand while it folds one stretch of facts: the state, and where to put what it finds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.online.state import (
    LATENCY_BUCKETS,
    Held,
    Histogram,
    Log,
    Meters,
    State,
    Stream,
    Topic,
    Transaction,
)
from canary.anomalies.online.topology_found import errors_around, events_around
from canary.anomalies.violation import RereadRequest, Violation

if TYPE_CHECKING:
    from canary.anomalies.topology_change import TopologyChange
    from canary.probe.identity import Identity

TRANSACTIONAL = frozenset({"transactional", "relay", "fencing"})
"""Modes whose writes promise nothing until their transaction committed."""
UNORDERED = frozenset({"plain"})
"""Modes with acks=1 and without idempotence: duplicates, reordering and losses are what these settings cost (warning,
not critical), and an acknowledgement is the leader's alone: it may come before any replica, or any consumer, has it."""
REREAD_PREFIX = "reread-"
NEIGHBOURS = 5
"""Claims shown on either side of a disputed offset."""


class Scope:
    """State and findings of one stretch of facts."""

    __slots__ = ("changes", "ended", "judged", "renewed", "rereads", "state", "unknown_producers", "violations")

    def __init__(self, state: State) -> None:
        """Begin a stretch on ``state``."""
        self.state = state
        self.violations: list[Violation] = []
        self.rereads: list[RereadRequest] = []
        self.renewed: list[str] = []
        self.unknown_producers: set[int] = set()
        self.ended: list[Violation] = []
        self.changes: list[TopologyChange] = []
        self.judged = 0  # of the violations so many were looked at as evidence of unclean elections

    # what is where

    def topic(self, name: str) -> Topic:
        """Return the topic, made when it is new."""
        topic = self.state.topics.get(name)
        if topic is None:
            topic = self.state.topics[name] = Topic(name)
        return topic

    def log(self, topic: Topic, partition: int) -> Log:
        """Return the partition's log, made when it is new."""
        log = topic.logs.get(partition)
        if log is None:
            log = topic.logs[partition] = Log(partition)
        return log

    def meters(self, topic: str, partition: int) -> Meters:
        """Return the counters of a partition, made when it is new."""
        meters = self.state.meters.get((topic, partition))
        if meters is None:
            meters = self.state.meters[topic, partition] = Meters()
        return meters

    def stream(self, topic: Topic, producer_id: int, generation: int, partition: int) -> Stream | None:
        """Return the stream, None when nothing was ever sent by it in this incarnation."""
        tag = topic.index.get((producer_id, generation, partition))
        return None if tag is None else topic.streams[tag]

    def mode(self, producer_id: int) -> str:
        """Return the mode of one of our producers, "?" when it is not ours."""
        producer = self.state.producers.get(producer_id)
        return producer.mode if producer else "?"

    def transaction(self, producer_id: int, generation: int, transaction_id: int) -> Transaction | None:
        """Return a transaction that is not settled yet."""
        return self.state.transactions.get((producer_id, generation, transaction_id))

    # what is found

    def violation(
        self,
        kind: str,
        topic: Topic,
        partition: int | None,
        offset: int | None,
        identity: Identity | None,
        summary: str,
        *,
        mode: str | None = None,
        severity: str | None = None,
        evidence: dict[str, Any] | None = None,
        by: str = "online",
    ) -> Violation:
        """Return a violation of this moment, with what is known around its place."""
        evidence = dict(evidence or {})
        log = topic.logs.get(partition) if partition is not None else None
        if log is not None:
            evidence.setdefault("partition_state", self.surroundings(topic, log, offset))
        if errors := errors_around(self.state):
            evidence.setdefault("client_errors", errors)
        evidence.setdefault("cluster_events", events_around(self.state))
        return Violation(
            kind=kind,
            severity=severity or CATALOGUE[kind].severity,  # type: ignore[arg-type]  # plain values within the engine
            topic=topic.name,
            topic_id=topic.topic_id or "",
            partition=partition,
            offset=offset,
            identity=identity,
            mode=mode,
            at_ns=self.state.now_ns,
            by=by,  # type: ignore[arg-type]
            summary=summary,
            evidence=evidence,
        )

    def emit(self, violation: Violation) -> None:
        """Say it now."""
        self.violations.append(violation)

    def hold(self, log: Log, violation: Violation, **more: Any) -> bool:
        """Say it once two samples, asked from now on, told the same topic id; False if it waits already."""
        key = f"{violation.kind} {violation.offset} {violation.identity and tuple(violation.identity)}"
        if key in log.held:
            return False
        log.held[key] = Held(violation, self.state.ordinal, **more)
        return True

    def surroundings(self, topic: Topic, log: Log, offset: int | None) -> dict[str, Any]:
        """Return what is known of a partition, and of the neighbourhood of ``offset``, in JSON values."""
        around: list[dict[str, Any]] = []
        if offset is not None:
            for run in log.claims.within(max(offset - NEIGHBOURS, 0), offset + NEIGHBOURS + 1):
                stream = topic.streams[run.tag]
                around.extend(
                    {
                        "offset": run.key + i,
                        "producer_id": stream.producer_id,
                        "generation": stream.generation,
                        "sequence": run.value + i,
                    }
                    for i in range(run.length)
                )
        return {
            "leader": log.leader,
            "leader_epoch": log.epoch,
            "isr": list(log.isr),
            "replicas": list(log.replicas),
            "log_start": log.start,
            "log_end": log.end,
            "known_end": log.known_end,
            "positions": {name: reader.position for name, reader in log.readers.items()},
            "neighbourhood": around,
            "changes": list(log.changes),
        }


def severity_of(*modes: str) -> str | None:
    """Return "warning" for what happens to modes alone of which it is to be expected; None: the catalogue's."""
    return "warning" if modes and UNORDERED.issuperset(modes) else None


def sent_time(stream: Stream, sequence: int) -> int | None:
    """Return when (ns) ``sequence`` was sent, None when that is not remembered."""
    i = bisect_right(stream.sent_keys, sequence) - 1
    if i < 0 or stream.sent_keys[i] != sequence:
        return None
    return stream.sent_times[i]


def observe(histogram: Histogram, seconds: float) -> None:
    """Count one observation."""
    histogram.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
    histogram.sum += seconds


def is_reread(consumer: str) -> int | None:
    """Return the request id of a re-read's consumer, None for any other."""
    return int(consumer[len(REREAD_PREFIX) :]) if consumer.startswith(REREAD_PREFIX) else None
