"""Arbitrary lives of one partition: a correct one gives nothing, a cut one gives exactly what was destroyed."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from canary import facts as f
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench
from tests.support.seeds import examples


@dataclass
class Life:
    """A bench whose clients are slow to tell: acknowledgements wait, sends may be given up."""

    bench: Bench = field(default_factory=Bench)
    waiting: list[tuple[int, int, int | None]] = field(default_factory=list)
    told: set[tuple[int, int]] = field(default_factory=set)
    """(generation, sequence) of what was acknowledged with its offset, or read."""
    unplaced: set[tuple[int, int]] = field(default_factory=set)
    """And of what was acknowledged without: judged if its neighbours tell where it must be."""

    def write(self, n: int) -> None:
        sequences = self.bench.send(n)
        for sequence, offset in zip(sequences, self.bench.append(*sequences), strict=True):
            self.waiting.append((self.bench.generation, sequence, offset))

    def write_unplaced(self, n: int) -> None:
        sequences = self.bench.send(n)
        self.bench.append(*sequences)
        self.waiting.extend((self.bench.generation, sequence, None) for sequence in sequences)

    def ack(self, n: int) -> None:
        for generation, sequence, offset in self.waiting[:n]:
            self.bench.fold(f.Acked(self.bench.now_ns, TOPIC, 0, PRODUCER, generation, sequence, offset, 1_000_000))
            (self.told if offset is not None else self.unplaced).add((generation, sequence))
        del self.waiting[:n]

    def give_up(self, n: int) -> None:
        """Sends whose outcome nobody learns, in the log or not."""
        for sequence in self.bench.send(n):
            if sequence % 2:
                self.bench.append(sequence)
            self.bench.fold(
                f.Indeterminate(self.bench.now_ns, TOPIC, 0, PRODUCER, self.bench.generation, sequence, "timed out")
            )

    def poll(self, consumer: str) -> None:
        for offset in range(self.bench.positions[consumer], self.bench.end):
            record = self.bench.log.get(offset)
            if isinstance(record, tuple):
                self.told.add((record[1], record[2]))
        self.bench.poll(consumer)

    def gap(self, n: int) -> None:
        """Markers, or somebody else's records."""
        for i in range(n):
            if i % 2:
                self.bench.log[self.bench.end] = "foreign"
            self.bench.end += 1

    def restart(self) -> None:
        self.waiting.clear()  # whatever was on its way is never told
        self.bench.restart()

    def expire(self, n: int) -> None:
        """Retention passes, and takes a part of what is there."""
        bench = self.bench
        bench.round()
        bench.now_ns += 9 * 86_400 * 10**9
        bench.start = min(bench.start + n, bench.end)
        for offset in [o for o in bench.log if o < bench.start]:
            del bench.log[offset]
        bench.round()

    def recreate(self) -> None:
        bench = self.bench
        bench.topic_id = f"{bench.topic_id}+"
        bench.log, bench.start, bench.end, bench.epoch = {}, 0, 0, 0
        self.ack(2)  # acknowledged by the one or the other: nobody knows
        self.waiting.clear()
        bench.round()
        bench.generation += 1
        bench.sequence = 0
        bench.positions = {RC: 0, RU: 0}
        bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, bench.generation, bench.topic_id))
        for name in (RC, RU):
            bench.fold(f.Positioned(bench.now_ns, name, name, TOPIC, 0, 0, "recreated", bench.topic_id))

    def elect(self) -> None:
        self.bench.epoch += 1


FEW = st.integers(1, 4)
STEP = st.one_of(
    st.tuples(st.sampled_from(["write", "write_unplaced", "ack", "give_up", "gap"]), FEW),
    st.tuples(st.sampled_from(["write", "ack"]), FEW),
    st.tuples(st.just("poll"), st.sampled_from([RC, RU])),
    st.tuples(st.sampled_from(["round", "restart", "elect"])),
)
CORRECT = st.one_of(STEP, STEP, STEP, st.tuples(st.just("expire"), FEW), st.tuples(st.just("recreate")))


def live(life: Life, steps: list[tuple[object, ...]]) -> None:
    for name, *arguments in steps:
        assert isinstance(name, str)
        target = life.bench if name == "round" else life
        getattr(target, name)(*arguments)


def settle(life: Life) -> None:
    life.ack(len(life.waiting))
    life.poll(RC)
    life.poll(RU)
    life.bench.settle(12)


@settings(max_examples=examples(150))
@given(st.lists(CORRECT, max_size=40))
def test_whatever_a_correct_cluster_does_nothing_is_said(steps: list[tuple[object, ...]]) -> None:
    life = Life()
    live(life, steps)
    settle(life)
    assert [found for found in life.bench.found() if found[0] != "topic-recreated"] == []
    assert not any(log.busy for topic in life.bench.tracker.state.topics.values() for log in topic.logs.values())


@settings(max_examples=examples(150))
@given(st.lists(STEP, max_size=25), st.integers(1, 8), st.integers(0, 1), st.lists(STEP, max_size=25))
def test_exactly_what_a_cut_destroyed_is_lost(
    before: list[tuple[object, ...]], depth: int, elected: int, after: list[tuple[object, ...]]
) -> None:
    life = Life()
    live(life, before)
    bench = life.bench
    end = max(bench.end - depth, bench.start)
    destroyed = {record[1:] for o in range(end, bench.end) if isinstance(record := bench.log.get(o), tuple)}
    bench.truncate(end, epoch=elected == 1)
    harm_ns = bench.now_ns
    life.write(3)
    live(life, after)
    settle(life)
    lost = {
        (v.identity.generation, v.identity.sequence)
        for v in bench.violations.values()
        if v.kind == "lost-write" and v.identity
    }
    for one in bench.violations.values():
        if elected and one.kind in {"lost-write", "truncation"}:  # a new epoch's end is read again; else none is
            assert (one.happened_after_ns or 0) <= harm_ns <= one.found_ns
    read_again = bench.given  # the start of a process reads again, and so may the watching of an epoch
    assert destroyed & life.told <= lost <= destroyed & (life.told | life.unplaced | read_again)
    kinds = {v.kind for v in bench.violations.values()}
    # A consumer that stood above the cut is not told of it and passes what grows below its position: a poll-skip.
    assert kinds <= {"lost-write", "truncation", "inconsistent-offsets", "poll-skip"}


def test_a_log_that_is_cut_and_grows_again_beside_a_restart_hides_no_loss() -> None:
    """Cut below the last record read, grown to its offset again by others before the end was listed twice."""
    life = Life()
    live(life, [("write", 4), ("poll", RC)])
    life.bench.truncate(0, epoch=False)
    life.write(3)
    live(life, [("poll", RU), ("restart",), ("gap", 1)])
    settle(life)
    lost = {v.identity.sequence for v in life.bench.violations.values() if v.kind == "lost-write" and v.identity}
    assert lost == {0, 1, 2, 3}


def test_what_was_read_above_a_cut_that_nobody_saw_is_lost() -> None:
    """Nobody reads its place again: a marker stands there, and the end is as it was."""
    life = Life()
    live(life, [("gap", 3), ("give_up", 2), ("poll", RC)])
    life.bench.truncate(0, epoch=False)
    life.write(3)
    live(life, [("gap", 1)])
    settle(life)
    assert life.bench.found("lost-write") == [("lost-write", 3, 1)]
