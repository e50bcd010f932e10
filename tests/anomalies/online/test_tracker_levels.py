"""Who reads uncommitted is no witness of what read_committed consumers were not given."""

from __future__ import annotations

from canary import facts as f
from tests.support.bench import RC, RU, TOPIC, Bench


def test_a_read_uncommitted_consumer_that_began_later_has_skipped_nothing() -> None:
    bench = Bench()
    sequences = bench.send(3)
    offsets = bench.append(*sequences)
    bench.fold(f.Positioned(bench.now_ns, RU, RU, TOPIC, 0, 3, "start"))
    bench.positions[RU] = 3
    for sequence, offset in zip(sequences, offsets, strict=True):
        bench.ack(sequence, offset)
    bench.round()
    assert bench.requests == []
    bench.settle()
    assert bench.found() == []


def test_what_read_committed_was_given_late_is_not_skipped_because_the_other_waits() -> None:
    bench = Bench()
    bench.write(3)
    for offset in (0, 2, 1):
        bench.deliver(RC, RC, offset, offset + 1)
    bench.positions[RC] = 3
    bench.round()
    bench.round()
    bench.round()
    bench.settle()
    assert bench.found() == [("nonmonotonic-poll", 1, -1)]


def test_what_is_known_to_be_lost_is_not_looked_for_again() -> None:
    bench = Bench()
    bench.send()
    bench.append(0)
    bench.poll()
    bench.truncate(0)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 0, 0)]
    bench.write(1)
    bench.poll()
    bench.ack(0, 0)
    (log,) = bench.tracker.state.topics[TOPIC].logs.values()
    assert [missing for missing in log.missing if missing.sequence == 0] == []


def test_what_only_read_uncommitted_was_not_given_is_no_skip() -> None:
    bench = Bench()
    bench.write(3)
    bench.hidden = {1}
    bench.poll(RU)
    bench.hidden = set()
    bench.round()
    bench.round()
    bench.round()
    bench.settle()
    assert bench.found() == []
