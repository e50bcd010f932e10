"""The judge's order: durable first, then folded, then published, then told."""

from __future__ import annotations

import errno
import os
import queue
import resource
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from canary import facts as f
from canary.anomalies.online import Findings, Tracker
from canary.anomalies.violation import RereadRequest
from canary.runner.publishing import judge as judging
from canary.runner.publishing import snapshot
from canary.runner.publishing.inbox import FactQueue
from canary.runner.publishing.judge import Judge
from canary.threads.ports import SteadyClock
from storage.ledger import Ledger
from tests.support.contexts import context
from tests.support.disk import disk_with
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import Violation


@dataclass
class Flushed:
    """A flusher that keeps all it is given, for a store that is away."""

    said: list[Violation] = field(default_factory=list)
    over: list[Violation] = field(default_factory=list)
    changes: list[TopologyChange] = field(default_factory=list)
    shown: int = 17
    woken: threading.Event = field(default_factory=threading.Event)

    def report(self, violations: list[Violation], over: list[Violation]) -> None:
        self.said += violations
        self.over += over

    def changed(self, changes: list[TopologyChange]) -> None:
        self.changes += changes

    def undelivered(self) -> list[Violation]:
        return self.said

    def unended(self) -> list[Violation]:
        return self.over


@dataclass
class Bench:
    """A judge that is not started, and all that it is joined to."""

    ledger: Ledger
    full: list[bool]
    """While it holds True, the disk has no room."""
    tracker: Tracker = field(default_factory=Tracker)
    inbox: FactQueue = field(default_factory=FactQueue)
    findings: queue.SimpleQueue[Findings] = field(default_factory=queue.SimpleQueue)
    flushed: Flushed = field(default_factory=Flushed)

    def judge(self, fsync_interval: float = 60.0) -> Judge:
        flusher: Any = self.flushed
        shared = context(inbox=self.inbox)
        judge = Judge(shared, self.ledger, self.tracker, findings=self.findings, flusher=flusher)
        judge._fsync_interval = fsync_interval
        return judge


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    full = [False]

    def fsync(descriptor: int) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(descriptor)

    with Ledger(tmp_path, disk=disk_with(fsync=fsync), segment_bytes=3000, segment_age_s=3600) as ledger:
        yield Bench(ledger, full)


def seen(sample: int, partitions: int) -> list[f.Fact]:
    now = SteadyClock().now_ns()
    return [f.WatchAsked(now, sample), f.TopicSeen(now, sample, "t", "id", partitions)]


def refused(code: str = "SASL_AUTHENTICATION_FAILED") -> f.Fact:
    """Something that is said at once."""
    return f.ClientError(SteadyClock().now_ns(), "tail", code, "no")


def remembered(directory: Path) -> list[f.Fact]:
    with Ledger(directory) as ledger:
        return [fact for batch in ledger.recover().facts for fact in batch]


def test_added_partitions_are_published_before_anybody_is_told_to_go_there(bench: Bench) -> None:
    """Else who renews its clients finds the old number, and nobody comes back to it (it did, now and then)."""
    judge = bench.judge()
    assert judge._judge(seen(1, 3))
    assert bench.findings.get_nowait().renewed == []
    assert judge._judge(seen(2, 5))
    assert bench.findings.get_nowait().renewed == ["t"]
    assert [topic.partitions for topic in judge.published.topics] == [5]


def test_nothing_is_folded_before_it_is_durable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full the judge says so once, tries again and again, and goes on as soon as there is room."""
    judge = bench.judge()
    tried = []

    def room_at_the_third_try(_seconds: float) -> bool:
        assert judge.blocked is not None
        assert bench.inbox.paused
        tried.append((bench.tracker.state.ordinal, judge.published))
        bench.full[0] = len(tried) < 3
        return False

    monkeypatch.setattr(judge.stopping, "wait", room_at_the_third_try)
    bench.full[0] = True
    with structlog.testing.capture_logs() as lines:
        assert judge._judge([refused()])
    assert [line["event"] for line in lines if line["log_level"] in {"info", "error"}] == [
        "ledger_write_failed",
        "ledger_blocked",
        "ledger_goes_on",
    ]
    assert [ordinal for ordinal, _ in tried] == [0, 0, 0]
    assert judge.blocked is None
    assert not bench.inbox.paused
    assert bench.tracker.state.ordinal == 1
    assert [violation.kind for violation in bench.flushed.said] == ["blind"]


def test_while_nothing_can_be_made_durable_this_is_shown_and_the_judge_s_progress_stands(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = bench.judge(fsync_interval=0.001)
    bench.inbox.put([f.Tick(1), f.Tick(2), f.Tick(3)])
    facts = bench.inbox.gather(0.001, 3)
    shown = []

    def room_at_the_third_try(_seconds: float) -> bool:
        shown.append(judge.published)
        bench.full[0] = len(shown) < 3
        return False

    monkeypatch.setattr(judge.stopping, "wait", room_at_the_third_try)
    bench.full[0] = True
    before = judge.published.judged_ns
    assert judge._judge(facts)
    values = [{one.name: one.value for one in published.series()} for published in shown]
    assert [one["canary_ledger_pending_rows"] for one in values] == [3, 3, 3]
    assert values[0]["canary_ledger_errors_total"] < values[2]["canary_ledger_errors_total"]
    assert {published.judged_ns for published in shown} == {before}
    assert shown[0].now_ns < shown[2].now_ns
    judge._publish()
    assert judge.published.judged_ns > before
    assert bench.inbox.pending == 0
    assert str(tmp_path) in str(judge.directory)


@pytest.mark.parametrize(("remembered_s", "age_s"), [(None, 60), (-600, 600), (3600, 60)])
def test_a_judge_that_hangs_from_its_start_does_not_look_fresh(
    bench: Bench, remembered_s: int | None, age_s: int
) -> None:
    now_ns = SteadyClock().now_ns()
    if remembered_s is not None:
        bench.tracker.fold([f.Tick(now_ns + remembered_s * 10**9)])
    judge = bench.judge()
    judge._publish()
    assert abs(now_ns - judge.published.judged_ns - age_s * 10**9) < 10 * 10**9
    judge._judge([f.Tick(now_ns)])
    judge._publish()
    assert abs(judge.published.judged_ns - now_ns) < 10 * 10**9


def test_how_far_the_machines_clock_is_ahead_is_durable_before_what_was_seen_since_it_was_set(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, set_ns = SteadyClock().now_ns(), [0]
    monkeypatch.setattr("canary.threads.system.wall_ns", lambda: now_ns + set_ns[0])
    monkeypatch.setattr("canary.threads.system.monotonic_ns", lambda: now_ns)
    judge = bench.judge()
    judge._judge([f.RunnerStarted(now_ns, "r", "1"), f.Tick(1)])
    for set_ns[0] in (7200 * 10**9, 7200 * 10**9 + 10**8, -(10**9)):
        judge._judge([f.Tick(2), f.Tick(3)])
    started = f.RunnerStarted(now_ns, "r", "1", clock_ahead_ns=-(10**9))  # after another cluster has answered
    judge._judge([f.Tick(4), started, f.Tick(5)])
    set_ns[0] = 10**9
    judge._judge([started, f.Tick(6)])
    bench.ledger.close()
    assert remembered(tmp_path)[1:] == [
        *(f.Tick(1), f.ClockSeen(now_ns, 7200 * 10**9), f.Tick(2), f.Tick(3), f.Tick(2), f.Tick(3)),
        *(f.ClockSeen(now_ns, -(10**9)), f.Tick(2), f.Tick(3), f.Tick(4), started, f.Tick(5)),
        *(started, f.ClockSeen(now_ns, 10**9), f.Tick(6)),
    ]
    assert bench.tracker.state.clock_ahead_ns == 10**9


def test_what_is_not_durable_when_the_judge_is_stopped_is_never_judged_and_is_counted(bench: Bench) -> None:
    judge = bench.judge(fsync_interval=0.01)
    bench.full[0] = True
    bench.inbox.put([refused() for _ in range(5)])
    judge.ask_stop()
    judge.run()
    assert bench.tracker.state.ordinal == 0
    assert bench.flushed.said == []
    assert bench.inbox.pending == 5
    assert judge.blocked is not None
    assert "No space left on device" in judge.blocked
    assert str(bench.ledger.directory) in judge.blocked


@pytest.fixture
def no_more_files() -> Iterator[Callable[[bool], None]]:
    """Let this process open no more files, or open them again."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def deny(denied: bool) -> None:  # noqa: FBT001  # as a switch
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]) if denied else limits)

    yield deny
    deny(False)


def test_a_judge_outlives_too_many_open_files(
    bench: Bench, no_more_files: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts go on to the file that is open; what needs another file is tried again."""
    monkeypatch.setattr(judging, "_TICK_S", 3600)
    monkeypatch.setattr(judging, "_SEAL_AGAIN_S", 0.05)
    judge = bench.judge(fsync_interval=0.01)
    judge._judge([f.Tick(1)])
    judge.start()
    try:
        no_more_files(True)
        bench.inbox.put([f.Tick(n) for n in range(1000)])  # the segment is due from here on
        assert judge.wait_for(lambda published: published.ordinal == 1001, 60)
        listed = bench.ledger.errors
        assert judge.wait_for(lambda _: bench.ledger.errors > listed + 4, 60)
        assert judge.failing == f"the ledger {bench.ledger.directory} fails: Too many open files"
        no_more_files(False)
        assert judge.wait_for(lambda _: len(judge.sealed) == 1 and judge.failing is None, 60)
    finally:
        no_more_files(False)
        judge.stop(60)
    assert judge.failure is None


def test_what_was_found_goes_to_the_flusher_and_only_what_is_to_be_done_to_the_runner(bench: Bench) -> None:
    judge = bench.judge()
    judge._judge([refused()])
    assert [violation.kind for violation in bench.flushed.said] == ["blind"]
    later = SteadyClock().now_ns() + 10**12
    judge._judge([f.BrokerSeen(later, 1, 1, "here", None), f.WatchAsked(later, 1)])
    assert bench.flushed.over == []
    judge._judge([f.ClusterSeen(later, 1, "c", "1", 1), f.WatchAsked(later, 2)])
    judge._judge([f.Tick(later)])
    assert [violation.kind for violation in bench.flushed.over] == ["blind"]
    assert [(change.subject, change.detail) for change in bench.flushed.changes] == [("broker", "here")]
    assert bench.findings.empty()


def test_each_reason_to_act_is_told_to_the_runner(bench: Bench) -> None:
    judge = bench.judge()
    reasons = [Findings(renewed=["t"]), Findings(unknown_producers=[7]), Findings(stopped="another cluster"),
               Findings(urgent=True),
               Findings(rereads=[RereadRequest(1, "t", 0, "read_committed", 0, 1, "confirm")])]  # fmt: skip
    for findings in reasons:
        judge._deliver(findings)
        assert bench.findings.get_nowait() is findings
    judge._deliver(Findings())
    assert bench.findings.empty()


def test_a_segment_that_is_due_is_sealed_with_all_that_the_store_has_not_yet(bench: Bench, tmp_path: Path) -> None:
    judge = bench.judge()
    judge._judge([refused()])
    bench.flushed.over = list(bench.flushed.said)
    judge._tidy_ledger()
    assert bench.ledger.sealed() == []
    judge._judge([f.Tick(n) for n in range(1000)])
    judge._tidy_ledger()
    assert len(bench.ledger.sealed()) == 1
    bench.ledger.close()
    with Ledger(tmp_path) as ledger:
        tracker, undelivered, ended, shown = snapshot.unseal(ledger.recover().state)
    assert tracker.state.ordinal == 1001
    assert [violation.kind for violation in undelivered] == ["blind"]
    assert [violation.kind for violation in ended] == ["blind"]
    assert shown == 17


def test_segments_in_the_probe_log_are_dropped_once_and_one_that_is_needed_stays(bench: Bench) -> None:
    judge = bench.judge()
    judge._judge([f.Tick(1)])
    judge._seal()
    judge._seal()
    sealed, before = bench.ledger.sealed()
    told = list[bool]()
    judge.on_sealed = lambda: told.append(True)
    judge._publish()
    judge._publish()
    assert judge.sealed == (sealed, before)
    assert told == [True]
    current = sealed.with_name("segment-0000000003.ledger")
    for path in (current, before, sealed):
        judge.drop(path)
    judge._tidy_ledger()
    assert current.exists()
    assert before.exists()
    assert not sealed.exists()
    assert judge._drops == []


def test_a_seal_that_fails_loses_nothing(bench: Bench, tmp_path: Path) -> None:
    judge = bench.judge()
    judge._judge([f.Tick(1)])
    bench.full[0] = True
    judge._seal()
    bench.full[0] = False
    judge._judge([f.Tick(2)])
    bench.ledger.close()
    assert remembered(tmp_path) == [f.Tick(1), f.Tick(2)]


def test_what_is_published_is_of_now_and_counts_what_waits(bench: Bench) -> None:
    judge = bench.judge()
    before = SteadyClock().now_ns() - 10**9
    judge._judge([f.Tick(5)])
    bench.inbox.put([f.Tick(6), f.Tick(7)])
    bench.full[0] = True
    judge._seal()
    judge._publish()
    published = judge.published
    assert published.ordinal == 1
    assert published.now_ns > before
    assert bench.tracker.state.now_ns > before
    values = {one.name: one.value for one in published.series()}
    assert values["canary_ledger_pending_rows"] == 2
    assert values["canary_ledger_errors_total"] == 2


def test_all_that_waits_is_judged_before_the_end_and_sealed(bench: Bench, tmp_path: Path) -> None:
    judge = bench.judge(fsync_interval=0.01)
    bench.inbox.put([f.Tick(n) for n in range(5)])
    judge.ask_stop()
    judge.run()
    assert judge.published.ordinal == 5
    assert len(judge.sealed) == 1
    with Ledger(tmp_path) as ledger:
        recovery = ledger.recover()
        assert snapshot.unseal(recovery.state)[0].state.ordinal == 5
        assert list(recovery.facts) == []


def test_time_passes_also_where_nothing_happens(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick when there was no fact for a second; what it changes is published, and whoever waits for it sees it."""
    monkeypatch.setattr(judging, "_TICK_S", 0.05)
    judge = bench.judge(fsync_interval=0.01)
    judge._judge([f.Tick(1)])
    judge._seal()
    judge._seal()
    judge.start()
    try:
        assert judge.wait_for(lambda published: published.ordinal >= 3, 60)
        sealed, before = judge.sealed
        judge.drop(sealed)
        assert judge.wait_for(lambda _: judge.sealed == (before,), 60)
        assert not judge.wait_for(lambda published: published.ordinal < 0, 0.01)
    finally:
        judge.stop(60)
    assert judge.failure is None


def test_a_view_is_made_for_the_store_each_second_though_nobody_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_SHOW_S", 0.05)
    judge = bench.judge(fsync_interval=0.01)
    judge.start()
    try:
        for _ in range(3):
            before = judge.published
            in_time(bench.flushed.woken.wait(60), "what is waited for")
            bench.flushed.woken.clear()
            in_time(bench.flushed.woken.wait(60), "what is waited for")
            assert judge.published is not before
    finally:
        judge.stop()


def test_whoever_waits_for_a_view_gets_it_before_the_store(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_SHOW_S", 3600)
    judge = bench.judge(fsync_interval=0.01)
    judge.start()
    try:
        for _ in range(3):
            before = judge.published.ordinal
            bench.inbox.put([f.Tick(1)])
            assert judge.wait_for(lambda published: published.ordinal > before, 60)  # noqa: B023  # called at once
    finally:
        judge.stop()


def test_no_tick_comes_before_its_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_TICK_S", 3600)
    judge = bench.judge(fsync_interval=0.01)
    judge.start()
    try:
        bench.inbox.put([f.Tick(1)])
        assert judge.wait_for(lambda published: published.ordinal > 0, 60)
        again = judge.published.now_ns
        assert judge.wait_for(lambda published: published.now_ns > again, 60)
    finally:
        judge.stop(60)
    assert judge.published.ordinal == 1


def test_while_something_is_in_doubt_facts_are_not_gathered_for_long(bench: Bench) -> None:
    judge = bench.judge(fsync_interval=3600.0)
    gathered = []
    gather, urgent = bench.inbox.gather, iter([True, True, False])

    def gathering(seconds: float, most: int) -> Any:
        gathered.append(seconds)
        if len(gathered) == 4:
            judge.stopping.set()
        return gather(0.0, most) or [f.Tick(SteadyClock().now_ns())]

    bench.inbox.gather = gathering  # type: ignore[method-assign]
    bench.tracker.drain = lambda: Findings(urgent=next(urgent, False))  # type: ignore[method-assign]
    judge.run()
    assert gathered == [3600.0, judging._DOUBT_S, judging._DOUBT_S, 3600.0]
