"""The mode that begins a generation with every round is remembered as long as its records are retained."""

from __future__ import annotations

from dataclasses import dataclass, field

from canary import facts as f
from canary.anomalies.online import Tracker

RC, RU, TOPIC, PRODUCER = "read_committed", "read_uncommitted", "zombies", 5
PARTITIONS, DAY_NS = 2, 86_400 * 10**9


@dataclass
class Rounds:
    """A healthy topic of the mode ``fencing``: each round a transaction of a new generation in every partition."""

    tracker: Tracker = field(default_factory=Tracker)
    now_ns: int = 10**18
    mode: str = "fencing"
    generation: int = 0
    sample: int = 0
    end: int = 0
    found: list[tuple[str, int | None, int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fold(f.RunnerStarted(self.now_ns, "canary-0", "test"))
        for consumer in (RC, RU):
            self.fold(*(f.Positioned(self.now_ns, consumer, consumer, TOPIC, p, 0, "start") for p in range(PARTITIONS)))

    def fold(self, *facts: f.Fact) -> None:
        self.now_ns += 1_000_000
        self.tracker.fold(facts)
        self.found += [
            (v.kind, v.offset, v.identity and v.identity.generation) for v in self.tracker.drain().violations
        ]

    def polled(self, consumer: str, p: int, offset: int, generation: int) -> f.Fact:
        return f.Polled(self.now_ns, consumer, consumer, TOPIC, p, offset, PRODUCER, generation, 0, transaction_id=1)

    def round(self) -> None:
        self.generation += 1
        who = (PRODUCER, self.generation)
        self.fold(f.GenerationBegan(self.now_ns, TOPIC, self.mode, *who))
        self.fold(f.TransactionBegan(self.now_ns, self.mode, *who, 1))
        for p in range(PARTITIONS):
            self.fold(f.Sent(self.now_ns, TOPIC, p, *who, 0, self.mode, transaction_id=1))
            self.fold(f.Acked(self.now_ns, TOPIC, p, *who, 0, self.end, 1_000_000))
        self.fold(f.CommitAsked(self.now_ns, *who, 1), f.Committed(self.now_ns, *who, 1))
        for consumer in (RC, RU):
            for p in range(PARTITIONS):
                self.fold(self.polled(consumer, p, self.end, self.generation))
                self.fold(f.EndOfPartition(self.now_ns, consumer, consumer, TOPIC, p, self.end + 2))
        self.end += 2  # the record and the marker

    def watch(self, start: int) -> None:
        self.sample += 1
        self.fold(f.WatchAsked(self.now_ns, self.sample))
        self.fold(
            f.TopicSeen(self.now_ns, self.sample, TOPIC, "one", PARTITIONS),
            f.TopicConfigured(self.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2),
            *(f.Listed(self.now_ns, self.sample, TOPIC, p, start, self.end, self.end, 0) for p in range(PARTITIONS)),
        )

    def expire(self, keep: int) -> None:
        """Everything but the last ``keep`` rounds is older than the retention."""
        self.watch(0 if self.end <= 2 * keep else self.tracker.state.topics[TOPIC].logs[0].start)
        self.now_ns += 8 * DAY_NS
        self.watch(max(self.end - 2 * keep, 0))
        self.tracker = Tracker.load(self.tracker.dump())

    @property
    def streams(self) -> int:
        return len(self.tracker.state.topics[TOPIC].streams)


def test_generations_are_forgotten_when_all_they_wrote_has_expired() -> None:
    life = Rounds()
    for _ in range(10):
        for _ in range(20):
            life.round()
        life.expire(keep=5)
    assert life.streams <= 25 * PARTITIONS
    assert len(life.tracker.state.topics[TOPIC].index) == 5 * PARTITIONS
    assert life.found == []


def test_what_a_forgotten_generation_appends_is_a_zombies() -> None:
    life = Rounds()
    for _ in range(20):
        life.round()
    life.expire(keep=5)
    life.fold(life.polled(RC, 1, life.end, 3))
    assert life.found == [("zombie-write", life.end, 3)]


def test_what_was_fetched_before_the_start_moved_is_no_zombies() -> None:
    life = Rounds()
    for _ in range(20):
        life.round()
    life.expire(keep=5)
    life.fold(life.polled(RC, 0, 4, 3))
    life.fold(life.polled(RU, 0, life.end, 3))
    assert [kind for kind, _, _ in life.found if kind == "zombie-write"] == []


def test_what_waits_for_anything_is_not_forgotten() -> None:
    life = Rounds()
    for _ in range(5):
        life.round()
    life.fold(f.TransactionBegan(life.now_ns, "fencing", PRODUCER, life.generation, 2))
    waiting = life.generation
    for _ in range(20):
        life.round()
    life.expire(keep=5)
    generations = {generation for _, generation, _ in life.tracker.state.topics[TOPIC].index}
    assert waiting in generations
    assert waiting - 1 not in generations


def test_generations_of_other_modes_are_remembered() -> None:
    life = Rounds(mode="transactional")
    for _ in range(20):
        life.round()
    life.expire(keep=5)
    assert len(life.tracker.state.topics[TOPIC].index) == 20 * PARTITIONS


def test_a_generation_with_a_probe_of_unknown_outcome_is_remembered() -> None:
    life = Rounds()
    life.round()
    life.fold(f.Sent(life.now_ns, TOPIC, 0, PRODUCER, life.generation, 1, "fencing", transaction_id=1))
    for _ in range(20):
        life.round()
    life.expire(keep=5)
    index = life.tracker.state.topics[TOPIC].index
    assert (PRODUCER, 1, 0) in index
    assert (PRODUCER, 1, 1) not in index
