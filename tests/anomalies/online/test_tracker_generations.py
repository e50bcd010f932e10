"""The mode that begins a generation with every round is remembered as long as its records are retained."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker, generations
from canary.anomalies.online.state import Producer, State
from canary.anomalies.online.stream import Stream
from tests.support.bench import TOPIC as PROBES
from tests.support.bench import Bench

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

    def watch(self, *starts: int) -> None:
        """Look at the cluster; ``starts`` are of the partitions, or of all of them."""
        self.sample += 1
        self.fold(f.WatchAsked(self.now_ns, self.sample))
        self.fold(
            f.TopicSeen(self.now_ns, self.sample, TOPIC, "one", PARTITIONS),
            f.TopicConfigured(self.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2),
            *(
                f.Listed(self.now_ns, self.sample, TOPIC, p, starts[p % len(starts)], self.end, self.end, 0)
                for p in range(PARTITIONS)
            ),
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


def test_what_a_generation_wrote_unrecorded_is_no_zombies_where_only_its_other_partition_has_expired() -> None:
    """The process died before the ledger had all that it had sent."""
    life = Rounds()
    dead, at, life.end = (4, 1), 0, 2
    life.fold(f.GenerationBegan(life.now_ns, TOPIC, "fencing", *dead))
    life.fold(f.TransactionBegan(life.now_ns, "fencing", *dead, 1))
    life.fold(f.Sent(life.now_ns, TOPIC, 0, *dead, 0, "fencing", transaction_id=1))
    life.fold(f.RunnerStarted(life.now_ns, "canary-0", "test"))
    record = f.Polled(life.now_ns, RC, RC, TOPIC, 0, at, *dead, 0, transaction_id=1)
    life.fold(record)
    for _ in range(5):
        life.round()
    life.watch(0, 0)
    life.now_ns += 8 * DAY_NS
    life.watch(life.end - 2, 0)
    assert (*dead, 0) not in life.tracker.state.topics[TOPIC].index
    life.fold(dataclasses.replace(record, partition=1, consumer="reread-1"))
    assert life.found == []
    life.fold(dataclasses.replace(record, offset=life.end))
    assert life.found == [("zombie-write", life.end, 1)]


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


def begin(bench: Bench, generation: int) -> None:
    """The producer's client has died, and its next one goes on."""
    bench.generation, bench.sequence = generation, 0
    bench.fold(f.GenerationBegan(bench.now_ns, PROBES, bench.mode, 77, generation))


def test_generations_that_wrote_nothing_are_forgotten_and_the_snapshot_stays_small() -> None:
    """A revoked right: every client dies with its first probes, which nobody can say are not in the log."""
    bench = Bench()
    bench.write(5)
    bench.settle(2)
    sizes = []
    for generation in range(2, 400):
        begin(bench, generation)
        for sequence in bench.send(3):
            outcome = f.Failed if generation % 2 else f.Indeterminate
            bench.fold(outcome(bench.now_ns, PROBES, 0, 77, generation, sequence, "not authorised"))
        bench.settle(1)
        sizes.append(len(bench.tracker.dump()))
    topic = bench.tracker.state.topics[PROBES]
    assert len(topic.index) <= 4
    assert len(topic.streams) <= 6
    assert (77, 1, 0) in topic.index  # it wrote something
    assert max(sizes) < 1.5 * min(sizes)
    assert bench.found() == [("unwritable", -1, -1)]


def test_when_probes_were_sent_is_forgotten_with_their_process_but_for_those_that_are_waited_for() -> None:
    bench = Bench()
    bench.write(100)
    bench.settle(2)
    bench.write(2)
    bench.restart()
    stream = bench.tracker.state.topics[PROBES].streams[0]
    assert stream.sent_keys == [100, 101]
    assert len(stream.sent_times) == 2


def test_starts_that_wrote_nothing_are_forgotten() -> None:
    """Each writes under a producer id of its own."""
    bench = Bench()
    bench.write(5)
    bench.settle(2)
    bench.fold(f.Sent(bench.now_ns, PROBES, 0, 99, 1, 0, "plain"))  # another mode's, which has not begun anew
    for start in range(100, 140):
        bench.fold(
            f.RunnerStarted(bench.now_ns, "canary-0", "test"),
            f.GenerationBegan(bench.now_ns, PROBES, bench.mode, start, start),
            f.Sent(bench.now_ns, PROBES, 0, start, start, 0, bench.mode),
        )
        bench.settle(2)
    assert sorted(bench.tracker.state.topics[PROBES].index) == [(77, 1, 0), (99, 1, 0), (139, 139, 0)]
    assert bench.found() == []


def retired(*, landed: bool = False, read: bool = True) -> Bench:
    """Generation 2 ended without an outcome (its probe is in the log if ``landed``), and 3 has begun."""
    bench = Bench()
    bench.write(5)
    bench.settle(2)
    begin(bench, 2)
    (sequence,) = bench.send()
    bench.fold(f.Indeterminate(bench.now_ns, PROBES, 0, 77, 2, sequence, "died"))
    if landed:
        bench.append(sequence)
    begin(bench, 3)
    bench.round()
    if read:
        bench.poll()
        bench.round()
    return bench


def test_a_generation_is_remembered_until_the_log_was_read_to_an_end_listed_after_it() -> None:
    index = retired(landed=True, read=False).tracker.state.topics[PROBES].index
    assert (77, 2, 0) in index
    assert (77, 2, 0) not in retired().tracker.state.topics[PROBES].index


def test_a_generation_is_remembered_if_something_of_it_was_written_after_all() -> None:
    bench = retired(landed=True)
    bench.start = bench.end  # and by now it has expired
    bench.settle()
    for generation in (4, 5):
        begin(bench, generation)
        bench.settle(2)
    bench.append(0)
    bench.log[bench.end - 1] = (77, 2, 0)  # a copy is a copy, however old the first
    bench.settle()
    assert [kind for kind, _, _ in bench.found()] == ["duplicate"]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_forgotten_generation_wrote_is_known_once_it_is_read(*, restarted: bool) -> None:
    """It stood above the high watermark of a replica that leads by now."""
    bench = retired()
    if restarted:
        bench.restart()
    bench.epoch += 1
    for sequence in (0, 1):
        bench.append(sequence)
        bench.log[bench.end - 1] = (77, 2, sequence)
        bench.settle()
    del bench.log[5]
    bench.fold(f.ScrubAsked(bench.now_ns, PROBES, 0, 1000))
    bench.settle()
    assert bench.found() == [("lost-write", 5, 0)]


@pytest.mark.parametrize("mode", ["idempotent", "fencing"])
def test_what_a_generation_wrote_whose_process_died_before_it_was_recorded_is_known_once_it_is_read(mode: str) -> None:
    bench = Bench(mode=mode)
    for sequence in (0, 1):
        bench.append(sequence)
        bench.log[bench.end - 1] = (77, 2, sequence)
    begin(bench, 3)
    bench.settle()
    del bench.log[0]
    bench.fold(f.ScrubAsked(bench.now_ns, PROBES, 0, 1000))
    bench.settle()
    assert bench.found() == [("lost-write", 0, 0)]


def test_a_phantom_stays_one_when_its_generation_is_over() -> None:
    bench = Bench()
    bench.write(5)
    begin(bench, 2)
    bench.append(7)  # which was never sent
    bench.settle()
    for generation in (3, 4):
        begin(bench, generation)
        bench.settle()
    bench.restart()
    for name in (RC, RU):
        bench.put(name, 5)
    bench.settle()
    del bench.log[5]
    bench.fold(f.ScrubAsked(bench.now_ns, PROBES, 0, 1000))
    bench.settle()
    assert bench.found() == [("phantom", 5, 7)]


def test_a_generation_that_still_has_a_probe_in_flight_is_remembered() -> None:
    bench = Bench()
    bench.write(5)
    begin(bench, 2)
    (sequence,) = bench.send()
    begin(bench, 3)
    bench.settle(3)
    assert (77, 2, 0) in bench.tracker.state.topics[PROBES].index
    bench.fold(f.Indeterminate(bench.now_ns, PROBES, 0, 77, 2, sequence, "died"))
    begin(bench, 4)
    bench.settle(3)
    assert (77, 2, 0) not in bench.tracker.state.topics[PROBES].index


def test_a_generation_is_remembered_while_only_who_reads_what_is_committed_has_passed_its_end() -> None:
    """What it wrote may be of a transaction that is still open for that one."""
    bench = retired(landed=True, read=False)
    bench.fold(f.EndOfPartition(bench.now_ns, RC, RC, PROBES, 0, bench.end))
    bench.round()
    assert (77, 2, 0) in bench.tracker.state.topics[PROBES].index


def cut(end: int, *, epoch: bool = True) -> Bench:
    """The probe of generation 2 stands where the log was cut under its readers; the log ends at ``end``."""
    bench = Bench(answering=False)
    bench.write(5)
    bench.settle(2)
    begin(bench, 2)
    (sequence,) = bench.send()
    bench.fold(f.Indeterminate(bench.now_ns, PROBES, 0, 77, 2, sequence, "died"))
    bench.truncate(3, epoch=epoch)
    bench.append(sequence)
    for offset in range(bench.end, end):
        bench.log[offset] = "foreign"
    bench.end = end
    begin(bench, 3)
    bench.round()
    return bench


def test_a_generation_is_remembered_while_the_log_ends_below_who_was_to_read_it() -> None:
    assert (77, 2, 0) in cut(4, epoch=False).tracker.state.topics[PROBES].index


def test_a_generation_is_remembered_while_a_part_of_the_log_is_to_be_read_again() -> None:
    bench = cut(7)
    bench.poll()
    bench.round()
    assert (77, 2, 0) in bench.tracker.state.topics[PROBES].index


def test_generations_that_begin_faster_than_the_log_is_read_are_forgotten_as_soon_as_it_was() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(2)
    for generation in range(2, 7):
        begin(bench, generation)
        (sequence,) = bench.send()
        bench.fold(f.Indeterminate(bench.now_ns, PROBES, 0, 77, generation, sequence, "died"))
        bench.end += 1  # a record of somebody else's
        bench.round()
        for name in (RC, RU):
            bench.fold(f.EndOfPartition(bench.now_ns, name, name, PROBES, 0, bench.end - 1))
    bench.round()
    assert (77, 2, 0) not in bench.tracker.state.topics[PROBES].index


def test_a_generation_is_remembered_until_both_consumers_have_read_the_log_beyond_it() -> None:
    """One of them stood at the end before: the log was cut below it, and filled again by this generation."""
    bench = retired(landed=True, read=False)
    bench.positions[RU] = bench.end
    bench.fold(f.EndOfPartition(bench.now_ns, RU, RU, PROBES, 0, bench.end))
    bench.round()
    bench.round()
    assert (77, 2, 0) in bench.tracker.state.topics[PROBES].index
    bench.poll(RC)
    del bench.log[5]
    bench.fold(f.ScrubAsked(bench.now_ns, PROBES, 0, 1000))
    bench.settle()
    assert bench.found() == [("lost-write", 5, 0)]


def test_a_zombie_that_wrote_nothing_yet_is_remembered() -> None:
    life = Rounds()
    for _ in range(2):
        life.round()
    life.generation += 1
    life.fold(f.GenerationBegan(life.now_ns, TOPIC, "fencing", PRODUCER, life.generation))
    zombie = (PRODUCER, life.generation)
    life.fold(f.TransactionBegan(life.now_ns, "fencing", *zombie, 1))
    life.round()
    life.fold(f.Aborted(life.now_ns, *zombie, 1, "fenced"))
    life.fold(f.Sent(life.now_ns, TOPIC, 0, *zombie, 0, "fencing", transaction_id=1))
    life.fold(f.Indeterminate(life.now_ns, TOPIC, 0, *zombie, 0, "fenced"))
    for _ in range(3):
        life.round()
        life.watch(0)
    life.fold(life.polled(RC, 0, life.end, zombie[1]))
    assert set(life.found) == {("zombie-write", life.end, zombie[1])}


def test_an_end_that_was_asked_for_before_the_generation_was_over_proves_nothing() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(2)
    begin(bench, 2)
    (sequence,) = bench.send()
    bench.sample += 1
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    bench.fold(f.Indeterminate(bench.now_ns, PROBES, 0, 77, 2, sequence, "died"))
    begin(bench, 3)
    bench.fold(f.Listed(bench.now_ns, bench.sample, PROBES, 0, 0, bench.end, bench.end, 0))
    bench.poll()
    bench.fold(f.Listed(bench.now_ns, bench.sample, PROBES, 0, 0, bench.end, bench.end, 0))
    assert (77, 2, 0) in bench.tracker.state.topics[PROBES].index


def test_a_stream_is_followed_by_generations_of_its_own_topic_and_mode() -> None:
    state = State()
    state.producers[PRODUCER] = Producer(TOPIC, "idempotent", 3, live=False)
    state.producers[6] = Producer(TOPIC, "plain", 5)
    state.producers[7] = Producer("other", "idempotent", 5)
    state.producers[8] = Producer(TOPIC, "idempotent", 5)
    stream = Stream(1, PRODUCER, 2, 0, "idempotent")
    assert list(generations.later(state, stream)) == [(PRODUCER, 3), (8, 4), (8, 5)]
