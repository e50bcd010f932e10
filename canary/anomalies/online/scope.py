"""What a rule has at hand while it folds one stretch of facts: the state, and where to put what it finds."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from canary.anomalies import policy
from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.runs import RunMap
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
    from collections.abc import Callable

    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import Records
    from canary.probe.identity import Identity

TRANSACTIONAL = frozenset({"transactional", "relay", "fencing"})
"""Modes whose writes promise nothing until their transaction committed."""
REREAD_PREFIX = "reread-"
NEIGHBOURS = 5
"""Claims shown on either side of a disputed offset."""
_KINDS_AT_ONCE = 4
"""So many kinds may be held of the same record, one after the other."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is wrong with a run of records: each of them alone, or all of them together.

    ``words`` returns the summary of a single record (as a run) and the evidence; ``plural`` is the summary of several,
    which names no offset. ``severity`` None: the policy's.
    """

    kind: str
    mode: str | None
    words: Callable[[Records], tuple[str, dict[str, Any]]]
    plural: str
    severity: str | None = None

    def like(self, violation: Violation) -> bool:
        """Say whether a violation is of the same sort, so that both may be one."""
        severity = self.severity or policy.severity(self.kind, self.mode)
        return (violation.kind, violation.mode, violation.severity) == (self.kind, self.mode, severity)


class Scope:
    """State and findings of one stretch of facts."""

    __slots__ = (
        "changes",
        "ended",
        "judged",
        "renewed",
        "rereads",
        "state",
        "stopped",
        "unknown_producers",
        "violations",
    )

    def __init__(self, state: State) -> None:
        """Begin a stretch on ``state``."""
        self.state = state
        self.violations: list[Violation] = []
        self.rereads: list[RereadRequest] = []
        self.renewed: list[str] = []
        self.unknown_producers: set[int] = set()
        self.ended: list[Violation] = []
        self.changes: list[TopologyChange] = []
        self.stopped: str | None = None
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
            severity=severity or policy.severity(kind, mode),  # type: ignore[arg-type]  # plain values within the engine
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

    def emit_run(self, topic: Topic, log: Log, run: Records, found: Found) -> None:
        """Say now what is wrong with a run of records: with what was said last, if it goes on from there."""
        last = self.violations[-1] if self.violations else None
        more = None
        if last is not None and (last.topic, last.topic_id) == (topic.name, topic.topic_id or ""):
            more = last.joined(run) if last.partition == log.partition and found.like(last) else None
        if more is None:
            self.emit(self._violation_of(topic, log, run, found))
        else:
            self.violations[-1] = replace(more, summary=found.plural)

    def hold_run(
        self, topic: Topic, log: Log, run: Records, tag: int, found: Found, *, check: str = "", first: int = -1
    ) -> bool:
        """Hold what is wrong with a run of records of stream ``tag`` (-1: of none); False if all of it waits already.

        What goes on where the last ones held end is held with them, if nothing was asked in between: they wait for the
        same samples. ``first`` is the offset of the first record's first copy.
        """
        assert run.offset is not None  # noqa: S101  # for the type checker
        value = run.offset if run.identity is None else run.identity.sequence
        held_at = log.held_at.setdefault(found.kind, RunMap())
        waiting = IntervalSet()
        for known in held_at.within(run.offset, run.offset + run.size):
            if known.tag == tag and known.value - known.key == value - run.offset:
                waiting.add(known.key, known.key + known.length)
        rest = waiting.without(run.offset, run.offset + run.size)
        for a, b in rest:
            skip = a - run.offset
            part = run.part(skip, b - a)
            held_at.set(a, b - a, value + skip, tag)
            at = first + skip if first >= 0 else -1
            if not self._hold_with_last(log, part, tag, found, check, at):
                who = part.identity
                key = f"{found.kind} {a} {who and tuple(who)}"
                held = Held(self._violation_of(topic, log, part, found), self.state.ordinal, check=check, first=at)
                held.tag, held.sequence = tag, who.sequence if who is not None else -1
                log.held[key if key not in log.held else f"{key} {self.state.ordinal}"] = held
        return bool(rest)

    def _hold_with_last(self, log: Log, part: Records, tag: int, found: Found, check: str, first: int) -> bool:
        for held in itertools.islice(reversed(log.held.values()), _KINDS_AT_ONCE):
            if held.check != check or not found.like(held.violation):
                continue
            asked = max((ask.ordinal for ask in self.state.asks.values()), default=0)
            more = held.violation.joined(part) if held.ordinal >= asked and not held.samples else None
            if more is None or (check not in {"", "retained"} and not _goes_on(held, more, tag, first)):
                continue
            held.violation = replace(more, summary=found.plural)
            return True
        return False

    def _violation_of(self, topic: Topic, log: Log, run: Records, found: Found) -> Violation:
        summary, evidence = found.words(run)
        return self.violation(
            found.kind,
            topic,
            log.partition,
            run.offset,
            run.identity,
            found.plural if run.size > 1 else summary,
            mode=found.mode,
            severity=found.severity,
            evidence=evidence,
        ).about([run])

    def told(self) -> list[Violation]:
        """Return what is said of this stretch; of ranges with what is known around their last records, too."""
        return [self._with_last(violation) if violation.records else violation for violation in self.violations]

    def _with_last(self, violation: Violation) -> Violation:
        topic = self.state.topics.get(violation.topic)
        log = topic.logs.get(violation.partition) if topic is not None and violation.partition is not None else None
        if topic is None or log is None or (topic.topic_id or "") != violation.topic_id:
            return violation
        return replace(
            violation,
            evidence={**violation.evidence, "last_neighbourhood": _neighbourhood(topic, log, violation.last_offset)},
        )

    def hold(self, log: Log, violation: Violation, **more: Any) -> bool:
        """Say it once two samples, asked from now on, told the same topic id; False if it waits already."""
        key = f"{violation.kind} {violation.offset} {violation.identity and tuple(violation.identity)}"
        if key in log.held:
            return False
        log.held[key] = Held(violation, self.state.ordinal, **more)
        return True

    def surroundings(self, topic: Topic, log: Log, offset: int | None) -> dict[str, Any]:
        """Return what is known of a partition, and of the neighbourhood of ``offset``, in JSON values."""
        return {
            "leader": log.leader,
            "leader_epoch": log.epoch,
            "isr": list(log.isr),
            "replicas": list(log.replicas),
            "log_start": log.start,
            "log_end": log.end,
            "known_end": log.known_end,
            "positions": {name: reader.position for name, reader in log.readers.items()},
            "neighbourhood": _neighbourhood(topic, log, offset),
            "changes": list(log.changes),
        }


def always(summary: str, evidence: dict[str, Any]) -> Callable[[Records], tuple[str, dict[str, Any]]]:
    """Return the words of what is said alike of every record."""
    return lambda _: (summary, evidence)


def _neighbourhood(topic: Topic, log: Log, offset: int | None) -> list[dict[str, Any]]:
    """Return who is known to be around ``offset``."""
    if offset is None:
        return []
    around: list[dict[str, Any]] = []
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
    return around


def _goes_on(held: Held, more: Violation, tag: int, first: int) -> bool:
    """Say whether these are consecutive probes at consecutive offsets, and their first copies, too."""
    consecutive = first < 0 or held.first + held.violation.count == first
    return held.tag == tag and len(more.runs) == 1 and consecutive


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
