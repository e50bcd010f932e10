"""Topics that are watched and gone: named ones, one of a pattern, and all of a pattern."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.topology.state import Watched
from tests.anomalies.online.test_topology import Cluster, stays

LISTED = ("orders", "logs-1", "logs-2", "__consumer_offsets")


def watching(names: list[str], patterns: list[str]) -> Cluster:
    c = Cluster()
    c.tracker.state.topology.watched = Watched(names, patterns)
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.set("probes", 0, 1, "1,2,3")
    for topic in LISTED:
        c.set(topic, 0, 1, "1,2,3")
    c.rounds(2)
    return c


def not_listed(c: Cluster, *topics: str) -> None:
    for topic in topics:
        del c.partitions[topic, 0], c.told[topic, 0]
        c.fold(f.WatchedGone(c.now_ns, c.sample, topic))
    c.rounds(20)


def asked(c: Cluster, *topics: str) -> list[tuple[str, str, str]]:
    c.fold(*(f.WatchedGone(c.now_ns, c.sample + 1, topic, by_name=True) for topic in topics))
    c.round()
    c.rounds(3)
    return sorted((v.kind, v.topic, v.severity) for v in c.open.values())


def ended(c: Cluster, topic_id: str, start: int, end: int) -> None:
    c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", topic_id, 0, start, end, end, 0))


def test_a_named_topic_that_is_gone_is_said_with_what_it_held_once_it_was_asked_for_by_name() -> None:
    c = watching(["orders"], ["*"])
    ended(c, "o-1", 30, 100)
    seen_ns = c.now_ns
    not_listed(c, "orders")
    assert c.open == {}, "it may only be hidden from the canary"
    c.tracker = Tracker.load(c.tracker.dump())
    assert asked(c, "orders") == [("watched-topic-gone", "orders", "critical")]
    (found,) = c.open.values()
    assert (found.topic_id, found.evidence["records"], found.happened_after_ns) == ("o-1", 70, seen_ns)
    assert "70 records" in found.summary
    assert asked(c, "orders") == [("watched-topic-gone", "orders", "critical")]
    assert len(c.said) == 1


@pytest.mark.parametrize(
    ("names", "end", "was_gone", "severity"),
    [
        (["orders"], 100, False, "critical"),
        (["orders"], 100, True, "warning"),
        (["orders"], 30, False, "warning"),
        ([], 100, False, "warning"),
    ],
)
def test_a_named_topic_that_is_made_again_is_critical_if_it_held_records_and_its_end_was_not_said(
    names: list[str], end: int, severity: str, *, was_gone: bool
) -> None:
    c = watching(names, ["*"])
    ended(c, "o-1", 30, end)
    if was_gone:
        not_listed(c, "orders")
        asked(c, "orders")
    for _ in range(2):
        c.set("orders", 0, 2, "1,2,3")
        stays(c, 0, 0, "o-2")
    assert [v.severity for v in c.open.values() if v.kind == "topic-recreated"] == [severity]
    stays(c, 0, 0, "o-3")
    assert [v.severity for v in c.open.values() if v.kind == "topic-recreated"] == [severity, "warning"], "it was empty"


def test_one_topic_of_a_pattern_is_info_and_what_nothing_names_is_nothing() -> None:
    c = watching([], ["logs-*"])
    not_listed(c, "orders", "logs-1")
    assert asked(c, "orders", "logs-1") == [("topic-deleted", "logs-1", "info")]


@pytest.mark.parametrize("pattern", ["logs-*", "*"])
def test_all_topics_of_a_pattern_that_vanish_together_are_critical(pattern: str) -> None:
    c = watching([], [pattern])
    gone = ("logs-1", "logs-2") if pattern == "logs-*" else ("logs-1", "logs-2", "orders")
    not_listed(c, *gone)
    said = asked(c, *gone)
    assert said == [*(("topic-deleted", one, "info") for one in gone), ("watched-topic-gone", pattern, "critical")]
    whole = next(v for v in c.open.values() if v.severity == "critical")
    assert (whole.evidence["topics"], whole.evidence["of"]) == (sorted(gone), len(gone))


def test_a_topic_that_was_made_again_as_it_was_is_left_of_a_pattern() -> None:
    """The sampler tells a place again only where it has changed."""
    c = watching(["orders"], ["*"])
    ended(c, "o-1", 30, 100)
    stays(c, 0, 0, "o-2")
    not_listed(c, "logs-1", "logs-2")
    said = asked(c, "logs-1", "logs-2")
    assert said == [
        ("topic-deleted", "logs-1", "info"),
        ("topic-deleted", "logs-2", "info"),
        ("topic-recreated", "orders", "critical"),
    ]


def test_topics_of_a_pattern_that_vanish_one_after_the_other_are_info_each() -> None:
    c = watching([], ["logs-*"])
    for topic in ("logs-1", "logs-2"):
        not_listed(c, topic)
        asked(c, topic)
    assert {v.severity for v in c.open.values()} == {"info"}


def test_a_topic_that_is_listed_again_is_not_gone() -> None:
    c = watching(["orders"], [])
    not_listed(c, "orders")
    c.set("orders", 0, 1, "1,2,3")
    c.round()
    assert asked(c, "orders") == []
