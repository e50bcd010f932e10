"""What the canary itself has forgotten, and what it makes of probes that neither ledger nor store know."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.online import Tracker, generations
from canary.anomalies.online.rules import memory as forgetting
from tests.anomalies.online.test_topology import cluster
from tests.support.bench import PRODUCER, RC, TOPIC, Bench

S = 10**9
KIND = "memory-lost"


def put_back(*strangers: tuple[int, int, int], knows: int | None = None) -> Bench:
    """Return a bench whose log held probes of ``strangers`` (producer, generation, sequence) before it began.

    ``knows`` is what the store says of them, to both questions.
    """
    bench = Bench()
    bench.write(3)
    bench.settle()
    for stranger in strangers:
        bench.log[bench.end] = stranger
        bench.end += 1
    bench.now_ns = 100 * S
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test", "home", 50 * S))
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER + 1, 1))
    bench.settle()
    for producer_id in [stranger[0] for stranger in strangers]:  # asked again before the first answer was there
        bench.fold(f.ProducerLooked(bench.now_ns, producer_id, knows))
    bench.settle()
    return bench


def test_a_ledger_that_lost_its_memory_says_from_when_to_when_and_each_loss_is_one_of_its_own() -> None:
    tracker = Tracker()
    tracker.fold([f.MemoryLost(90 * S, 60 * S, "a bit has rotted"), f.MemoryLost(95 * S, None, "wiped")])
    first, second = tracker.drain().violations
    assert (first.kind, first.severity) == (KIND, CATALOGUE[KIND].severity)
    assert first.summary == (
        "it is not known whether what was acknowledged from 1970-01-01 00:01:00 UTC to 1970-01-01 00:01:30 UTC "
        "was kept: a bit has rotted"
    )
    assert first.evidence == {"from_ns": 60 * S, "to_ns": 90 * S, "reason": "a bit has rotted"}
    assert "acknowledged until 1970-01-01 00:01:35 UTC was" in second.summary
    assert first.key("c") != second.key("c")


def test_what_holds_is_reported_again_when_memory_was_lost_for_the_store_may_have_forgotten_it() -> None:
    c = cluster()
    c.set("probes", 0, -1, "1,2,3")
    c.fold(f.ClientError(c.now_ns, "tail", "SASL_AUTHENTICATION_FAILED", "no"))
    c.rounds(10)
    before = set(c.open)
    assert {one.kind for one in c.open.values()} == {"blind", "offline-partition"}
    c.open.clear()
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"), f.MemoryLost(c.now_ns, None, "the store was put back"))
    c.told.clear()
    c.rounds(2)
    assert set(c.open) > before
    assert {one.kind for key, one in c.open.items() if key not in before} == {KIND}


@pytest.mark.parametrize("knows", [None, 2], ids=["producer", "generation"])
def test_what_stood_in_the_log_before_the_start_and_nobody_remembers_is_a_time_forgotten_and_no_phantom(
    knows: int | None,
) -> None:
    bench = put_back((500, 3, 0), (500, 3, 1), (501, 4, 0), knows=knows)
    assert [kind for kind, *_ in bench.found()] == [KIND], "one for the start, whatever the number of probes"
    (said,) = bench.violations.values()
    assert (said.evidence["from_ns"], said.evidence["to_ns"]) == (50 * S, 100 * S)
    again = len(bench.said)
    bench.log[bench.end] = (500, 3, 2)  # what it had in flight
    bench.end += 1
    bench.settle()
    assert len(bench.said) == again
    assert bench.tracker.state.doubts == {}


def test_what_another_runner_wrote_before_the_start_is_no_time_forgotten() -> None:
    assert put_back((500, 2, 0), knows=2).found() == []


def test_an_answer_that_no_probe_waits_for_makes_nobody_a_stranger_for_ever() -> None:
    bench = Bench()
    bench.fold(f.ProducerLooked(bench.now_ns, 500, None))
    bench.log[bench.end] = (500, 1, 0)
    bench.end += 1
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.settle()
    bench.fold(f.ProducerLooked(bench.now_ns, 500, None))
    assert [kind for kind, *_ in bench.found()] == [KIND]


def strangers(bench: Bench, n: int = 1, generation: int = 1) -> list[tuple[str, int, int]]:
    """Append and read probes of a producer that is not known; return what they are as phantoms."""
    first = bench.end
    for sequence in range(n):
        bench.log[bench.end] = (500, generation, sequence)
        bench.end += 1
    bench.settle(1)
    return [("phantom", first + sequence, sequence) for sequence in range(n)]


def test_what_is_appended_after_the_start_by_nobody_is_a_phantom() -> None:
    bench = put_back()
    wrong = strangers(bench, 40)
    bench.looked_up(500)
    assert bench.found() == wrong
    wrong += strangers(bench, 2)
    bench.fold(f.ProducerLooked(bench.now_ns, 500, None))
    assert bench.found() == wrong, "at once: it is known to be a stranger"
    assert (bench.tracker.state.doubts, bench.tracker.state.lookups) == ({}, {})


@pytest.mark.parametrize("knows", [None, 2], ids=["producer", "generation"])
def test_what_a_sibling_writes_while_a_store_that_was_put_back_lacks_it_is_no_phantom(knows: int | None) -> None:
    bench = put_back()
    strangers(bench, 40, generation=3)
    bench.fold(f.ProducerLooked(bench.now_ns, 500, knows))
    bench.now_ns += 55 * S
    bench.fold(f.ProducerLooked(bench.now_ns, 500, knows))
    bench.fold(f.ProducerLooked(bench.now_ns, 500, 3))  # it has registered again
    bench.now_ns += 100 * S
    strangers(bench, 40, generation=3)
    assert bench.found() == []
    assert (bench.tracker.state.doubts, bench.tracker.state.lookups) == ({}, {})


def test_the_store_is_asked_again_until_it_answers_and_as_long_as_it_may_learn_of_the_producer() -> None:
    bench = put_back()
    strangers(bench)
    tracker = bench.tracker

    def asked(after_s: int, *facts: f.Fact) -> list[int]:
        bench.now_ns += after_s * S
        tracker.fold([*facts, f.Tick(bench.now_ns)])
        return tracker.drain().unknown_producers

    assert asked(1) == []
    assert asked(5) == [500], "an answer may be lost"
    assert asked(0, f.ProducerLooked(bench.now_ns, 500, None)) == []
    assert asked(5) == [500], "the answer may change"
    assert asked(1, f.RunnerStarted(bench.now_ns, "canary-0", "test")) == [500], "nobody answers a former process"
    assert asked(0, f.ProducerLooked(bench.now_ns, 500, 1)) == []
    assert asked(100) == []


def test_a_phantom_stays_one_when_it_is_read_again_after_a_restart() -> None:
    bench = put_back()
    strangers(bench)
    bench.looked_up(500)
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.settle()
    for _ in range(2):
        bench.fold(f.Polled(bench.now_ns, "reread-900", RC, TOPIC, 0, bench.end - 1, 500, 1, 0))
        bench.fold(f.ProducerLooked(bench.now_ns, 500, None))
    assert [kind for kind, *_ in bench.found()] == ["phantom"]


def test_a_phantom_is_said_though_the_canary_starts_again_before_it_is_certain() -> None:
    bench = put_back()
    wrong = strangers(bench)
    bench.fold(f.ProducerLooked(bench.now_ns, 500, None))
    bench.now_ns += S
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.settle()
    bench.looked_up(500)
    assert bench.found() == wrong


def test_what_is_in_doubt_is_forgotten_with_the_incarnation_that_it_was_in() -> None:
    bench = put_back()
    strangers(bench)
    bench.fold(f.ProducerLooked(bench.now_ns, 500, None))
    bench.topic_id, bench.end, bench.log, bench.epoch = "incarnation-2", 0, {}, 0
    bench.round()
    bench.looked_up(500)
    assert bench.found("phantom") == []
    assert (bench.tracker.state.doubts, bench.tracker.state.lookups) == ({}, {})


def test_what_a_former_start_promised_is_still_judged_after_a_new_one() -> None:
    bench = put_back()
    del bench.log[1]
    bench.epoch += 1  # the tail is read again
    bench.settle()
    assert bench.found() == [("lost-write", 1, 1)]


def test_a_generation_that_a_killed_start_could_not_write_down_is_no_phantom() -> None:
    bench = put_back((PRODUCER, 2, 0))
    assert bench.found() == []
    assert bench.tracker.drain().unknown_producers == []


def test_what_took_over_from_a_stream_are_later_generations_and_later_starts() -> None:
    tracker = Tracker()

    def began(producer_id: int, generation: int, mode: str = "fencing") -> f.GenerationBegan:
        return f.GenerationBegan(1, TOPIC, mode, producer_id, generation)

    started = f.RunnerStarted(1, "canary-0", "test")
    tracker.fold([f.Sent(1, TOPIC, 0, 900, 1, 0, "fencing"), started, began(900, 1), began(900, 2), began(800, 1, "x")])
    (stream,) = tracker.state.topics[TOPIC].streams
    assert list(generations.later(tracker.state, stream)) == [(900, 2)]
    tracker.fold([started, began(100, 3), began(100, 4), began(50, 1, "x")])
    assert list(generations.later(tracker.state, stream)) == [(900, 2), (100, 3), (100, 4)]
    del tracker.state.producers[900]
    assert list(generations.later(tracker.state, stream)) == []


def test_a_zombie_of_a_former_start_is_one() -> None:
    """The present start fenced it and wrote; what it commits after that is above."""
    bench = Bench(mode="fencing")
    bench.fold(f.TransactionBegan(bench.now_ns, "fencing", PRODUCER, 1, 0))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, "fencing", 0))
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "fencing", PRODUCER + 1, 2))
    bench.fold(f.TransactionBegan(bench.now_ns, "fencing", PRODUCER + 1, 2, 0))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER + 1, 2, 0, "fencing", 0))
    bench.fold(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER + 1, 2, 0, 0), f.CommitAsked(1, PRODUCER + 1, 2, 0))
    bench.fold(f.Committed(bench.now_ns, PRODUCER + 1, 2, 0))
    bench.fold(f.Polled(bench.now_ns, RC, RC, TOPIC, 0, 0, PRODUCER + 1, 2, 0, 0))
    bench.fold(f.Polled(bench.now_ns, RC, RC, TOPIC, 0, 2, PRODUCER, 1, 0, 0))
    bench.end = 4
    for _ in range(3):
        bench.round()
    assert bench.found() == [("zombie-write", 2, 0)]


def test_starts_that_wrote_nothing_are_forgotten_but_the_first_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_PRODUCERS_KEPT", 4)
    tracker = Tracker()
    for producer_id in range(100, 110):
        tracker.fold([f.RunnerStarted(1, "r", "1"), f.GenerationBegan(1, TOPIC, "plain", producer_id, 1)])
        if producer_id == 103:
            tracker.fold([f.Sent(1, TOPIC, 0, producer_id, 1, 0, "plain")])
    assert list(tracker.state.producers) == [100, 103, 107, 108, 109]
