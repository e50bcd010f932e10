"""A client that takes a new producer epoch sends again what is in flight: that copy is its own, and no other one is."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.violation import SENT_AGAIN
from tests.support.bench import PRODUCER, TOPIC, Bench


def bumped(bench: Bench, producer: int = PRODUCER, generation: int = 1) -> f.ProducerEpochBumped:
    return f.ProducerEpochBumped(bench.now_ns, TOPIC, producer, generation, "skipped sequence numbers")


def copied(bench: Bench, *sequences: int) -> list[tuple[int | None, str]]:
    """Append and acknowledge ``sequences`` once more; return offset and severity of what is said."""
    for sequence, offset in zip(sequences, bench.append(*sequences), strict=True):
        bench.ack(sequence, offset)
    bench.settle()
    assert {violation.kind for violation in bench.violations.values()} <= {"duplicate"}
    return sorted((one.offset, one.severity) for one in bench.violations.values())


def test_what_was_in_flight_when_the_epoch_was_bumped_and_stands_twice_is_a_warning_with_its_cause() -> None:
    bench = Bench()
    bench.write(3)
    bench.append(*bench.send(2))
    bench.fold(bumped(bench))
    assert copied(bench, 3, 4) == [(5, "warning"), (6, "warning")]
    one = next(iter(bench.violations.values()))
    assert one.evidence[SENT_AGAIN] is True
    assert "new producer epoch" in one.summary


def test_a_copy_that_is_read_before_the_client_told_of_its_new_epoch_is_a_warning() -> None:
    bench = Bench()
    (sequence,) = bench.send(1)
    bench.append(sequence, sequence)
    bench.poll()
    bench.fold(bumped(bench))
    bench.ack(sequence, 1)
    bench.settle()
    assert [one.severity for one in bench.violations.values()] == ["warning"]


def test_what_had_its_outcome_before_is_the_brokers_copy() -> None:
    bench = Bench()
    bench.write(3)
    bench.append(*bench.send(1))
    bench.fold(bumped(bench))
    assert copied(bench, 2, 3) == [(4, "critical"), (5, "warning")]


def test_what_was_sent_after_it_is_the_brokers_copy() -> None:
    bench = Bench()
    bench.fold(bumped(bench))
    bench.append(*bench.send(1))
    assert copied(bench, 0) == [(1, "critical")]


@pytest.mark.parametrize("whose", [(PRODUCER + 1, 1), (PRODUCER, 2)])
def test_the_epoch_of_another_client_explains_nothing(whose: tuple[int, int]) -> None:
    bench = Bench()
    bench.append(*bench.send(1))
    bench.fold(bumped(bench, *whose))
    assert copied(bench, 0) == [(1, "critical")]


def test_it_is_known_after_a_restart_and_costs_no_more_with_every_bump() -> None:
    bench = Bench()
    for _ in range(1100):  # an outage of a day: each time something was in flight, and something was not
        bench.append(*bench.send(1))
        bench.fold(bumped(bench))
        bench.ack(bench.sequence - 1, bench.end - 1)
        bench.write(1)
    bench.tracker = Tracker.load(bench.tracker.dump())
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    assert len(stream.resent) == 1000
    assert copied(bench, 2198) == [(2200, "warning")]
