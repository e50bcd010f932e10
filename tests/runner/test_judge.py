"""The judge's order: what it tells others to act on is published before they are told."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any, cast

from canary import facts as f
from canary.anomalies.online import Findings, Tracker
from canary.client.ports import SteadyClock
from canary.runner.inbox import FactQueue
from canary.runner.judge import Judge
from storage.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path


class Nowhere:
    """A flusher that keeps nothing."""

    def violations(self, _: object) -> None: ...
    def ended(self, _: object) -> None: ...
    def changed(self, _: object) -> None: ...


def seen(sample: int, partitions: int) -> list[f.Fact]:
    now = SteadyClock().now_ns()
    return [f.WatchAsked(now, sample), f.TopicSeen(now, sample, "t", "id", partitions)]


def test_added_partitions_are_published_before_anybody_is_told_to_go_there(tmp_path: Path) -> None:
    """Else who renews its clients finds the old number, and nobody comes back to it (it did, now and then)."""
    findings: queue.SimpleQueue[Findings] = queue.SimpleQueue()
    with Ledger.open(tmp_path) as ledger:
        judge = Judge(
            ledger,
            Tracker(),
            inbox=FactQueue(),
            findings=findings,
            flusher=cast("Any", Nowhere()),
            clock=SteadyClock(),
            fsync_interval=60.0,
            on_blocked=lambda _: None,
        )
        assert judge._judge(seen(1, 3))
        assert findings.empty()
        assert judge._judge(seen(2, 5))
        assert findings.get_nowait().renewed == ["t"]
        assert [topic["partitions"] for topic in judge.published.view["topics"]] == [5]
