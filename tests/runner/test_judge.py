"""The judge's order: durable first, then folded, then published, then told."""

from __future__ import annotations

import errno
import os
import queue
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from canary import facts as f
from canary.anomalies.online import Findings, Tracker
from canary.anomalies.violation import RereadRequest
from canary.client.ports import SteadyClock
from canary.runner import envelope
from canary.runner import judge as judging
from canary.runner.inbox import FactQueue
from canary.runner.judge import Judge
from storage.ledger import Ledger
from storage.ledger.files import Disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import Violation


@dataclass
class Flushed:
    """A flusher that keeps all it is given, for a store that is away."""

    said: list[Violation] = field(default_factory=list)
    over: list[Violation] = field(default_factory=list)
    changes: list[TopologyChange] = field(default_factory=list)

    def violations(self, violations: list[Violation]) -> None:
        self.said += violations

    def ended(self, violations: list[Violation]) -> None:
        self.over += violations

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
    blocked: list[bool] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    """How many facts had been folded whenever the judge was blocked or not any more."""

    def judge(self, fsync_interval: float = 60.0) -> Judge:
        def on_blocked(blocked: bool) -> None:  # noqa: FBT001  # the judge's way to call it
            self.blocked.append(blocked)
            self.ordinals.append(self.tracker.state.ordinal)

        flusher: Any = self.flushed
        return Judge(
            self.ledger,
            self.tracker,
            inbox=self.inbox,
            findings=self.findings,
            flusher=flusher,
            clock=SteadyClock(),
            fsync_interval=fsync_interval,
            on_blocked=on_blocked,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    full = [False]

    def fsync(descriptor: int) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(descriptor)

    with Ledger.open(tmp_path, disk=Disk(fsync=fsync), segment_bytes=3000, segment_age_s=3600) as ledger:
        yield Bench(ledger, full)


def seen(sample: int, partitions: int) -> list[f.Fact]:
    now = SteadyClock().now_ns()
    return [f.WatchAsked(now, sample), f.TopicSeen(now, sample, "t", "id", partitions)]


def refused(code: str = "SASL_AUTHENTICATION_FAILED") -> f.Fact:
    """Something that is said at once."""
    return f.ClientError(SteadyClock().now_ns(), "tail", code, "no")


def remembered(directory: Path) -> list[f.Fact]:
    with Ledger.open(directory) as ledger:
        return [fact for batch in ledger.recover().facts for fact in batch]


def test_added_partitions_are_published_before_anybody_is_told_to_go_there(bench: Bench) -> None:
    """Else who renews its clients finds the old number, and nobody comes back to it (it did, now and then)."""
    judge = bench.judge()
    assert judge._judge(seen(1, 3))
    assert bench.findings.empty()
    assert judge._judge(seen(2, 5))
    assert bench.findings.get_nowait().renewed == ["t"]
    assert [topic["partitions"] for topic in judge.published.view["topics"]] == [5]


def test_nothing_is_folded_before_it_is_durable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full the judge says so once, tries again and again, and goes on as soon as there is room."""
    judge = bench.judge()
    tried = []

    def room_at_the_third_try(_seconds: float) -> bool:
        tried.append(bench.tracker.state.ordinal)
        bench.full[0] = len(tried) < 3
        return False

    monkeypatch.setattr(judge.stopping, "wait", room_at_the_third_try)
    bench.full[0] = True
    assert judge._judge([refused()])
    assert bench.blocked == [True, False]
    assert tried == [0, 0, 0]
    assert bench.ordinals == [0, 0]
    assert bench.tracker.state.ordinal == 1
    assert [violation.kind for violation in bench.flushed.said] == ["blind"]


def test_what_is_not_durable_when_the_judge_is_stopped_is_never_judged(bench: Bench) -> None:
    judge = bench.judge()
    bench.full[0] = True
    judge.ask_stop()
    assert not judge._judge([refused()])
    assert bench.tracker.state.ordinal == 0
    assert bench.flushed.said == []


def test_what_was_found_goes_to_the_flusher_and_only_what_is_to_be_done_to_the_runner(bench: Bench) -> None:
    judge = bench.judge()
    judge._judge([refused()])
    assert [violation.kind for violation in bench.flushed.said] == ["blind"]
    later = SteadyClock().now_ns() + 10**12
    judge._judge(
        [f.BrokerSeen(later, 1, 1, "here", None), f.WatchAsked(later, 1), f.ClusterSeen(later, 1, "c", "1", 1)]
    )
    judge._judge([f.Tick(later)])
    assert [violation.kind for violation in bench.flushed.over] == ["blind"]
    assert [(change.subject, change.detail) for change in bench.flushed.changes] == [("broker", "here")]
    assert bench.findings.empty()


def test_each_reason_to_act_is_told_to_the_runner(bench: Bench) -> None:
    judge = bench.judge()
    reasons = [Findings(renewed=["t"]), Findings(unknown_producers=[7]), Findings(stopped="another cluster"),
               Findings(rereads=[RereadRequest(1, "t", 0, "read_committed", 0, 1, "confirm")])]  # fmt: skip
    for findings in reasons:
        judge._tell(findings)
        assert bench.findings.get_nowait() is findings
    judge._tell(Findings())
    assert bench.findings.empty()


def test_a_segment_that_is_due_is_sealed_with_all_that_the_store_has_not_yet(bench: Bench, tmp_path: Path) -> None:
    judge = bench.judge()
    judge._judge([refused()])
    bench.flushed.over = list(bench.flushed.said)
    judge._tidy()
    assert bench.ledger.sealed() == []
    judge._judge([f.Tick(n) for n in range(1000)])
    judge._tidy()
    assert len(bench.ledger.sealed()) == 1
    bench.ledger.close()
    with Ledger.open(tmp_path) as ledger:
        tracker, undelivered, ended = envelope.unseal(ledger.recover().state)
    assert tracker.state.ordinal == 1001
    assert [violation.kind for violation in undelivered] == ["blind"]
    assert [violation.kind for violation in ended] == ["blind"]


def test_segments_in_the_probe_log_are_dropped_once_and_one_that_is_needed_stays(bench: Bench) -> None:
    judge = bench.judge()
    judge._judge([f.Tick(1)])
    judge._seal()
    judge._seal()
    sealed, before = bench.ledger.sealed()
    judge._publish()
    assert judge.published.sealed == (sealed, before)
    current = sealed.with_name("segment-0000000003.ledger")
    for path in (current, before, sealed):
        judge.drop(path)
    judge._tidy()
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
    assert published.facts == 1
    assert published.at_ns > before
    assert bench.tracker.state.now_ns > before
    values = {one.name: one.value for one in published.measurements}
    assert values["canary_ledger_pending_rows"] == 2
    assert values["canary_ledger_errors_total"] == 2


def test_all_that_waits_is_judged_before_the_end_and_sealed(bench: Bench, tmp_path: Path) -> None:
    judge = bench.judge(fsync_interval=0.01)
    bench.inbox.put([f.Tick(n) for n in range(5)])
    judge.ask_stop()
    judge.run()
    assert judge.published.facts == 5
    assert len(judge.published.sealed) == 1
    with Ledger.open(tmp_path) as ledger:
        recovery = ledger.recover()
        assert envelope.unseal(recovery.state)[0].state.ordinal == 5
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
        assert judge.wait_for(lambda published: published.facts >= 3, 60)
        sealed, before = judge.published.sealed
        judge.drop(sealed)
        assert judge.wait_for(lambda published: published.sealed == (before,), 60)
        assert not judge.wait_for(lambda published: published.facts < 0, 0.01)
    finally:
        judge.stop(60)
    assert judge.failure is None


def test_no_tick_comes_before_its_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_TICK_S", 3600)
    judge = bench.judge(fsync_interval=0.01)
    judge.start()
    try:
        bench.inbox.put([f.Tick(1)])
        assert judge.wait_for(lambda published: published.facts > 0, 60)
        again = judge.published.at_ns
        assert judge.wait_for(lambda published: published.at_ns > again, 60)
    finally:
        judge.stop(60)
    assert judge.published.facts == 1
