"""What really happened, held against what the canary said.

The truth has two ends. The cluster tells which records were appended, and which of them the log lacks since, and why;
a later leader may have them after all. The canary's own ledger tells what was promised: an acknowledgement that became
durable, or a commit. So a promise is broken exactly when its record is gone and no other copy of it is left. A probe is
rightly called lost when there was a time, since it was last written, at which that was so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from canary.anomalies.online.rules.retention import sending_step_ns
from canary.anomalies.online.scope import is_reread
from canary.anomalies.policy import WRITES_LOST, least_age_ms
from canary.facts import (
    Acked,
    ClockSeen,
    ClusterMet,
    ClusterSeen,
    Committed,
    Fact,
    GenerationBegan,
    Listed,
    Polled,
    RunnerStarted,
    Sent,
    TopicSeen,
    WatchAsked,
)
from canary.facts.incarnation import Sighting, sighting
from canary.probe.identity import Identity
from canary.probe.record import key

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation

MINUTE_S = 60.0
MOST_GENERATIONS = 40
"""So many generations in a minute are too many: each is remembered for as long as its records."""
MOST_TOUCHING = 10
"""Side by side so many violations of one delivery are too many."""
EXPIRED = frozenset({"expired", "deleted", "topic deleted"})
"""Why a record is gone though nothing was broken: retention, DeleteRecords, a deleted topic."""


@dataclass(slots=True)
class Fate:
    """What became of the copies of one probe. ``gone`` is when and why the last copy went; maybe it is back since."""

    copies: int = 0
    gone: tuple[float, str] | None = None
    offset: int = -1
    at: float = 0.0
    partition: int = -1
    topic_id: str = ""
    topic: str = ""
    was_lost: bool = False
    """Since it was last written there was a time at which no copy was left, for another reason than its age."""


@dataclass(slots=True)
class Truth:
    """Gathers both ends of one life; ``now`` returns virtual seconds."""

    now: Any
    fates: dict[bytes, Fate] = field(default_factory=dict)
    promised: dict[bytes, float] = field(default_factory=dict)
    """Probes with a durable promise, and when it became durable."""
    said: dict[bytes, list[Violation]] = field(default_factory=lambda: defaultdict(list))
    """By probe, the violations that name it."""
    false_losses: list[tuple[bytes, Violation]] = field(default_factory=list)
    """Probes that were called lost and were there, or had expired."""
    violations: list[tuple[float, Violation]] = field(default_factory=list)
    shipped: set[bytes] = field(default_factory=set)
    """Probes whose acknowledgement was in the probe log."""
    memory_lost: list[float] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    """Probes whose identity two processes sent."""
    unkept_at: list[float] = field(default_factory=list)
    """When the disk lost facts that had been durable, and nobody can know that they were ever there."""
    durable_at: float | None = None
    """When facts became durable last."""
    cluster_id: str = ""
    """What the cluster calls itself: what others acknowledge is no promise."""
    topic_ids: set[str] = field(default_factory=set)
    """Those that the canary's ledger has, and that are not in doubt there."""
    known_ids: dict[str, str] = field(default_factory=dict)
    """By topic, the id that the canary believes."""
    _in_transaction: dict[tuple[int, int, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    _transaction_of: dict[bytes, tuple[int, int, int] | None] = field(default_factory=dict)
    _committed: set[tuple[int, int, int]] = field(default_factory=set)
    _facts: int = 0
    _asked: dict[int, int] = field(default_factory=dict)
    """By round, how many facts were durable when it began."""
    _unsure: list[tuple[int, bytes]] = field(default_factory=list)
    """(fact, probe) of what was acknowledged since the last round that the known cluster answered."""
    _given: set[bytes] = field(default_factory=set)
    _void: set[bytes] = field(default_factory=set)
    """Probes that another cluster may have acknowledged."""
    halt: Any = lambda: None
    """Ends the life."""
    costly: list[str] = field(default_factory=list)
    """What was done too often."""
    starts: dict[tuple[str, int], list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    """By (topic id, partition), when the log's start rose, and to what."""
    removed: dict[tuple[str, int], float] = field(default_factory=dict)
    """By (topic, partition), when something went from a log but by retention, the first time."""
    _began: list[float] = field(default_factory=list)
    """When the last generations of the present process began."""
    looks: dict[tuple[str, int], list[tuple[float, Listed]]] = field(default_factory=lambda: defaultdict(list))
    """By (topic, partition), the answers about the log, and when they became durable."""
    sent_ns: dict[bytes, int] = field(default_factory=dict)
    """By probe, the canary's time when it was sent."""
    producers: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Producers of which the ledger has a beginning: their mode and topic."""
    unread: dict[bytes, float] = field(default_factory=dict)
    """Promises that no tail consumer was given, and since when they are durable."""
    promised_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """By mode and topic, when a promise became durable last."""
    clock_set: list[tuple[int, float]] = field(default_factory=list)
    """When (ns, by the canary's clock) the machine's clock was found to have been set, and by how many s."""
    _clock_ns: int = 0
    _clock_ahead_ns: int = 0
    _process: int = 0
    _sent_by: dict[bytes, int] = field(default_factory=dict)
    """By probe, the process that sent it."""
    _elsewhere: bool = False
    """Another cluster has answered, and no process has begun since. What clients of before say then is no promise."""

    # the cluster's end

    def appended(self, topic: str, topic_id: str, partition: int, record: Any) -> None:
        """Note a copy of a probe in a log."""
        if record.key is None or record.control is not None:
            return
        fate = self.fates.get(record.key)
        if fate is None:
            fate = self.fates[record.key] = Fate()
        fate.copies += 1
        fate.offset, fate.at, fate.topic_id, fate.was_lost = record.offset, self.now(), topic_id, False
        fate.topic, fate.partition = topic, partition

    def lost(self, topic: str, topic_id: str, partition: int, records: Sequence[Any], how: str) -> None:
        """Note records that the log lacks now."""
        if how != "expired":
            self.removed.setdefault((topic, partition), self.now())
        for record in records:
            if how == "never written":
                self.fates.setdefault(
                    record.key, Fate(0, None, record.offset, self.now(), partition, topic_id, topic)
                ).copies += 1
            fate = self.fates.get(record.key)
            if fate is not None and record.control is None:
                fate.copies -= 1
                if fate.copies <= 0:
                    fate.gone = (self.now(), how)
                    fate.was_lost |= how not in EXPIRED

    def started(self, topic_id: str, partition: int, start: int) -> None:
        """Note that a log's start rose."""
        self.starts[topic_id, partition].append((self.now(), start))

    def returned(self, _topic: str, _topic_id: str, _partition: int, records: Sequence[Any]) -> None:
        """Note lost records that a later leader has after all."""
        for record in records:
            fate = self.fates.get(record.key)
            if fate is not None and record.control is None:
                fate.copies += 1

    # the canary's end

    def durable(self, facts: Iterable[Fact]) -> None:
        """Note promises that are in the canary's ledger."""
        self.durable_at = self.now()
        for fact in facts:
            self._facts += 1
            self._watched(fact)
            if isinstance(fact, Sent):
                self._sent(fact)
            elif isinstance(fact, Acked):
                name = _key(fact)
                whole = self._transaction_of.pop(name, None)
                self._unsure.append((self._facts, name))
                if self._elsewhere or self._sent_by.get(name) != self._process:
                    self._void.add(name)
                elif whole is None or whole in self._committed:
                    self._promise(fact.producer_id, name)
                else:
                    self._in_transaction[whole].append(name)
            elif isinstance(fact, Committed):
                where = (fact.producer_id, fact.generation, fact.transaction_id)
                self._committed.add(where)
                for name in self._in_transaction.pop(where, ()):
                    if name not in self._void and not self._elsewhere:
                        self._promise(fact.producer_id, name)
            elif isinstance(fact, Polled) and is_reread(fact.consumer) is None:
                name = _key(fact)
                self.unread.pop(name, None)
                self._given.add(name)

    def _promise(self, producer_id: int, name: bytes) -> None:
        self.promised.setdefault(name, self.now())
        self.promised_at[self.producers[producer_id]] = self.now()
        if name not in self._given:
            self.unread.setdefault(name, self.now())

    def unkept(self, since: float) -> None:
        """Note that what became durable since then may be lost, and is told of nowhere: it is no promise."""
        self.unkept_at.append(self.now())
        self.promised = {name: at for name, at in self.promised.items() if at < since}

    def was_shipped(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Note rows of probes/ that are in the probe log now."""
        for row in rows:
            if row["outcome"] == "acked":
                who = Identity(row["producer_id"], row["generation"], row["partition"], row["sequence"])
                self.shipped.add(key(who))

    def _sent(self, fact: Sent) -> None:
        name = _key(fact)
        self.sent_ns[name] = fact.at_ns
        if self._sent_by.setdefault(name, self._process) != self._process:
            self.twice.append(f"sequence {fact.sequence} of {fact.topic}[{fact.partition}]")
        if fact.transaction_id is not None:
            self._transaction_of[name] = (fact.producer_id, fact.generation, fact.transaction_id)

    def _watched(self, fact: Fact) -> None:
        """Note topic ids; and what is acknowledged between the known cluster's last answer and another's is no promise.

        A probe that was acknowledged then is void even if the known cluster has it: that is found out by reading.
        """
        self._clocked(fact)
        if isinstance(fact, TopicSeen):
            known = self.known_ids.get(fact.topic)
            if (
                fact.topic_id is not None
                and sighting(fact.topic_id, known, agreed=bool(fact.agreed)) is not Sighting.DOUBTFUL
            ):
                self.known_ids[fact.topic] = fact.topic_id
                self.topic_ids.add(fact.topic_id)
        elif isinstance(fact, RunnerStarted):
            self._elsewhere = False
            self._process += 1
            self._began.clear()
        elif isinstance(fact, GenerationBegan):
            self.producers[fact.producer_id] = fact.mode, fact.topic
            self._began = [*(at for at in self._began if at > self.now() - MINUTE_S), self.now()]
            if len(self._began) > MOST_GENERATIONS:
                self.costly.append(f"{len(self._began)} generations of {fact.topic} began within a minute")
                self.halt()
        elif isinstance(fact, WatchAsked):
            self._asked[fact.sample] = self._facts
        elif isinstance(fact, ClusterSeen):
            self._answered_by(fact)
        elif isinstance(fact, ClusterMet):
            self._met(fact.cluster_id)
        elif isinstance(fact, Listed):
            self.looks[fact.topic, fact.partition].append((self.now(), fact))

    def _clocked(self, fact: Fact) -> None:
        """Note when the machine's clock was set: found by the next process or round, or while the process runs."""
        if isinstance(fact, RunnerStarted | WatchAsked):
            if self._clock_ns - fact.at_ns >= 1e9:
                self.clock_set.append((fact.at_ns, (self._clock_ns - fact.at_ns) / 1e9))
            self._clock_ns = fact.at_ns
        if isinstance(fact, ClockSeen):
            self.clock_set.append((fact.at_ns, (fact.clock_ahead_ns - self._clock_ahead_ns) / 1e9))
        if isinstance(fact, ClockSeen | RunnerStarted):
            self._clock_ahead_ns = fact.clock_ahead_ns or 0

    def _answered_by(self, fact: ClusterSeen) -> None:
        if fact.cluster_id == self.cluster_id and not self._elsewhere:
            asked = self._asked.get(fact.sample, 0)
            self._asked.clear()
            self._unsure = [one for one in self._unsure if one[0] > asked]
        else:
            self._met(fact.cluster_id)

    def _met(self, cluster_id: str) -> None:
        """Note which cluster a client has met."""
        if cluster_id != self.cluster_id:
            self._elsewhere = True
            self._void |= {name for _, name in self._unsure}
            for _, name in self._unsure:
                self.promised.pop(name, None)
            self._unsure.clear()

    def told(self, found: Sequence[Violation]) -> None:
        """Note what the canary delivers to its store."""
        self._ranged(found)
        for violation in found:
            self.violations.append((self.now(), violation))
            if violation.kind == "memory-lost":
                self.memory_lost.append(self.now())
            for run in violation.runs:
                if run.identity is not None:
                    for step in range(run.size):
                        name = key(run.identity._replace(sequence=run.identity.sequence + step))
                        self.said[name].append(violation)
                        fate = self.fates.get(name)
                        if violation.kind == WRITES_LOST and fate is not None and not fate.was_lost:
                            self.false_losses.append((name, violation))

    def _ranged(self, found: Sequence[Violation]) -> None:
        """A loss that is contiguous and found at one time is to be said in ranges, not record by record."""
        ends: set[tuple[Any, ...]] = set()
        touching = 0
        for one in found:
            if one.kind == WRITES_LOST:
                for run in one.runs:
                    who = run.identity
                    if who is not None and run.offset is not None:
                        place = (one.at_ns, one.topic, one.partition, who.producer_id, who.generation)
                        touching += (*place, run.offset, who.sequence) in ends
                        ends.add((*place, run.offset + run.size, who.sequence + run.size))
        if touching > MOST_TOUCHING:
            self.costly.append(f"{touching + 1} violations for lost writes side by side")

    def forgot(self, topic: str) -> bool:
        """Return whether something went from a log of this topic but by retention."""
        return any(name == topic for name, _ in self.removed)

    def expired_at(self, fate: Fate) -> float | None:
        """Return when the log's start first passed a record after it was written; None: it has not."""
        raised = self.starts[fate.topic_id, fate.partition]
        return next((at for at, start in raised if start > fate.offset and at >= fate.at), None)

    def may_have_expired(self, name: bytes, fate: Fate, gone_at: float, retention_s: float) -> bool:
        """Return whether a record went with all its log, and nobody can tell that it had not expired before.

        So it is if the log was not looked at for more than a minute, and the record is older than retention when that
        is over: by its true age, or by the canary's clock. The canary does not remember when each record was sent: one
        that was sent less than a step after a record of its log that is so old may be as old, for all it knows. Where
        none was, it knows better. If the machine's clock was set within two retentions, all may be older by so much: it
        does not know at which of the two times the clock was right.
        """
        looks = self.looks[fate.topic, fate.partition]
        after = next((i for i, (at, look) in enumerate(looks) if at >= gone_at and look.end <= fate.offset), 0)
        if not after:
            return False
        (_, before), (at, seen) = looks[after - 1 : after + 1]
        if seen.end > before.start or seen.at_ns - before.at_ns <= MINUTE_S * 1e9:
            return False

        set_s = sum(abs(by_s) for at_ns, by_s in self.clock_set if at_ns <= seen.at_ns < at_ns + 2e9 * retention_s)

        def age_s(name: bytes, fate: Fate) -> float:
            return set_s + max(at - fate.at, (seen.at_ns - self.sent_ns.get(name, seen.at_ns)) / 1e9)

        retention_ms, own_s = round(retention_s * 1e3), age_s(name, fate)
        least_s, step_s = least_age_ms(retention_ms) / 1e3, sending_step_ns(retention_ms) / 1e9
        place = (fate.topic_id, fate.partition)
        return own_s >= least_s or (
            own_s > least_s - step_s
            and any(
                least_s <= age_s(other, one) < own_s + step_s
                for other, one in self.fates.items()
                if (one.topic_id, one.partition) == place and other in self.sent_ns
            )
        )

    # held against each other

    def broken(self) -> dict[bytes, Fate]:
        """Return every probe whose promise was broken."""
        return {
            name: fate
            for name in self.promised
            if (fate := self.fates.get(name)) is not None
            and fate.copies <= 0
            and fate.gone
            and fate.gone[1] not in EXPIRED
        }

    def first_told(self) -> dict[bytes, float]:
        """Return when each probe was first said to be lost."""
        first: dict[bytes, float] = {}
        for at, one in self.violations:
            for run in one.runs if one.kind == WRITES_LOST else ():
                if run.identity is not None:
                    for step in range(run.size):
                        first.setdefault(key(run.identity._replace(sequence=run.identity.sequence + step)), at)
        return first

    def was_sent(self, name: bytes) -> bool:
        """Whether the ledger has that the probe was sent."""
        return name in self._sent_by

    def is_said(self, name: bytes, *kinds: str) -> bool:
        """Whether a violation of one of the kinds names the probe; of any kind where none is given."""
        return any(not kinds or one.kind in kinds for one in self.said.get(name, ()))


def _key(fact: Any) -> bytes:
    return key(Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence))
