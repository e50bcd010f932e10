"""What explains that the start of a log moves, and what does not; and what is forgotten then."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.rules import retention
from canary.anomalies.online.rules.retention import sending_step_ns
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import State, Topic
from canary.anomalies.online.stream import Stream
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    [(WEEK_MS, -1, "delete", 8), (WEEK_MS, 1000, "delete", 8), (WEEK_MS, -1, "compact,delete", 8)],
)
def test_what_the_settings_explain_is_no_early_expiry(
    retention_ms: int, retention_bytes: int, policy: str, days: int
) -> None:
    assert moved(retention_ms, retention_bytes, policy, days=days).found() == []


@pytest.mark.parametrize(("retention_ms", "days"), [(WEEK_MS, 0), (WEEK_MS, 6), (-1, 0), (-1, 100)])
def test_what_they_do_not_explain_is_one(retention_ms: int, days: int) -> None:
    assert moved(retention_ms, -1, "delete", days=days).found() == [("early-expiry", 0, -1)]


@pytest.mark.parametrize(("retention_bytes", "days"), [(-1, 0), (1000, 0), (-1, 8)])
def test_compaction_alone_moves_no_log_start(retention_bytes: int, days: int) -> None:
    """Without the policy delete neither retention.ms nor retention.bytes is in force."""
    assert moved(WEEK_MS, retention_bytes, "compact", days=days).found() == [("early-expiry", 0, -1)]


def test_a_listed_start_is_not_believed_over_a_fetch_below_it() -> None:
    """All brokers list a start that is too high, for a minute: nothing is gone, and what is lost then is found."""
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    bench.listed_start, asked = 4, bench.tracker.state.next_request
    bench.settle(60)
    assert bench.found() == []
    assert asked < bench.tracker.state.next_request <= asked + 7  # one question in ten seconds
    (log,) = bench.tracker.state.topics[TOPIC].logs.values()
    assert (log.start, list(log.promised)) == (0, [(0, 10)])
    bench.listed_start = None
    bench.truncate(2)
    bench.settle()
    assert [offset for _, offset, _ in bench.found("lost-write")] == list(range(2, 10))


def test_a_start_that_no_fetch_contradicts_is_asked_for_once_at_a_time() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    bench.start, bench.answering, asked = 4, False, bench.tracker.state.next_request
    bench.settle(5)
    assert bench.tracker.state.next_request == asked + 1
    assert bench.found() == []
    bench.answering = True
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, -1, "delete", 2))
    bench.settle()
    assert bench.found() == [("early-expiry", 0, -1)]


def test_an_early_deletion_is_said_by_the_settings_that_were_read_while_it_was_asked_about() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    bench.start, bench.answering = 4, False
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, -1, "delete", 2))
    bench.answering = True
    bench.settle(4)
    assert bench.found() == [("early-expiry", 0, -1)]


def test_what_was_sent_at_an_unknown_time_is_not_old() -> None:
    """A process whose clock was ahead wrote it, and its times are forgotten."""
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    (log,) = bench.tracker.state.topics[TOPIC].logs.values()
    log.timeline.clear()
    bench.listed_start = 4
    bench.settle(5)
    assert list(log.promised) == [(0, 10)]


TB = 10**12


def emptied(before: int | None, after: int | None, retention_bytes: int, *, measured_s: int = 10) -> Bench:
    """Let the whole log go, with 1,000 probes that are seconds old; it was measured so long before."""
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, retention_bytes, "delete", 2))
    bench.write(1000)
    bench.settle(2)
    if before is not None:
        bench.fold(f.LogSized(bench.now_ns, TOPIC, 0, before))
    bench.now_ns += measured_s * SECOND_NS
    bench.start = 1000
    bench.round()
    if after is not None:
        bench.fold(f.LogSized(bench.now_ns, TOPIC, 0, after))
    told_again(bench, retention_bytes)
    return bench


def told_again(bench: Bench, retention_bytes: int | None) -> None:
    """Tell the settings now, and once more when a size of the log is not waited for any longer."""
    age_ms, policy = (None, None) if retention_bytes is None else (WEEK_MS, "delete")
    for later_s in (0, 121):
        bench.now_ns += later_s * SECOND_NS
        bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, age_ms, retention_bytes, policy, 2))
        bench.settle()


def test_a_size_that_is_told_after_the_settings_is_waited_for() -> None:
    """After a long stop the settings are known in the first round, and sizes are asked for ten seconds later."""
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, TB, "delete", 2))
    bench.write(1000)
    bench.settle(2)
    bench.start = 1000
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, TB, "delete", 2))
    bench.fold(f.LogSized(bench.now_ns, TOPIC, 0, TB))
    told_again(bench, TB)
    assert bench.found() == []


EARLY, UNEXPLAINED = [("early-expiry", 0, -1)], [("unexplained-expiry", -1, -1)]


@pytest.mark.parametrize(
    ("before", "after", "retention_bytes", "said"),
    [
        (100_000, 0, TB, EARLY),
        (100_000, None, TB, EARLY),
        (None, 0, TB, EARLY),
        (TB, TB, TB, []),
        (TB + 10**9, None, TB, []),
        (None, TB + 1, TB, []),
        (TB // 2 + 1, None, TB, []),
        (None, None, TB, UNEXPLAINED),
        (TB, 0, TB, UNEXPLAINED),
        (0, 10**6, 10**6, UNEXPLAINED),
    ],
)
def test_size_explains_only_what_is_gone_of_a_log_that_was_as_large_as_retention_bytes(
    before: int | None, after: int | None, retention_bytes: int, said: list[tuple[str, int, int]]
) -> None:
    assert emptied(before, after, retention_bytes).found() == said


def test_a_size_that_was_measured_long_ago_is_none() -> None:
    assert emptied(TB, None, TB, measured_s=601).found() == UNEXPLAINED
    assert emptied(100, None, TB, measured_s=601).found() == UNEXPLAINED


def test_what_is_unknown_is_said_as_unknown_with_its_count_once_for_a_topic() -> None:
    bench = emptied(None, None, TB)
    (said,) = [one for one in bench.said if one.kind == "unexplained-expiry"]
    assert (said.severity, said.partition) == ("warning", None)
    assert said.summary == (
        "probes-0: the log now begins at 1000: 1000 promised records are gone, and it is unknown whether by retention: "
        "retention.bytes=1000000000000 may explain it, and the size of the log is not known well enough"
    )
    assert said.evidence["count"] == 1000
    bench.write(10)
    bench.settle(2)
    bench.start = 1010
    bench.round()
    told_again(bench, TB)
    assert bench.found() == UNEXPLAINED


def test_settings_that_are_not_known_excuse_nothing() -> None:
    bench = Bench()
    bench.write(4)
    bench.settle(2)
    bench.start = 2
    bench.round()
    told_again(bench, None)
    assert bench.found() == UNEXPLAINED
    assert "the settings in force are not known" in next(iter(bench.violations.values())).summary


@pytest.mark.parametrize(("later_s", "said"), [(5, []), (90, EARLY)])
@pytest.mark.parametrize("now", [(WEEK_MS, TB, "delete"), (WEEK_MS, 1000, "compact")])
def test_a_retention_by_size_that_was_in_force_just_before_may_have_deleted(
    now: tuple[int, int, str], later_s: int, said: list[tuple[str, int, int]]
) -> None:
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, 1000, "delete", 2))
    bench.write(10)
    bench.settle(3)
    bench.fold(f.LogSized(bench.now_ns, TOPIC, 0, 5000), f.TopicConfigured(bench.now_ns, TOPIC, *now, 2))
    bench.now_ns += later_s * SECOND_NS
    bench.start = 5
    bench.round()
    bench.fold(f.LogSized(bench.now_ns, TOPIC, 0, 1000), f.TopicConfigured(bench.now_ns, TOPIC, *now, 2))
    bench.settle()
    assert bench.found() == said


def test_the_size_of_another_cluster_s_log_explains_nothing() -> None:
    bench = Bench(now_ns=NOW_NS)
    bench.round()
    bench.fold(f.LogSized(bench.now_ns, TOPIC, 0, TB))
    bench.fold(f.ClusterSeen(bench.now_ns, bench.sample, "another", "1"))
    assert bench.tracker.state.topics[TOPIC].logs[0].size is None


SECOND_NS = 10**9
NOW_NS = 1_790_000_000 * SECOND_NS


def starts_at(bench: Bench, start: int, retention_ms: int) -> list[tuple[str, int | None, int | None]]:
    """Let the start of the log move, and the retention be asked for; return what is said."""
    bench.start = start
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, retention_ms, -1, "delete", 2))
    bench.settle()
    return bench.found()


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(("waited_s", "said"), [(20, []), (10, [("early-expiry", 0, -1)])])
def test_a_record_is_as_old_as_its_sending_however_long_its_acknowledgement_took(
    waited_s: int,
    said: list[tuple[str, int, int]],
    *,
    read: bool,
) -> None:
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 20_000, -1, "delete", 2))
    sent_ns = bench.now_ns
    bench.send(2)
    for _ in range(waited_s):  # the end of the log is looked at all the while
        bench.round()
    for sequence, offset in enumerate(bench.append(0, 1)):
        if read:  # by whom it is promised, without an acknowledgement
            for name in (RC, RU):
                polled = f.Polled(bench.now_ns, name, name, TOPIC, 0, offset, PRODUCER, 1, sequence, None, None, None)
                bench.fold(dataclasses.replace(polled, sent_at_ns=sent_ns))
            bench.positions = {RC: offset + 1, RU: offset + 1}
        else:
            bench.ack(sequence, offset)
    if not read:
        bench.settle(1)
    assert starts_at(bench, 2, 20_000) == said


def blocks(n: int, each_s: int) -> Bench:
    """Return a bench with blocks of ten probes each, written and read so many seconds apart."""
    bench = Bench(now_ns=NOW_NS)
    for _ in range(n):
        bench.write(10)
        bench.settle(1)
        bench.now_ns += each_s * SECOND_NS
    return bench


def test_what_was_written_where_a_cut_was_is_as_young_as_it_is() -> None:
    bench = blocks(10, 60)
    bench.truncate(50)
    bench.settle()
    bench.now_ns += 3600 * SECOND_NS
    bench.write(30)
    bench.settle()
    before = bench.found()
    assert [one for one in starts_at(bench, 70, 1800_000) if one not in before] == [("early-expiry", 0, -1)]


def test_of_what_stays_the_age_is_known_though_more_expires_than_once() -> None:
    bench = blocks(10, 60)
    assert starts_at(bench, 35, 300_000) == []
    assert starts_at(bench, 85, 300_000) == [("early-expiry", 35, -1)]


def test_what_a_clock_dated_that_was_ahead_is_no_younger_for_that() -> None:
    bench = Bench(now_ns=NOW_NS)
    bench.write(1)
    bench.now_ns += 7200 * SECOND_NS  # for a while the clock is ahead
    bench.write(9)
    bench.settle()
    bench.now_ns -= 7200 * SECOND_NS
    bench.restart()
    bench.now_ns += 3600 * SECOND_NS
    assert starts_at(bench, 10, 3600_000) == []


def test_what_a_clock_dated_that_was_ahead_is_no_younger_when_another_start_reads_it() -> None:
    bench = Bench(now_ns=NOW_NS)
    (offset,) = bench.append(*bench.send())
    bench.restart()
    polled = f.Polled(bench.now_ns, RC, RC, TOPIC, 0, offset, PRODUCER, 1, 0)
    bench.fold(dataclasses.replace(polled, sent_at_ns=bench.now_ns + 7200 * SECOND_NS))
    bench.positions[RC] = 1
    bench.now_ns += 3600 * SECOND_NS
    assert starts_at(bench, 1, 3600_000) == []


@pytest.mark.parametrize("read_s", [1800, 9000])
def test_what_a_clock_dated_that_was_ahead_is_no_younger_when_it_is_read_again(read_s: int) -> None:
    """Before that time has come, and after: it was acknowledged and read two hours before it says that it was sent."""
    bench = Bench(now_ns=NOW_NS + 7200 * SECOND_NS)
    bench.write(5)
    ahead_ns = bench.now_ns
    bench.settle(2)
    bench.now_ns -= 7200 * SECOND_NS
    bench.restart()
    bench.write(5)
    bench.settle(2)
    bench.now_ns += read_s * SECOND_NS
    polled = f.Polled(bench.now_ns, "reread-9", RC, TOPIC, 0, 0, PRODUCER, 1, 0)
    bench.fold(dataclasses.replace(polled, sent_at_ns=ahead_ns))
    assert starts_at(bench, 8, read_s * 1000) == []


@pytest.mark.parametrize("restarted", [True, False])
def test_what_was_sent_before_the_clock_was_set_back_is_as_old_as_it_is(*, restarted: bool) -> None:
    bench = blocks(10, 60)
    bench.now_ns -= 1200 * SECOND_NS
    if restarted:
        bench.restart()
    bench.settle(2)
    bench.now_ns += 3600 * SECOND_NS
    assert starts_at(bench, 100, 3600_000) == []
    bench.write(10)
    bench.now_ns += 2 * 3600 * SECOND_NS
    bench.settle(2)
    bench.write(10)
    bench.settle(2)
    assert starts_at(bench, 115, 3600_000) == [("early-expiry", 100, -1)], "two retentions later it is forgotten"


def test_what_was_fetched_before_it_expired_makes_no_second_early_expiry() -> None:
    bench = moved(WEEK_MS, -1, "delete")
    bench.fold(f.Polled(bench.now_ns, RC, RC, TOPIC, 0, 1, PRODUCER, 1, 1))
    assert starts_at(bench, 2, WEEK_MS) == [("early-expiry", 0, -1), ("nonmonotonic-poll", 1, -1)]


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


def test_what_was_in_doubt_is_no_copy_when_it_is_read_though_one_that_was_sent_later_is_lost() -> None:
    bench = Bench()
    bench.write(2)
    (doubtful,) = bench.send()
    bench.append(doubtful)
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, doubtful, "timed out"))
    bench.write(2)
    bench.answering = False  # nobody reads it
    bench.round()
    bench.truncate(3)
    for _ in range(6):
        bench.round()
        bench.requests = [one for one in bench.requests if one.start >= 3]
        bench.answer()
    assert bench.found("lost-write") == [("lost-write", 3, 3), ("lost-write", 4, 4)]
    bench.write(1)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 2
    bench.round()
    bench.answering = True
    bench.settle()
    assert bench.found("duplicate") == []


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
    bench.now_ns += 90 * SECOND_NS  # by now every broker has heard of it
    bench.start = 4
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, WEEK_MS, -1, "delete", 2))
    bench.settle()
    assert bench.found() == [("early-expiry", 2, -1)]


def test_nobody_waits_for_what_a_former_process_was_told_without_an_offset_and_has_expired() -> None:
    bench = Bench()
    bench.write(4)
    bench.settle(2)
    (sequence,) = bench.send()
    bench.append(sequence)
    bench.ack(sequence, None)
    bench.restart()
    bench.write(4)
    bench.now_ns += 8 * 86_400 * 10**9
    stream = bench.tracker.state.topics[TOPIC].streams[0]
    for start, waits in ((4, True), (5, False)):
        bench.start = start
        bench.round()
        assert any(map(bool, stream.unseen.values())) == waits
        assert not stream.unplaced, "found by a re-read, or expired"
    assert bench.tracker.state.meters[TOPIC, 0].unverified == {"idempotent": 1}
    assert bench.found() == []


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


@pytest.mark.parametrize(("later_s", "said"), [(5, []), (90, [("early-expiry", 0, -1)])])
def test_what_brokers_deleted_by_a_retention_that_was_just_raised_is_no_early_expiry(
    later_s: int, said: list[tuple[str, int, int]]
) -> None:
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3_000, -1, "delete", 2))
    bench.write(10)
    bench.settle(5)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3600_000, -1, "delete", 2))
    bench.now_ns += later_s * SECOND_NS
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3600_000, -1, "delete", 2))  # asked for again before it is seen
    assert starts_at(bench, 5, 3600_000) == said


@pytest.mark.parametrize(
    ("unseen_s", "lost"), [(30, range(20)), (700, range(10, 20)), (1000, [])], ids=["watched", "one aged", "all aged"]
)
def test_of_a_log_that_was_emptied_while_nobody_looked_what_retention_explains_is_not_lost(
    unseen_s: int, lost: Sequence[int]
) -> None:
    """It may have expired before all disks were wiped; an hour is kept."""
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3_600_000, -1, "delete", 2))
    for _ in range(2):
        bench.write(10)
        bench.settle(1)
        bench.now_ns += 1000 * SECOND_NS
    bench.now_ns += 1630 * SECOND_NS  # the first ten are older than retention, and still there
    bench.round()
    bench.now_ns += unseen_s * SECOND_NS
    bench.log.clear()
    bench.start, bench.end, bench.epoch = 0, 0, 1
    bench.settle()
    assert [offset for kind, offset, _ in bench.found("lost-write")] == list(lost)


def test_of_an_emptied_log_what_was_sent_a_step_after_something_that_may_have_expired_is_lost() -> None:
    """When each record was sent is not remembered: half a minute apart, where an hour is kept."""
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3_600_000, -1, "delete", 2))
    sent_ns = []
    for _ in range(20):
        sent_ns.append(bench.now_ns)
        bench.write(1)
        bench.now_ns += 10 * SECOND_NS
    bench.settle(1)
    bench.now_ns = sent_ns[4] + 3_540 * SECOND_NS  # old enough, as clocks may differ by a minute
    bench.log.clear()
    bench.start, bench.end, bench.epoch = 0, 0, 1
    bench.settle()
    lost = [offset or 0 for _, offset, _ in bench.found("lost-write")]
    assert lost == list(range(lost[0], 20))
    assert sent_ns[4] < sent_ns[lost[0]] <= sent_ns[4] + sending_step_ns(3_600_000)


def test_what_was_in_doubt_when_a_log_began_again_is_as_young_as_it_is() -> None:
    """Its predecessors in the same places were older, and what was acknowledged above was known before it was read."""
    bench = Bench(now_ns=NOW_NS)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3_600_000, -1, "delete", 2))
    bench.write(1)
    bench.settle(1)
    bench.now_ns += 4000 * SECOND_NS
    bench.log.clear()
    bench.start, bench.end, bench.epoch = 0, 0, 1
    sent_ns = bench.now_ns
    in_doubt = bench.send(5)
    bench.fold(*(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, one, "timed out") for one in in_doubt))
    offsets = bench.append(*in_doubt)
    bench.write(5)
    facts = [
        f.Polled(bench.now_ns, RC, RC, TOPIC, 0, offset, PRODUCER, 1, one, sent_at_ns=sent_ns)
        for offset, one in zip(offsets, in_doubt, strict=True)
    ]
    bench.fold(*facts)
    bench.positions[RC] = 5
    bench.settle()
    bench.violations.clear()
    bench.now_ns += 100 * SECOND_NS
    bench.log.clear()
    bench.start, bench.end, bench.epoch = 0, 0, 2
    bench.settle()
    assert [offset for kind, offset, _ in bench.found("lost-write")] == list(range(10))


def test_what_stands_below_a_cut_that_nobody_saw_is_still_promised() -> None:
    bench = blocks(10, 600)
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 3_600_000, -1, "delete", 2))
    bench.truncate(90)
    del bench.log[5]
    bench.settle(1)
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1000))
    bench.settle()
    assert [offset for kind, offset, _ in bench.found("lost-write")] == [5, *range(90, 100)]


@pytest.mark.parametrize(("start", "live", "expired"), [(10, False, 2), (9, False, 0), (10, True, 0)])
def test_promises_without_an_offset_expire_with_all_that_a_dead_process_wrote(
    start: int, expired: int, *, live: bool
) -> None:
    state = State()
    state.topics[TOPIC] = topic = Topic(TOPIC)
    topic.logs[0] = log = Log(0, start=start, before=10)
    stream = Stream(0, PRODUCER, 1, 0, "idempotent", live=live)
    stream.unplaced.add(3, 5)
    topic.streams.append(stream)
    scope = Scope(state)
    retention._expire_unplaced(scope, topic, log)
    assert 2 - stream.unplaced.total == expired
    assert sum(scope.meters(TOPIC, 0).unverified.values()) == expired
