"""Consecutive probes are taken as one run: the same comes of them as of each by itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from simulation.destruction.probed import positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.facts import Fact

BEGUN: list[Fact] = [
    f.RunnerStarted(1, "canary-0", "test"),
    *(
        f.GenerationBegan(1, topic, "transactional", producer_id, generation)
        for topic in ("t", "u")
        for producer_id in (7, 8)
        for generation in (1, 2)
    ),
    *(f.TransactionBegan(1, "transactional", producer_id, generation, number)
      for producer_id in (7, 8) for generation in (1, 2) for number in (1, 2)),
    *(f.Positioned(1, consumer, "read_committed", topic, partition, 0, "start")
      for consumer in ("a", "b") for topic in ("t", "u") for partition in (0, 1)),
    *(f.Listed(1, 1, topic, partition, 0, 0, 0, 0) for topic in ("t", "u") for partition in (0, 1)),
]  # fmt: skip
SENT = f.Sent(2, "t", 0, 7, 1, 0, "transactional", 1)
ACKED = f.Acked(2, "t", 0, 7, 1, 0, 10, 1_000_000)
POLLED = f.Polled(2, "a", "read_committed", "t", 0, 10, 7, 1, 0, 1)
OTHERS = {"topic": "u", "partition": 1, "producer_id": 8, "generation": 2, "transaction_id": 2, "consumer": "b"}
OTHERS |= {"leader_epoch": 1}


def known(*steps: Sequence[Fact]) -> tuple[bytes, list[str]]:
    """Fold each step at once; return the state and what was said."""
    tracker = Tracker()
    tracker.fold(BEGUN)
    said: list[str] = []
    for facts in steps:
        tracker.fold(facts)
        said += [violation.kind for violation in tracker.drain().violations for _ in range(violation.count)]
    return tracker.dump(), said


@pytest.mark.parametrize("fact", [SENT, ACKED, POLLED], ids=lambda fact: type(fact).__name__)
def test_what_differs_in_anything_is_no_run(fact: f.Sent | f.Acked | f.Polled) -> None:
    """Of three facts in a row the third differs in one field, or its offset or sequence jumps."""
    names = {field.name for field in dataclasses.fields(fact)}

    def nth(n: int, **changed: Any) -> Fact:
        moved: dict[str, Any] = {name: getattr(fact, name) + n for name in ("sequence", "offset") if name in names}
        return dataclasses.replace(fact, **(moved | changed))

    jumps = {name: getattr(fact, name) + 5 for name in ("sequence", "offset") if name in names}
    others: dict[str, object] = {name: OTHERS[name] for name in OTHERS if name in names}
    for name, value in (others | jumps).items():
        facts = [nth(0), nth(1), nth(2, **{name: value})]
        before = [] if isinstance(fact, f.Sent) else [sent(one) for one in facts]
        each = known(before, *([one] for one in facts))
        assert known(before, facts) == each, name


def sent(fact: Fact) -> Fact:
    assert isinstance(fact, (f.Acked, f.Polled))
    place = (fact.topic, fact.partition, fact.producer_id, fact.generation, fact.sequence)
    return f.Sent(fact.at_ns, *place, "transactional", getattr(fact, "transaction_id", 1))


def test_nothing_is_judged_after_a_stop_but_all_is_counted() -> None:
    tracker = Tracker()
    tracker.fold([*BEGUN, f.WatchAsked(2, 1), f.ClusterSeen(2, 1, "one", "1", 1)])
    tracker.fold([f.WatchAsked(3, 2), f.ClusterSeen(3, 2, "another", "1", 1), SENT, SENT])
    findings = tracker.drain()
    assert findings.stopped is not None
    assert tracker.state.ordinal == len(BEGUN) + 6
    assert not any(stream.next_sequence for topic in tracker.state.topics.values() for stream in topic.streams)


def test_the_trackers_time_never_goes_back() -> None:
    tracker = Tracker()
    tracker.fold([f.Tick(50), f.Tick(20)])
    assert tracker.state.now_ns == 50


def test_what_was_drained_is_not_drained_again() -> None:
    tracker = Tracker()
    tracker.fold([f.ClientError(5, "tail", "SASL_AUTHENTICATION_FAILED", "no")])
    assert [violation.kind for violation in tracker.drain().violations] == ["blind"]
    assert tracker.drain().violations == []


def test_positions_are_those_of_the_partitions_that_the_consumer_reads() -> None:
    tracker = Tracker()
    tracker.fold([*BEGUN, f.Positioned(2, "c", "read_committed", "t", 1, 9, "start")])
    assert positions(tracker, "t", "c") == {1: 9}
    assert positions(tracker, "t", "a") == {0: 0, 1: 0}
    assert positions(tracker, "nowhere", "a") == {}
