"""The canary of a life of one partition: what it sends, reads and asks, and what of that the tracker is told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.log import Log
from canary.anomalies.online.state import Probed, State
from simulation.destruction.truth import Key, Record, Truth
from simulation.histories.retelling import one_by_one

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from canary.anomalies.violation import RereadRequest, Violation

TOPIC, PRODUCER, RC, RU = "probes", 77, "read_committed", "read_uncommitted"
MS, S, HOUR = 10**6, 10**9, 3600 * 10**9
RETENTION_MS = 24 * 3_600_000
LOWER_TIMES = 5
"""A lower epoch so often in a row is believed."""

FORMER_ROUNDS = 40
"""What a former leader may answer is believed after so many questions: ten ends, or thirty re-reads, in a row."""


def positions(tracker: Tracker, topic: str, consumer: str) -> dict[int, int]:
    """Return partition to the offset from which ``consumer`` goes on in the present incarnation."""
    known = tracker.state.topics.get(topic)
    logs = known.logs if known is not None else {}
    return {p: log.readers[consumer].position for p, log in logs.items() if consumer in log.readers}


class ProbedPartition:
    """A log as its leader shows it, and the canary that probes it."""

    def __init__(self, dice: random.Random, mode: str = "idempotent") -> None:
        self.dice = dice
        self.mode = mode
        self.truth = Truth()
        self.log: dict[int, Record] = {}
        self.deleted: dict[int, Record] = {}
        """What retention took on the leader, and perhaps not yet on another replica."""
        self.start = self.end = self.epoch = 0
        self.topic_id = 1
        self.true_ns, self.ahead_ns = 1_790_000_000 * S, 0
        self.set_back_ns = 0
        """By how much the canary's clock was set back, all in all: what was sent before may be older by so much."""
        self.tracker = Tracker(State(probed={TOPIC: Probed([mode], [0])}))
        self.generation = self.sequence = self.sample = self.oldest = 0
        self.known_id = 0
        self.positions: dict[str, int] = {}
        self.late: list[tuple[Key, int]] = []
        self.requests: list[RereadRequest] = []
        self.said: dict[str, Violation] = {}
        self.gone_sent_ns: dict[Key, int] = {}
        """When it was sent, of what was destroyed."""
        self.in_doubt = False
        """Whether the log was cut under an epoch that is not newer: it might be a former leader's log."""
        self.begin()

    @property
    def now_ns(self) -> int:
        """The time by the canary's clock."""
        return self.true_ns + self.ahead_ns

    def fold(self, *facts: f.Fact) -> None:
        """Give facts to the tracker, and take what it reports and asks."""
        self.true_ns += MS
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        self.requests += findings.rereads
        for violation in findings.violations:
            for one in one_by_one(violation):
                self.said.setdefault(one.key("c"), one)
        if findings.renewed:
            self.renew()
        if findings.agreed:
            self.fold(*findings.agreed)

    # the canary

    def begin(self) -> None:
        """A process begins."""
        self.fold(f.RunnerStarted(self.now_ns, "canary-0", "test"))
        for _ in range(LOWER_TIMES):  # until it knows the partition: sooner or later
            self.round()
            if self.tracker.state.topics[TOPIC].logs[0].listed_ordinal:
                break
        self.next_generation()
        for name in (RC, RU):
            known = positions(self.tracker, TOPIC, name)
            self.place(name, known.get(0, self.start if self.topic_id > 1 else self.end), "assigned")

    def next_generation(self) -> None:
        """Begin another generation of the producer."""
        self.generation += 1
        self.sequence = 0
        self.fold(f.GenerationBegan(self.now_ns, TOPIC, self.mode, PRODUCER, self.generation, str(self.known_id)))

    def place(self, name: str, position: int, reason: str) -> None:
        """Put a consumer at a position."""
        self.positions[name] = position
        self.fold(f.Positioned(self.now_ns, name, name, TOPIC, 0, position, reason, str(self.known_id)))

    def renew(self) -> None:
        """The topic is another one: a new generation, consumers at the beginning."""
        self.known_id = self.topic_id
        self.next_generation()
        self.oldest = self.generation
        for name in self.positions:
            self.place(name, 0, "new incarnation")

    def restart(self) -> None:
        """Killed, and back: now and then under a clock that is ahead, or is no more."""
        self.truth.happened["restart"] += 1
        self.late.clear()
        self.requests.clear()
        self.true_ns += self.dice.randrange(5) * S
        before_ns = self.now_ns
        if self.dice.random() < 0.3:
            self.ahead_ns = self.dice.choice([0, 0, 20 * S, HOUR, 30 * HOUR])
        self.set_back_ns += max(before_ns - self.now_ns, 0)
        self.tracker = Tracker.load(self.tracker.dump())
        self.begin()

    def write(self) -> None:
        """Probes are sent; most are appended; most of those are acknowledged, some of them later."""
        n, at_ns = self.dice.randint(1, 6), self.now_ns
        first, self.sequence = self.sequence, self.sequence + n
        self.fold(
            *(f.Sent(at_ns, TOPIC, 0, PRODUCER, self.generation, first + i, self.mode) for i in range(n)),
        )
        fate = self.dice.choices(["acked", "late", "doubtful", "nowhere"], [70, 20, 6, 4])[0]
        keys = [(self.generation, first + i) for i in range(n)]
        placed = [(key, self.append(key, at_ns)) for key in keys if fate != "nowhere"]
        if fate == "acked":
            self.late += placed
            self.ack(len(self.late) if self.dice.random() < 0.8 else 1)
        elif fate == "late":
            self.late += placed
        else:
            self.fold(*(f.Indeterminate(self.now_ns, TOPIC, 0, PRODUCER, *key, "timed out") for key in keys))

    def append(self, key: Key | None, sent_ns: int) -> int:
        """Append a record, somebody else's where ``key`` is None; return its offset."""
        offset, self.end = self.end, self.end + 1
        self.log[offset] = Record(key, self.epoch, sent_ns, str(self.known_id))
        if key is not None:
            self.truth.stood.setdefault(key, set()).add(offset)
            if offset < self.positions[RC]:
                self.truth.passed.add(key)
        return offset

    def ack(self, n: int | None = None) -> None:
        """The client tells what it was told."""
        n = len(self.late) if n is None else n
        for key, offset in self.late[:n]:
            self.fold(f.Acked(self.now_ns, TOPIC, 0, PRODUCER, *key, offset, 2 * MS))
            self.truth.told.add(key)
        del self.late[:n]

    def polled(self, name: str, isolation: str, offsets: Iterator[int] | range) -> None:
        """Give a consumer what stands at these offsets."""
        facts: list[f.Fact] = []
        for offset in offsets:
            record = self.log.get(offset)
            if record is None:
                continue
            if record.key is None or record.tag != str(self.known_id):
                facts.append(f.Refused(self.now_ns, name, isolation, TOPIC, 0, offset, "foreign", "", record.epoch))
                continue
            place = (self.now_ns, name, isolation, TOPIC, 0, offset, PRODUCER, *record.key)
            facts.append(f.Polled(*place, None, None, record.sent_ns, record.epoch))
            self.truth.told.add(record.key)
        if facts:
            self.fold(*facts)

    def poll(self) -> None:
        """A tail consumer reads on, to the end or a little."""
        self.tail(self.dice.choice([RC, RU]), self.dice.choice([1, 3, 1000]))

    def tail(self, name: str, most: int) -> None:
        """Let a tail consumer read on, at most so many offsets."""
        position = self.positions[name]
        if not self.start <= position <= self.end:
            self.fold(f.OutOfRange(self.now_ns, name, name, TOPIC, 0, position, "_AUTO_OFFSET_RESET"))
            self.place(name, self.start if position < self.start else self.end, "reset")
            position = self.positions[name]
        end = min(position + most, self.end)
        self.positions[name] = end
        self.polled(name, name, range(position, end))
        if end == self.end:
            self.fold(f.EndOfPartition(self.now_ns, name, name, TOPIC, 0, end))

    def answer(self, between: Callable[[], None] | None = None) -> None:
        """The oldest re-read that was asked for is done; ``between`` happens in its middle."""
        if not self.requests:
            return
        r = self.requests.pop(0)
        name, position = f"reread-{r.request_id}", max(r.start, self.start)
        self.fold(f.Positioned(self.now_ns, name, RC, TOPIC, 0, position, r.reason))
        end, start = min(r.end, self.end), position
        if between is not None and position < end:
            position = self.dice.randint(position, end)
            self.polled(name, RC, range(start, position))
            between()
            end = min(r.end, self.end)
        if position < end:
            self.polled(name, RC, range(position, end))
            position = end
        complete = position >= r.end
        error = None if complete else f"end of log at {self.end}"
        place = (r.request_id, RC, TOPIC, 0, r.start, r.end)
        self.fold(f.RereadEnded(self.now_ns, *place, max(position, r.end) if complete else position, complete, error))

    def round(self, *between: Callable[[], None]) -> None:
        """The cluster is asked about itself; what happens ``between`` falls between question and answers."""
        self.sample += 1
        self.true_ns += S
        sample = self.sample
        self.fold(f.WatchAsked(self.now_ns, sample))
        for event in between[:1]:
            event()
        self.fold(
            f.ClusterSeen(self.now_ns, sample, "cluster", "1,2,3"),
            f.TopicSeen(self.now_ns, sample, TOPIC, str(self.topic_id), 1),
            f.PartitionSeen(self.now_ns, sample, TOPIC, 0, 1, "1,2,3", self.dice.choice(["1,2,3", "1,2"])),
        )
        for event in between[1:]:
            event()
        self.known_id = self.known_id or self.topic_id
        before = dataclasses.replace(self.known_log())
        self.fold(
            f.Listed(self.now_ns, sample, TOPIC, 0, self.start, self.end, self.end, self.epoch),
            f.TopicConfigured(self.now_ns, TOPIC, RETENTION_MS, -1, "delete", 2),
        )
        unseen_ns = self.known_log().listed_ns - before.listed_ns
        if unseen_ns > 60 * S and self.end <= before.start:  # emptied while nobody looked: it may have expired before
            aged_ns = self.now_ns - RETENTION_MS * MS + 60 * S + self.set_back_ns
            self.truth.excused |= {key for key, sent_ns in self.gone_sent_ns.items() if sent_ns <= aged_ns}

    def known_log(self) -> Log:
        """Return what the tracker knows of the log."""
        topic = self.tracker.state.topics.get(TOPIC)
        return Log(0) if topic is None else topic.logs.get(0, Log(0))

    def yesterday(self) -> None:
        """A broker that has not heard of the last election, of which the canary has, answers once more."""
        known = self.tracker.state.topology.epochs.get((TOPIC, 0))
        if self.epoch and known is not None and known.epoch == self.epoch and not known.lower:
            start, end = self.dice.randint(0, self.end), self.end + self.dice.randint(0, 9)
            self.fold(f.Listed(self.now_ns, self.sample, TOPIC, 0, start, end, end, self.epoch - 1))

    def scrub(self) -> None:
        """The scrubber reads a part of what is retained."""
        self.fold(f.ScrubAsked(self.now_ns, TOPIC, 0, self.dice.choice([5, 1000])))
