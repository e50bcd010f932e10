"""Of a stream whose records have all expired a row is kept, which judges what is read later as the stream would."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import orjson
import pytest

from canary import facts as f
from canary.anomalies.online import Tracker, generations
from canary.anomalies.online.rules import retention
from canary.anomalies.online.state import Probed, State
from simulation.destruction.lives import Life
from simulation.destruction.probed import TOPIC as LIVED
from simulation.histories.wild import seeded
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench
from tests.support.seeds import cases

if TYPE_CHECKING:
    import random

    from canary.anomalies.online.scope import Findings
    from canary.anomalies.online.state import Topic

HOUR_NS = 3_600 * 10**9


def topic_of(bench: Bench) -> Topic:
    return bench.tracker.state.topics[TOPIC]


def expire(bench: Bench, start: int | None = None) -> None:
    """Retention takes all that the log holds, or all below ``start``; it goes on at once."""
    bench.start = bench.end if start is None else start
    bench.now_ns += 8 * 24 * HOUR_NS
    for offset in [one for one in bench.log if one < bench.start]:
        del bench.log[offset]
    bench.settle(3)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2))


def former(probes: int = 5, mode: str = "idempotent") -> Bench:
    """Return a bench whose first start wrote ``probes``, read them and is over; all of that is retained."""
    bench = Bench(mode=mode)
    bench.write(probes)
    bench.settle(3)
    bench.restart()
    bench.write(1)
    bench.settle(3)
    return bench


def copied(bench: Bench, *sequences: int, generation: int = 1) -> list[int]:
    """Append copies of what a former generation wrote, and have them read."""
    first = bench.end
    for sequence in sequences:
        bench.log[bench.end] = (PRODUCER, generation, sequence)
        bench.end += 1
    bench.settle(4)
    return list(range(first, bench.end))


def test_a_copy_of_what_a_former_start_wrote_is_a_copy_after_all_of_it_has_expired() -> None:
    bench = former()
    expire(bench)
    assert list(topic_of(bench).expired) == [(PRODUCER, 1)]
    assert list(topic_of(bench).index) == [(PRODUCER, 2, 0)]
    bench.tracker = Tracker.load(bench.tracker.dump())
    assert bench.found() == []
    at = copied(bench, 3, 4)
    assert bench.found() == [("duplicate", offset, sequence) for offset, sequence in zip(at, (3, 4), strict=True)]
    expire(bench)
    assert topic_of(bench).expired[PRODUCER, 1].ends == {0: 5}, "what was made whole to be judged is reduced again"
    assert list(topic_of(bench).index) == [(PRODUCER, 2, 0)]


def test_what_a_former_start_wrote_and_never_recorded_is_no_copy_and_no_phantom() -> None:
    bench = former()
    expire(bench)
    copied(bench, 5, 6)
    assert bench.found() == []


def test_a_stream_is_whole_while_the_log_may_hold_what_its_process_never_recorded() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    unrecorded = bench.append(5, 6)
    bench.restart()
    expire(bench, start=unrecorded[1])
    assert topic_of(bench).expired == {}
    expire(bench)
    assert list(topic_of(bench).expired) == [(PRODUCER, 1)]


def test_a_stream_is_whole_while_a_record_above_the_start_may_be_its_own_though_nobody_has_read_it() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    (unrecorded,) = bench.append(5)
    bench.restart()
    with mock.patch.object(bench, "poll"):  # its consumers are behind
        expire(bench, start=unrecorded)
        assert topic_of(bench).expired == {}
    expire(bench)
    assert list(topic_of(bench).expired) == [(PRODUCER, 1)]


def test_a_stream_of_the_present_process_is_whole_whatever_has_expired() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, 2, bench.marked_id))
    bench.settle(3)
    expire(bench)
    assert topic_of(bench).expired == {}, "it recorded all that it sent: what it never sent is a phantom"
    at = copied(bench, 7)
    assert bench.found() == [("phantom", at[0], 7)]


def test_a_lost_write_that_is_written_again_after_the_others_have_expired_is_no_copy() -> None:
    bench = Bench()
    bench.write(5)
    del bench.log[2]
    bench.settle()
    assert bench.found() == [("lost-write", 2, 2)]
    bench.restart()
    bench.settle(3)
    expire(bench)
    assert [list(one) for one in topic_of(bench).expired[PRODUCER, 1].lost.values()] == [[(2, 3)]]
    bench.tracker = Tracker.load(bench.tracker.dump())
    copied(bench, 2)
    assert bench.found() == [("lost-write", 2, 2)]


@pytest.mark.parametrize("seen", [False, True])
def test_a_write_whose_outcome_was_never_known_is_no_copy_if_it_is_read_for_the_first_time(seen: bool) -> None:  # noqa: FBT001  # pytest gives it
    bench = Bench(mode="plain")
    bench.write(2)
    (unknown,) = bench.send()
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, unknown, "timed out"))
    if seen:
        bench.append(unknown)
    bench.write(2)
    bench.settle(3)
    bench.restart()
    bench.settle(3)
    with mock.patch.object(retention, "_settle_sequences"):  # which takes what is below others for expired
        expire(bench)
    assert topic_of(bench).expired[PRODUCER, 1].ends == {0: 5}
    at = copied(bench, unknown)
    assert bench.found() == ([("duplicate", *at, unknown)] if seen else [])


def test_a_loss_that_waits_for_the_topics_id_is_not_forgotten_with_its_stream() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    bench.restart()
    bench.settle(3)
    del bench.log[2]
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1000))
    bench.round()
    bench.round()
    known, bench.topic_id = bench.topic_id, None
    with mock.patch("canary.anomalies.online.incarnations.confirmation.release"):
        expire(bench)
    bench.topic_id = known
    bench.settle()
    assert bench.found() == [("lost-write", 2, 2)]


def test_copies_that_the_client_itself_sent_again_are_still_its_own() -> None:
    bench = Bench()
    bench.write(4)
    open_ = bench.send()
    bench.fold(f.ProducerEpochBumped(bench.now_ns, TOPIC, PRODUCER, 1, "_TRANSPORT"))
    offsets = bench.append(*open_)
    bench.ack(open_[0], offsets[0])
    bench.settle(3)
    bench.restart()
    bench.settle(3)
    expire(bench)
    assert list(topic_of(bench).expired) == [(PRODUCER, 1)]
    copied(bench, *open_)
    assert [(one.kind, one.severity) for one in bench.said] == [("duplicate", "warning")]


def test_a_transaction_whose_writes_have_expired_is_forgotten_with_them() -> None:
    bench = Bench(mode="transactional")
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 0))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, bench.mode, 0))
    bench.sequence = 1
    (at,) = bench.append(0)
    bench.ack(0, at)
    bench.restart()
    bench.settle(3)
    assert list(bench.tracker.state.transactions) == [(PRODUCER, 1, 0)], "a read would prove that it committed"
    expire(bench)
    assert bench.tracker.state.transactions == {}
    assert list(topic_of(bench).expired) == [(PRODUCER, 1)]


def test_a_transaction_that_wrote_nothing_is_forgotten_when_its_process_has_ended() -> None:
    bench = Bench(mode="transactional")
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 0))
    bench.restart()
    assert bench.tracker.state.transactions == {}


def test_a_snapshot_of_a_version_that_kept_every_stream_is_loaded_and_reduced_by_and_by() -> None:
    with mock.patch.object(generations, "reduce_expired"):
        bench = former()
        for _ in range(3):
            bench.restart()
            bench.write(2)
            bench.settle(3)
        expire(bench)
    content = orjson.loads(bench.tracker.dump())
    assert len(topic_of(bench).index) == 5
    del content["topics"][TOPIC]["expired"], content["topics"][TOPIC]["streams"]["written_below"]
    bench.tracker = Tracker.load(orjson.dumps(content))
    bench.restart()
    bench.write(1)
    bench.settle(3)
    assert list(topic_of(bench).expired) == [(PRODUCER, n) for n in range(1, 6)]
    assert bench.found() == []
    expire(bench)
    assert len(topic_of(bench).streams) < 5, "places of forgotten streams are taken again, the first ones first"


def started(starts: int, partitions: int) -> Tracker:
    """Return a tracker of so many starts, each of which wrote to every partition: all but what the last one wrote has
    expired."""
    tracker, now_ns, dice, sample = Tracker(State(probed={TOPIC: Probed([], [])})), 10**18, seeded(1), 0
    for at in range(0, 3 * starts, 3):
        who = (dice.getrandbits(63), 1 + at)
        tracker.fold(
            [f.RunnerStarted(now_ns, "canary-0", "test"), f.GenerationBegan(now_ns, TOPIC, "idempotent", *who)]
        )
        for _ in range(3):
            now_ns, sample = now_ns + 8 * 24 * HOUR_NS, sample + 1
            answers = [f.Listed(now_ns, sample, TOPIC, p, at, at, at, 0) for p in range(partitions)]
            tracker.fold([f.WatchAsked(now_ns, sample), f.ClusterSeen(now_ns, sample, "cluster", "1,2,3")])
            tracker.fold([f.TopicSeen(now_ns, sample, TOPIC, "id", partitions), *answers])
            tracker.fold([f.TopicConfigured(now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2)])
            for one in tracker.drain().rereads:
                asked = (one.request_id, RC, TOPIC, one.partition, one.start, one.end)
                tracker.fold([f.RereadEnded(now_ns, *asked, one.end, complete=True, error=None)])
        for p in range(partitions):
            tracker.fold([f.Positioned(now_ns, name, name, TOPIC, p, at, "start") for name in (RC, RU)])
            probes = [(now_ns, TOPIC, p, *who, sequence) for sequence in range(3)]
            tracker.fold([f.Sent(*one, "idempotent") for one in probes])
            tracker.fold([f.Acked(*one, at + i, 10**6) for i, one in enumerate(probes)])
            for name in (RC, RU):
                tracker.fold([f.Polled(now_ns, name, name, TOPIC, p, at + i, *one[3:]) for i, one in enumerate(probes)])
    assert tracker.drain().violations == []
    return tracker


def test_what_is_remembered_of_a_start_whose_records_have_expired_is_a_few_bytes_for_each_partition() -> None:
    few, many, wide = started(4, 10), started(24, 10), started(24, 40)
    assert [len(one.state.topics[TOPIC].streams) for one in (few, many, wide)] == [10, 10, 40]
    sizes = [len(one.dump()) for one in (few, many, wide)]
    assert sizes[1] - sizes[0] < 20 * (150 + 10 * 12), "a row for each start, with a number for each partition"
    assert sizes[2] - len(started(4, 40).dump()) < 20 * (150 + 40 * 12)


WENT_WRONG = (158, 1032, 1234, 1004478503)
"""Lives of which a row forgot who was read, or in which another stream's record was taken for the last promise."""


class Twins(Life):
    """A life of starts, copies and expiry, judged by two trackers: one of them keeps every stream for ever."""

    def __init__(self, dice: random.Random, mode: str) -> None:
        self.whole: Tracker | None = None
        self.happened: Counter[str] = Counter()
        super().__init__(dice, mode)

    def fold(self, *facts: f.Fact) -> None:
        self.whole = self.whole or Tracker.load(self.tracker.dump())
        with mock.patch.object(generations, "reduce_expired"):
            self.whole.fold(facts)
        before = self.rows()
        with mock.patch.object(self.tracker, "drain", self.drained):
            super().fold(*facts)
        self.happened.update(reduced=len(self.rows() - before), whole_again=len(before - self.rows()))

    def drained(self) -> Findings:
        """Return what the tracker found, as the other one has, but for times of sending, which a row forgets."""
        assert self.whole is not None
        findings, expected = Tracker.drain(self.tracker), self.whole.drain()
        for one in (findings, expected):
            one.violations = [replace(violation, happened_after_ns=0) for violation in one.violations]
        assert findings == expected
        return findings

    def rows(self) -> set[tuple[int, int]]:
        topic = self.tracker.state.topics.get(LIVED)
        return set() if topic is None else set(topic.expired)

    def quiet(self) -> None:
        """Everything is acknowledged and read, and every question answered."""
        self.ack()
        for _ in range(4):
            for name in (RC, RU):
                self.tail(name, 1000)
            self.round()
            while self.requests:
                self.answer()

    def expire(self) -> None:
        """Retention takes all or a part."""
        if self.dice.random() < 0.5:
            self.quiet()
            with mock.patch.object(self.dice, "randint", lambda _, most: most):
                super().expire()
        else:
            super().expire()

    def happen(self, depth: int = 0) -> None:
        """Something happens; more often than elsewhere a start, expiry, or a copy."""
        what = "" if depth else self.dice.choices(["start", "expire", "copy", ""], [8, 7, 5, 80])[0]
        if what == "start":
            self.quiet()
            self.restart()
            self.quiet()
        elif what == "expire":
            self.expire()
        elif what == "copy" and self.truth.stood:
            self.append(self.dice.choice(sorted(self.truth.stood)), self.now_ns)
        else:
            super().happen(depth)


def test_a_row_judges_what_is_read_later_as_the_whole_stream_would() -> None:
    happened: Counter[str] = Counter()
    for seed in (*WENT_WRONG, *cases("rows of expired streams", 10, 1)):
        dice = seeded(seed)
        twins = Twins(dice, dice.choice(["idempotent", "idempotent", "plain"]))
        twins.live(40)
        happened += twins.happened
    assert happened["reduced"] > 0
