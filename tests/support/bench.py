"""A broker of one partition, in memory, and the canary's view of it: what the tracker's tests are written with.

The log is a dictionary offset -> record; the bench gives the tracker the facts that real clients would have given, and
answers its re-read requests from the log as it is at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed
from simulation.histories.retelling import one_by_one

if TYPE_CHECKING:
    from canary.anomalies.violation import RereadRequest, Violation

TOPIC = "probes"
PRODUCER = 77
RC, RU = "read_committed", "read_uncommitted"


@dataclass
class Bench:
    """One partition, one producer, two tail consumers."""

    tracker: Tracker = field(default_factory=Tracker)
    mode: str = "idempotent"
    generation: int = 1
    sequence: int = 0
    now_ns: int = 1_000_000_000
    sample: int = 0
    topic_id: str | None = "incarnation-1"
    epoch: int = 0
    leader: int = 1
    start: int = 0
    listed_start: int | None = None
    """What brokers list instead of it."""
    end: int = 0
    stable: int | None = None
    """The last stable offset; None: the end."""
    log: dict[int, tuple[int, int, int] | str] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=lambda: {RC: 0, RU: 0})
    violations: dict[str, Violation] = field(default_factory=dict)
    said: list[Violation] = field(default_factory=list)
    """Every one as often as it was said; ``violations`` has one for each record."""
    answering: bool = True
    requests: list[RereadRequest] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    """Offsets that tail consumers pass without delivering them."""
    given: set[tuple[int, int]] = field(default_factory=set)
    """(generation, sequence) of what any consumer was given."""
    pace_ns: int = 1_000_000_000
    """From one round of watching to the next."""

    def __post_init__(self) -> None:
        self.tracker.state.probed.setdefault(TOPIC, Probed([], [0]))
        self.begin()

    def begin(self) -> None:
        self.fold(
            f.RunnerStarted(self.now_ns, "canary-0", "test"),
            f.GenerationBegan(self.now_ns, TOPIC, self.mode, PRODUCER, self.generation, self.marked_id),
        )
        self.round()
        self.fold(f.TopicConfigured(self.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2))
        for name, position in self.positions.items():
            self.fold(f.Positioned(self.now_ns, name, name, TOPIC, 0, position, "start", self.marked_id))

    @property
    def marked_id(self) -> str | None:
        """The topic id in the tag of the canary's records."""
        known = self.tracker.state.topics.get(TOPIC)
        return None if known is None or known.unmarked else known.topic_id

    def fold(self, *facts: f.Fact) -> None:
        self.now_ns += 1_000_000
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        self.requests.extend(findings.rereads)
        self.renewed.extend(findings.renewed)
        self.said.extend(findings.violations)
        for violation in findings.violations:
            for one in one_by_one(violation):
                self.violations.setdefault(one.key("test"), one)
        if findings.agreed:
            self.fold(*findings.agreed)

    # the producer

    def send(self, n: int = 1) -> list[int]:
        first = self.sequence
        self.sequence += n
        self.fold(*(f.Sent(self.now_ns, TOPIC, 0, PRODUCER, self.generation, first + i, self.mode) for i in range(n)))
        return list(range(first, first + n))

    def append(self, *sequences: int) -> list[int]:
        offsets = []
        for sequence in sequences:
            self.log[self.end] = (PRODUCER, self.generation, sequence)
            offsets.append(self.end)
            self.end += 1
        return offsets

    def ack(self, sequence: int, offset: int | None) -> None:
        self.fold(f.Acked(self.now_ns, TOPIC, 0, PRODUCER, self.generation, sequence, offset, 2_000_000))

    def write(self, n: int = 1) -> list[int]:
        """Send, append and acknowledge n probes; return their offsets."""
        sequences = self.send(n)
        offsets = self.append(*sequences)
        self.fold(
            *(
                f.Acked(self.now_ns, TOPIC, 0, PRODUCER, self.generation, s, o, 2_000_000)
                for s, o in zip(sequences, offsets, strict=True)
            )
        )
        return offsets

    # the consumers

    def deliver(self, consumer: str, isolation: str, start: int, end: int, *, hidden: bool = True) -> None:
        facts: list[f.Fact] = []
        for offset in range(start, end):
            record = self.log.get(offset)
            if record is None or (hidden and offset in self.hidden):
                continue
            if isinstance(record, str):
                facts.append(
                    f.Refused(self.now_ns, consumer, isolation, TOPIC, 0, offset, record, "broken", self.epoch)
                )
            else:
                facts.append(f.Polled(self.now_ns, consumer, isolation, TOPIC, 0, offset, *record))
                self.given.add(record[1:])
        self.fold(*facts)

    def poll(self, *names: str) -> None:
        """Tail consumers read to the end of the log."""
        for name in names or (RC, RU):
            if self.positions[name] > self.end:
                self.astray(name)
                self.put(name, self.end)
            if self.positions[name] < self.start:
                self.astray(name)
                self.put(name, self.start)
            self.deliver(name, name, self.positions[name], self.end)
            self.positions[name] = self.end
            self.fold(f.EndOfPartition(self.now_ns, name, name, TOPIC, 0, self.end))

    def astray(self, name: str) -> None:
        """A tail consumer is told that the log does not hold its position."""
        self.fold(f.OutOfRange(self.now_ns, name, name, TOPIC, 0, self.positions[name], "out of range"))

    def put(self, name: str, offset: int, topic_id: str | None = None) -> None:
        """A tail consumer goes on at ``offset``, of an incarnation of the topic (the last one that was seen)."""
        self.positions[name] = offset
        self.fold(f.Positioned(self.now_ns, name, name, TOPIC, 0, offset, "reset", topic_id or self.marked_id))

    def answer(self) -> None:
        """Answer the re-reads that were asked for."""
        requests, self.requests = self.requests, []
        for r in requests:
            name = f"reread-{r.request_id}"
            log_end = self.end if self.stable is None or r.isolation == RU else self.stable
            start, end = max(r.start, self.start), min(r.end, log_end)
            if start > r.start:
                self.fold(f.Positioned(self.now_ns, name, RC, TOPIC, 0, start, "log start"))
            self.deliver(name, RC, start, end, hidden=False)
            complete = end == r.end
            error = None if complete else f"end of log at {log_end}"
            reached = max(end, start) if complete else end
            self.fold(f.RereadEnded(self.now_ns, r.request_id, RC, TOPIC, 0, r.start, r.end, reached, complete, error))

    # the store

    def looked_up(self, producer_id: int, knows: int | None = None) -> None:
        """The store answers, and again when every live runner has registered its generations."""
        for _ in range(2):
            self.fold(f.ProducerLooked(self.now_ns, producer_id, knows))
            self.now_ns += 60 * 10**9

    # the cluster

    def round(self) -> None:
        """One round of watching."""
        self.sample += 1
        self.now_ns += self.pace_ns
        self.fold(f.WatchAsked(self.now_ns, self.sample))
        stable = self.end if self.stable is None else self.stable
        start = self.start if self.listed_start is None else self.listed_start
        self.fold(
            f.ClusterSeen(self.now_ns, self.sample, "cluster", "1,2,3"),
            f.TopicSeen(self.now_ns, self.sample, TOPIC, self.topic_id, 1),
            f.PartitionSeen(self.now_ns, self.sample, TOPIC, 0, self.leader, "1,2,3", "1,2,3"),
            f.Listed(self.now_ns, self.sample, TOPIC, 0, start, self.end, stable, self.epoch),
        )
        if self.answering:
            self.answer()

    def settle(self, rounds: int = 8) -> None:
        """Let every question be asked and answered."""
        for _ in range(rounds):
            self.poll()
            self.round()

    def truncate(self, end: int, *, epoch: bool = True) -> None:
        """Cut the log at ``end`` under a new leader."""
        for offset in range(end, self.end):
            self.log.pop(offset, None)
        self.end = end
        self.epoch += epoch

    def restart(self) -> None:
        """The canary is killed and comes back: a new generation, state from its own dump."""
        self.tracker = Tracker.load(self.tracker.dump())
        self.requests.clear()
        self.generation += 1
        self.sequence = 0
        self.begin()

    # what came of it

    def found(self, *kinds: str) -> list[tuple[str, int | None, int | None]]:
        """Return (kind, offset, sequence) of the violations (of some kinds), sorted."""
        return sorted(
            (v.kind, v.offset if v.offset is not None else -1, v.identity.sequence if v.identity else -1)
            for v in self.violations.values()
            if not kinds or v.kind in kinds
        )
