"""Topics that are not ours: only changes are told, and ten thousand partitions cost little."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from canary.facts import Fact, WatchedGone, WatchedPartition
from canary.watching.other_topics import OtherTopics
from canary.watching.selection import Selection
from storage.store import Store
from storage.store.values import TopologyFilter
from tests.support import stores
from tests.support.metadata import Rounds, metadata

if TYPE_CHECKING:
    from pathlib import Path


MOST_CPU_S = 3.0
"""Less than 1 on a quiet machine; what grew with the square of partitions would take minutes."""


def told(others: OtherTopics, answer: Any, sample: int = 1) -> list[Fact]:
    return others.seen(answer, ["probes"], sample, sample, time.thread_time())


def test_what_was_told_is_not_told_again_and_a_change_is_told_alone() -> None:
    others = OtherTopics(Selection(["*"]))
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


def test_settings_that_nobody_told_are_asked_for_again_soon_and_those_that_were_told_a_minute_later() -> None:
    now = [0.0]
    others = OtherTopics(Selection(["*"]), monotonic=lambda: now[0])
    told(others, metadata({"orders": 1}, {("orders", 0): (1, [1])}))
    assert others.unconfigured() == ["orders"]
    others.unanswered("orders")
    assert others.unconfigured() == []
    now[0] = 4.0
    assert others.unconfigured() == ["orders"]
    others.configured("orders", 1, 0)
    now[0] = 60.0
    assert others.unconfigured() == []
    now[0] = 65.0
    assert others.unconfigured() == ["orders"]


def test_a_topic_is_gone_when_two_answers_do_not_have_it() -> None:
    others = OtherTopics(Selection(["*"]))
    told(others, metadata({"a": 1, "b": 1}))
    assert told(others, metadata({"a": 1})) == []
    assert told(others, metadata({"a": 1})) == [WatchedGone(1, 1, "b")]
    assert told(others, metadata({"a": 1})) == []


def test_a_broker_that_knows_nothing_yet_is_not_believed_unless_no_other_answers_for_long() -> None:
    now = [0.0]
    others = OtherTopics(Selection(["*"]), monotonic=lambda: now[0])
    told(others, metadata({"a": 1, "b": 1}))
    for now[0] in (1.0, 5.0, 9.0):
        assert told(others, metadata({})) == []
    told(others, metadata({"a": 1, "b": 1}))
    for now[0] in (10.0, 19.0, 20.0):
        assert told(others, metadata({})) == []
    now[0] = 21.0
    assert told(others, metadata({})) == [WatchedGone(1, 1, "a"), WatchedGone(1, 1, "b")]


def test_what_is_not_listed_any_more_is_asked_for_by_name_until_that_is_answered() -> None:
    now = [0.0]
    others = OtherTopics(Selection(["orders", "back", "hidden"]), ["former"], monotonic=lambda: now[0])
    told(others, metadata({"orders": 1, "back": 1, "hidden": 1}))
    told(others, metadata({"else": 1}))
    assert len(told(others, metadata({"else": 1}))) == 3
    now[0] = 9.0
    assert others.doubted() == []
    told(others, metadata({"back": 1}))
    now[0] = 10.0
    assert others.doubted() == ["hidden", "orders"], "the former one is not watched"
    assert others.asked("orders", KafkaError(KafkaError._TIMED_OUT), 1, 1) == []
    assert others.asked("hidden", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), 1, 1) == []
    assert others.doubted() == ["orders"]
    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert others.asked("orders", unknown, 2, 3) == [WatchedGone(3, 2, "orders", by_name=True)]
    assert others.asked("orders", unknown, 3, 4) == []


def test_only_what_was_selected_is_watched() -> None:
    others = OtherTopics(Selection(["orders-*"], ["payments:1"]))
    told(others, metadata({"orders-1": 1, "payments": 3, "else": 1}))
    assert others.named([]) == ["payments"]
    assert others.partitions("payments") == [1]
    assert others.partitions("orders-1") == others.partitions("else") == []


def test_a_round_of_ten_thousand_partitions_costs_little_and_stores_changes_only(tmp_path: Path) -> None:
    topics = {f"topic-{number}": 100 for number in range(100)}
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        a_round = Rounds(store, "topic-0")
        first = a_round(metadata(topics))
        assert first.rows == 10_000
        quiet = metadata(topics)
        rounds = [a_round(quiet) for _ in range(10)]
        assert [cost.rows for cost in rounds] == [0] * 10
        assert first.judged < MOST_CPU_S
        assert statistics.median(cost.judged + cost.stored for cost in rounds) < MOST_CPU_S
        assert a_round(metadata(topics, {("topic-7", 3): (2, [2, 3])})).rows == 1
        spans = store.topology.spans(TopologyFilter("t")).items
        assert len(spans) == 10_001
        assert {span.leader_epoch for span in spans if span.topic == "topic-0"} == {1}
        assert len(a_round.tracker.dump()) < 4_000_000, "bytes of a snapshot"


def test_a_topic_that_is_remembered_and_that_there_is_not_any_more_is_gone() -> None:
    """It was deleted, or is not watched any more, while no watcher looked."""
    others = OtherTopics(Selection([]), ["old", "ours"])
    assert others.due()
    found = [one for n in range(3) for one in told(others, metadata({"another": 1}), n)]
    assert found == [WatchedGone(1, 1, "old"), WatchedGone(1, 1, "ours")]
    assert not others.due()
