"""What explains that the start of a log moves, and what does not; and what is forgotten then."""

from __future__ import annotations

import pytest

from canary import facts as f
from tests.support.bench import RC, RU, TOPIC, Bench

WEEK_MS = 7 * 86_400_000


def moved(retention_ms: int, retention_bytes: int, policy: str, *, days: int = 0) -> Bench:
    """Let the start pass two read probes after so many days, under the given settings."""
    bench = Bench()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, retention_ms, retention_bytes, policy, 2))
    bench.write(4)
    bench.settle(2)
    bench.now_ns += days * 86_400 * 10**9
    bench.start = 2
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, retention_ms, retention_bytes, policy, 2))
    bench.settle()
    return bench


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "policy", "days"),
    [(WEEK_MS, -1, "delete", 8), (WEEK_MS, 1000, "delete", 0), (WEEK_MS, -1, "compact", 0), (-1, 1000, "delete", 0)],
)
def test_what_the_settings_explain_is_no_early_expiry(
    retention_ms: int, retention_bytes: int, policy: str, days: int
) -> None:
    assert moved(retention_ms, retention_bytes, policy, days=days).found() == []


@pytest.mark.parametrize(("retention_ms", "days"), [(WEEK_MS, 0), (WEEK_MS, 6), (-1, 0), (-1, 100)])
def test_what_they_do_not_explain_is_one(retention_ms: int, days: int) -> None:
    assert moved(retention_ms, -1, "delete", days=days).found() == [("early-expiry", 0, -1)]


def test_nothing_below_the_start_is_remembered() -> None:
    bench = moved(WEEK_MS, -1, "delete", days=8)
    (log,) = bench.tracker.state.topics[TOPIC].logs.values()
    assert log.promised.first() == 2
    assert log.claims.keys[0] == 2
    assert bench.tracker.state.topics[TOPIC].streams[0].places.keys[0] == 2


def test_what_was_in_doubt_and_stands_above_the_start_is_no_copy_when_it_is_read() -> None:
    bench = Bench()
    bench.append(*bench.send(2))
    bench.restart()
    bench.round()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 1
    bench.round()
    bench.settle()
    assert bench.found() == []


def test_a_retention_that_was_lowered_to_empty_the_topic_and_raised_again_is_no_early_expiry() -> None:
    bench = Bench()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 1000, -1, "delete", 2))
    bench.write(4)
    bench.settle(3)
    bench.start = 2
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, -1, "delete", 2))
    bench.settle()
    assert bench.found() == []
    bench.start = 4
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, -1, "delete", 2))
    bench.settle()
    assert bench.found() == [("early-expiry", 2, -1)]


def test_nobody_waits_for_what_expired() -> None:
    bench = Bench()
    bench.positions["rack-a"] = 0
    bench.fold(f.Positioned(bench.now_ns, "rack-a", RC, TOPIC, 0, 0, "start"))
    bench.write(4)
    bench.poll(RC, RU)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 3
    bench.round()
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    assert list(stream.unseen["rack-a"]) == [(3, 4)]
    assert bench.tracker.state.meters[TOPIC, 0].unverified == {}
