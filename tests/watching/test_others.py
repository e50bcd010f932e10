"""Topics that are not ours: only changes are told, and ten thousand partitions cost little."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from canary.anomalies.online import Tracker
from canary.facts import ClusterSeen, Fact, RunnerStarted, TopologySeen, WatchedGone, WatchedListed, WatchedPartition
from canary.watching.others import Others
from canary.watching.selection import Selection
from storage.store import Store
from storage.store.topology import TopologyFilter

if TYPE_CHECKING:
    from pathlib import Path


def metadata(topics: dict[str, int], changed: dict[tuple[str, int], tuple[int, list[int]]] | None = None) -> Any:
    """What list_topics() returns: every partition led by 1 with a full ISR, but those in ``changed``."""
    found = {}
    for name, count in topics.items():
        partitions = {}
        for number in range(count):
            leader, isr = (changed or {}).get((name, number), (1, [1, 2, 3]))
            partitions[number] = SimpleNamespace(leader=leader, replicas=[1, 2, 3], isrs=isr)
        found[name] = SimpleNamespace(error=None, partitions=partitions)
    return SimpleNamespace(topics=found)


def told(others: Others, answer: Any, sample: int = 1) -> list[Fact]:
    return others.seen(answer, ["probes"], sample, sample, time.thread_time())


def test_what_was_told_is_not_told_again_and_a_change_is_told_alone() -> None:
    others = Others(Selection(["*"]))
    topics = {"orders": 2, "probes": 3}
    assert [
        (f.topic, f.partition, f.isr) for f in told(others, metadata(topics)) if isinstance(f, WatchedPartition)
    ] == [
        ("orders", 0, "1,2,3"),
        ("orders", 1, "1,2,3"),
    ]
    assert told(others, metadata(topics)) == []
    (change,) = told(others, metadata(topics, {("orders", 1): (2, [2, 3])}))
    assert isinstance(change, WatchedPartition)
    assert (change.partition, change.leader, change.isr) == (1, 2, "2,3")
    assert others.moved
    assert others.unconfigured() == ["orders"]
    assert told(others, metadata(topics, {("orders", 1): (2, [3, 2])})) == [], "another order is no change"


def test_a_topic_is_gone_when_two_answers_do_not_have_it() -> None:
    others = Others(Selection(["*"]))
    told(others, metadata({"a": 1, "b": 1}))
    assert told(others, metadata({"a": 1})) == []
    assert told(others, metadata({"a": 1})) == [WatchedGone(1, 1, "b")]
    assert told(others, metadata({"a": 1})) == []


def test_a_broker_that_knows_nothing_yet_is_not_believed() -> None:
    others = Others(Selection(["*"]))
    told(others, metadata({"a": 1, "b": 1}))
    for _ in range(3):
        assert told(others, metadata({})) == []


def test_only_what_was_selected_is_watched() -> None:
    others = Others(Selection(["orders-*"], ["payments:1"]))
    told(others, metadata({"orders-1": 1, "payments": 3, "else": 1}))
    assert others.named([]) == ["payments"]
    assert others.partitions("payments") == [1]
    assert others.partitions("orders-1") == others.partitions("else") == []


def test_a_round_of_ten_thousand_partitions_costs_less_than_a_second_and_stores_changes_only(tmp_path: Path) -> None:
    topics = {f"topic-{number}": 100 for number in range(100)}
    others, tracker = Others(Selection(["*"], ["topic-0"])), Tracker()
    tracker.fold([RunnerStarted(1, "canary-0", "test")])
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        store.upgrade()

        def a_round(sample: int, answer: Any) -> tuple[float, int]:
            at_ns = sample * 10**9
            began = time.process_time()
            facts: list[Fact] = [ClusterSeen(at_ns, sample, "cluster", "1,2,3", 1 + sample % 3)]  # as KRaft tells
            facts += others.seen(answer, [], sample, at_ns, time.thread_time())
            facts.append(TopologySeen(at_ns, sample, "all"))
            facts += [
                WatchedListed(at_ns, sample, "topic-0", "id", number, 0, sample, sample, 1)
                for number in others.partitions("topic-0")
            ]
            tracker.fold(facts)
            cost = time.process_time() - began
            return cost, store.record_topology("t", tracker.drain().changes)

        first, rows = a_round(1, metadata(topics))
        assert rows == 10_000
        quiet = metadata(topics)
        costs, grown = zip(*(a_round(sample, quiet) for sample in range(2, 12)), strict=True)
        assert sum(grown) == 0
        assert first < 1.0
        assert max(costs) < 1.0
        _, grown_by = a_round(12, metadata(topics, {("topic-7", 3): (2, [2, 3])}))
        assert grown_by == 1
        spans = store.topology_spans(TopologyFilter("t"))
        assert len(spans) == 10_001
        assert {span.leader_epoch for span in spans if span.topic == "topic-0"} == {1}
        assert len(tracker.dump()) < 4_000_000, "bytes of a snapshot"
