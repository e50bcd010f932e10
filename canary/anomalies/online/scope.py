"""The scope of one fold: the state, and the findings of the rules."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from canary.anomalies import policy
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Held
from canary.anomalies.online.meters import LeaderMeters, Meters
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.sets.runs import RunMap
from canary.anomalies.online.state import State, Topic, Transaction
from canary.anomalies.online.stream import Stream
from canary.anomalies.online.topology.state import Topology
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Records, RereadRequest, Violation
from canary.facts import TopicSeen
from canary.probe.identity import Identity
from canary.workloads.catalogue import WORKLOADS

TRANSACTIONAL = frozenset(one.name for one in WORKLOADS.values() if one.transactional)
"""Modes whose writes promise nothing until their transaction has committed."""
REREAD_PREFIX = "reread-"
NEIGHBOURS = 5
"""Claims shown on either side of a disputed offset."""
_KINDS_AT_ONCE = 4
"""The last so many held violations may be continued by the next record."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is wrong with a run of records: each of them alone, or all of them together.

    ``words`` returns the summary of a single record (as a run) and the evidence; ``plural`` is the summary of several,
    which names no offset. ``severity`` None: the policy's; ``leader_epoch`` None: that of the log now.
    """

    kind: str
    mode: str | None
    words: Callable[[Records], tuple[str, dict[str, Any]]]
    plural: str
    severity: str | None = None
    leader_epoch: int | None = None

    def like(self, violation: Violation) -> bool:
        """Say whether a violation is of the same sort, so that both may be one."""
        severity = self.severity or policy.severity(self.kind, self.mode)
        mine = self.kind, self.mode, severity
        same_epoch = self.leader_epoch in {None, violation.leader_epoch}
        return same_epoch and (violation.kind, violation.mode, violation.severity) == mine


class Where(NamedTuple):
    """The place of a violation, None where its kind has none; ``topic`` by its name if it may be any topic.

    ``leader_epoch``: in which it happened; None: in that of the log now, or it makes no difference (`Scope.violation`).
    """

    topic: Topic | str
    partition: int | None = None
    offset: int | None = None
    identity: Identity | None = None
    leader_epoch: int | None = None


class Probes(NamedTuple):
    """``n`` consecutive probes of one stream, from ``sequence`` on, at consecutive offsets from ``offset`` on."""

    topic: Topic
    log: Log
    stream: Stream
    sequence: int
    n: int
    offset: int

    @property
    def end(self) -> int:
        """The last sequence plus one."""
        return self.sequence + self.n

    def part(self, a: int, b: int) -> Self:
        """Return those with the sequences [a, b)."""
        return self._replace(sequence=a, n=b - a, offset=self.offset + a - self.sequence)

    @property
    def records(self) -> Records:
        """The same, as the records of a violation."""
        return Records(self.offset, self.n, self.stream.identity(self.sequence))


@dataclass(slots=True)
class Findings:
    """What a stretch of facts led to. Everything in it may come again after a replay: receivers are idempotent."""

    violations: list[Violation] = field(default_factory=list)
    rereads: list[RereadRequest] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    """Topics whose clients must be renewed: another incarnation, or more partitions."""
    agreed: list[TopicSeen] = field(default_factory=list)
    """Topic ids that are more than one answer, to be told as facts: they are for the probe log, too."""
    unknown_producers: list[int] = field(default_factory=list)
    """Producer ids to look up in the store; the answer is a ProducerLooked fact."""
    stopped: str | None = None
    """Why nothing is judged from now on, until a RunnerStarted: every client must be closed, and the cluster asked."""
    ended: list[Violation] = field(default_factory=list)
    """Conditions that ended; one that is also in ``violations`` was reported before it ended."""
    changes: list[TopologyChange] = field(default_factory=list)
    """What changed in the topology of the cluster."""
    urgent: bool = False
    """Whether the next round of questions may settle what is missing or held since a moment ago."""


@dataclass(slots=True)
class Scope:
    """State and findings of one stretch of facts."""

    state: State
    found: Findings = field(default_factory=Findings)
    judged: int = 0
    """So many violations were looked at as evidence of unclean elections."""

    # what is where

    def topic(self, name: str) -> Topic:
        """Return the topic, made when it is new."""
        if (topic := self.state.topics.get(name)) is None:
            topic = self.state.topics[name] = Topic(name)
        return topic

    def log(self, topic: Topic, partition: int) -> Log:
        """Return the partition's log, made when it is new."""
        if (log := topic.logs.get(partition)) is None:
            log = topic.logs[partition] = Log(partition)
        return log

    def place(self, topic: str, partition: int) -> tuple[Topic, Log]:
        """Return the topic and the partition's log, made when they are new."""
        known = self.topic(topic)
        return known, self.log(known, partition)

    def meters(self, topic: str, partition: int) -> Meters:
        """Return the counters of a partition, made when it is new."""
        if (meters := self.state.meters.get((topic, partition))) is None:
            meters = self.state.meters[topic, partition] = Meters()
        return meters

    def led_by(self, log: Log | None) -> LeaderMeters | None:
        """Return the counters of the broker that leads a log, made when it is new; None while that is not known."""
        if log is None or log.leader is None or log.leader < 0:
            return None
        return self.state.leaders.setdefault(log.leader, LeaderMeters())

    def stream(self, topic: Topic, producer_id: int, generation: int, partition: int) -> Stream | None:
        """Return the stream, None when nothing was ever sent by it in this incarnation."""
        return topic.stream(producer_id, generation, partition)

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
        where: Where,
        summary: str,
        *,
        mode: str | None = None,
        severity: str | None = None,
        evidence: dict[str, Any] | None = None,
        by: str = "online",
    ) -> Violation:
        """Return a violation of this moment, with what is known around its place.

        A record of a probed topic was harmed after it was sent; who knows more says so (`Violation.since`).
        """
        evidence = dict(evidence or {})
        named = where.topic if isinstance(where.topic, str) else where.topic.name
        ours = self.state.topics.get(named) if isinstance(where.topic, str) else where.topic
        known = ours or self.state.topology.topics.get(named)
        state = _surroundings(ours, where) if ours is not None else _place(self.state.topology, where)
        if state is not None:
            evidence.setdefault("partition_state", state)
        if errors := self.state.recent_errors():
            evidence.setdefault("client_errors", errors)
        evidence.setdefault("cluster_events", self.state.recent_events())
        found = Violation(
            kind=kind,
            severity=severity or policy.severity(kind, mode),  # type: ignore[arg-type]
            topic=named,
            topic_id=(known and known.topic_id) or "",
            partition=where.partition,
            offset=where.offset,
            identity=where.identity,
            leader_epoch=_epoch(kind, ours, where),
            mode=mode,
            at_ns=self.state.now_ns,
            by=by,  # type: ignore[arg-type]
            summary=summary,
            evidence=evidence,
        )
        return (
            found
            if ours is None or kind in policy.CONDITIONS
            else found.since(ours.sent_ns(where.identity, where.partition, where.offset))
        )

    def of_records(
        self, kind: str, topic: Topic, log: Log, runs: Sequence[Records], summary: str, **more: Any
    ) -> Violation:
        """Return a violation of this moment about ``runs``; ``more`` is as for :meth:`violation`."""
        where = Where(topic, log.partition, runs[0].offset, runs[0].identity, more.pop("leader_epoch", None))
        return self.violation(kind, where, summary, **more).about(runs)

    def emit(self, violation: Violation) -> None:
        """Report a violation; a condition that holds again has not ended."""
        if self.found.ended:
            key = violation.key("")
            self.found.ended = [one for one in self.found.ended if one.key("") != key]
        self.found.violations.append(violation)

    def report(
        self,
        kind: str,
        where: Where,
        summary: str,
        *,
        after_ns: int | None = None,
        before_ns: int | None = None,
        **more: Any,
    ) -> Violation:
        """Report a violation of this moment; times are as for `Violation.since`, ``more`` as for :meth:`violation`."""
        violation = self.violation(kind, where, summary, **more)
        if after_ns is not None:
            violation = violation.since(after_ns, before_ns)
        self.emit(violation)
        return violation

    def emit_run(self, topic: Topic, log: Log, run: Records, found: Found) -> None:
        """Report a run of records, as a part of the last violation if it continues that."""
        violations = self.found.violations
        last = violations[-1] if violations else None
        more = None
        if last is not None and (last.topic, last.topic_id) == (topic.name, topic.topic_id or ""):
            more = last.joined(run) if last.partition == log.partition and found.like(last) else None
        if more is None:
            self.emit(self._violation_of(topic, log, run, found))
        else:
            violations[-1] = replace(more, summary=found.plural)

    def hold_run(
        self, topic: Topic, log: Log, run: Records, tag: int, found: Found, *, check: str = "", first: int = -1
    ) -> bool:
        """Hold a run of records of stream ``tag`` (-1: of none); return False if all of it is held already.

        A run that continues the last held one joins it, unless a sample was asked in between: a held violation waits
        for two samples asked after it. ``first`` is the offset of the first record's first copy.
        """
        assert run.offset is not None  # noqa: S101  # for the type checker
        value = run.offset if run.identity is None else run.identity.sequence
        held_at = log.held_at.setdefault(found.kind, RunMap())
        known = held_at.aligned(run.offset, run.offset + run.size, value - run.offset, tag)
        rest = IntervalSet.of((one.key, one.end) for one in known).without(run.offset, run.offset + run.size)
        for a, b in rest:
            skip = a - run.offset
            part = run.part(skip, b - a)
            held_at.set(a, b - a, value + skip, tag)
            at = first + skip if first >= 0 else -1
            if not self._hold_with_last(log, part, tag, found, check, at):
                who = part.identity
                key = f"{found.kind} {a} {who and tuple(who)}"
                violation, sequence = self._violation_of(topic, log, part, found), -1 if who is None else who.sequence
                held = Held(violation, self.state.ordinal, check=check, tag=tag, sequence=sequence, first=at)
                log.held[key if key not in log.held else f"{key} {self.state.ordinal}"] = held
        return bool(rest)

    def _hold_with_last(self, log: Log, part: Records, tag: int, found: Found, check: str, first: int) -> bool:
        for held in itertools.islice(reversed(log.held.values()), _KINDS_AT_ONCE):
            if held.check != check or not found.like(held.violation):
                continue
            asked = max((ask.ordinal for ask in self.state.asks.values()), default=0)
            more = held.violation.joined(part) if held.ordinal >= asked and not held.samples else None
            if more is None or (check not in {"", "retained", "untaken"} and not _goes_on(held, more, tag, first)):
                continue
            held.violation = replace(more, summary=found.plural)
            return True
        return False

    def _violation_of(self, topic: Topic, log: Log, run: Records, found: Found) -> Violation:
        summary, evidence = found.words(run)
        more: dict[str, Any] = {"mode": found.mode, "severity": found.severity, "evidence": evidence}
        more["leader_epoch"] = found.leader_epoch
        return self.of_records(found.kind, topic, log, [run], found.plural if run.size > 1 else summary, **more)

    def reported(self) -> list[Violation]:
        """Return the violations of this fold; ranges also with what is known around their last records."""
        return [self._with_last(violation) if violation.records else violation for violation in self.found.violations]

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
        """Hold a violation until two samples, asked from now on, give the same topic id; False if held already."""
        key = f"{violation.kind} {violation.offset} {violation.identity and tuple(violation.identity)}"
        if key in log.held:
            return False
        log.held[key] = Held(violation, self.state.ordinal, **more)
        return True


def _epoch(kind: str, ours: Topic | None, where: Where) -> int | None:
    """Return the leader epoch of a violation: of all that is neither a condition nor about one identity.

    Its place alone may see the same another time: the same end after another wipe.
    """
    if where.identity is not None or where.partition is None:
        return None
    if where.leader_epoch is not None or kind in policy.CONDITIONS or ours is None:
        return where.leader_epoch
    log = ours.logs.get(where.partition)
    return None if log is None else log.epoch


def _surroundings(topic: Topic, where: Where) -> dict[str, Any] | None:
    """Return what is known of a partition that is probed, and of the neighbourhood of the offset, in JSON values."""
    log = topic.logs.get(where.partition) if where.partition is not None else None
    if log is None:
        return None
    return {
        "leader": log.leader,
        "leader_epoch": log.epoch,
        "isr": list(log.isr),
        "replicas": list(log.replicas),
        "log_start": log.start,
        "log_end": log.end,
        "known_end": log.known_end,
        "positions": {name: reader.position for name, reader in log.readers.items()},
        "neighbourhood": _neighbourhood(topic, log, where.offset),
        "changes": list(log.changes),
    }


def _place(topology: Topology, where: Where) -> dict[str, Any] | None:
    """Return what is known of a partition of any other topic, in JSON values."""
    known = topology.topics.get(str(where.topic))
    place = known.partitions.get(where.partition) if known is not None and where.partition is not None else None
    if known is None or place is None:
        return None
    return {
        "leader": place.leader,
        "isr": list(place.isr),
        "replicas": list(place.replicas),
        "leader_epoch": place.epoch,
        "last_isr": list(place.last_isr),
        "since_ns": place.at_ns,
        "min_insync_replicas": known.min_isr,
    }


def always(summary: str, evidence: dict[str, Any]) -> Callable[[Records], tuple[str, dict[str, Any]]]:
    """Return the words of a violation that are the same for each record."""
    return lambda _: (summary, evidence)


def _neighbourhood(topic: Topic, log: Log, offset: int | None) -> list[dict[str, Any]]:
    """Return the claims around ``offset``."""
    if offset is None:
        return []
    around: list[dict[str, Any]] = []
    for run in log.claims.within(max(offset - NEIGHBOURS, 0), offset + NEIGHBOURS + 1):
        stream = topic.streams[run.tag]
        who = {"producer_id": stream.producer_id, "generation": stream.generation}
        around.extend({"offset": run.key + i, **who, "sequence": run.value + i} for i in range(run.length))
    return around


def _goes_on(held: Held, more: Violation, tag: int, first: int) -> bool:
    """Say whether these are consecutive probes at consecutive offsets, and their first copies, too."""
    consecutive = first < 0 or held.first + held.violation.count == first
    return held.tag == tag and len(more.runs) == 1 and consecutive


def is_reread(consumer: str) -> int | None:
    """Return the request id of a re-read's consumer, None for any other."""
    return int(consumer[len(REREAD_PREFIX) :]) if consumer.startswith(REREAD_PREFIX) else None
