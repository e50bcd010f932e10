"""call-me-maybe without brokers: the probe topic's loss, its cause and its incident, through tracker and store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from simulation.histories.retelling import one_by_one
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.bench import TOPIC, Bench

if TYPE_CHECKING:
    from pathlib import Path

    from canary.anomalies.online import Findings


@dataclass
class Led(Bench):
    """A bench whose partition has a leader and an ISR, watched once a second; everything found goes to a store."""

    leader: int = 1
    isr: str = "1,2,3"
    store: Store | None = None
    order: list[str] = field(default_factory=list)
    """The kinds of what was found, and what ended."""
    waiting: list[Findings] = field(default_factory=list)

    def fold(self, *facts: f.Fact) -> None:
        self.now_ns += 1_000_000
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        self.requests.extend(findings.rereads)
        for violation in findings.violations:
            self.order.append(violation.kind)
            for one in one_by_one(violation):
                self.violations.setdefault(one.key("t"), one)
        self.order += [f"{one.kind} ended" for one in findings.ended]
        if self.store is not None:
            self.store.violations.record("t", findings.violations)
            if findings.ended:
                self.store.violations.end([violation.key("t") for violation in findings.ended], self.now_ns)

    def round(self) -> None:
        self.sample += 1
        self.now_ns += 1_000_000_000
        n, s = self.now_ns, self.sample
        self.fold(f.WatchAsked(n, s))
        self.fold(
            f.ClusterSeen(n, s, "cluster", "1,2,3"),
            f.TopicSeen(n, s, TOPIC, self.topic_id, 1),
            f.PartitionSeen(n, s, TOPIC, 0, self.leader, "1,2,3", self.isr),
            f.TopologySeen(n, s, "probe"),
            f.TopologySeen(n, s, "all"),
            *([f.Listed(n, s, TOPIC, 0, self.start, self.end, self.end, self.epoch)] if self.leader > 0 else []),
        )
        if self.answering:
            self.answer()


def test_a_lone_leaders_loss_is_told_with_its_cause_in_one_incident(tmp_path: Path) -> None:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        b = Led(store=store)
        b.fold(f.TopicConfigured(b.now_ns, TOPIC, -1, -1, "delete", 1))
        b.write(50)
        b.settle(3)
        b.isr = "1"
        for _ in range(15):
            b.write(2)
            b.settle(1)
        assert b.found() == [("isr-of-one", -1, -1)]
        b.leader = -1
        for _ in range(8):
            b.round()
        b.leader, b.isr = 2, "2"
        b.truncate(50)
        b.settle(20)
        b.isr = "1,2,3"
        b.settle(20)
        kinds = {kind for kind, _, _ in b.found()}
        assert kinds == {"isr-of-one", "offline-partition", "lost-write", "truncation", "unclean-election"}
        assert [(k, o) for k, o, _ in b.found("truncation", "unclean-election")] == [
            ("truncation", 50),
            ("unclean-election", -1),  # suspected at first, which ended when it was proven
            ("unclean-election", 50),
        ]
        assert len(b.found("lost-write")) == 30
        rows = store.violations.page(ViolationFilter(), limit=200).items
        assert len({row.incident_id for row in rows}) == 1
        states = {(row.kind, row.severity): row.state for row in rows if row.kind != "lost-write"}
        assert states == {
            ("isr-of-one", "warning"): "resolved",
            ("offline-partition", "critical"): "resolved",
            ("unclean-election", "info"): "resolved",
            ("unclean-election", "critical"): "open",
            ("truncation", "critical"): "open",
        }
        incident = store.incidents.get(rows[0].incident_id)
        assert incident is not None
        assert (incident.kind, incident.class_, incident.state) == ("lost-write", "data", "open")


@pytest.mark.parametrize("kind", ["offline-partition", "unwritable"])
def test_an_outage_is_not_over_before_what_it_has_taken_is_known(kind: str) -> None:
    """A power cut: whoever is told that it is over a moment before the loss goes back to sleep."""
    b = Led()
    b.write(50)
    b.settle(3)
    b.leader = -1 if kind == "offline-partition" else 1
    (sequence,) = b.send()
    b.answering = False
    for _ in range(70):
        b.sample, b.now_ns = b.sample + 1, b.now_ns + 10**9
        b.fold(f.WatchAsked(b.now_ns, b.sample))
        seen = f.PartitionSeen(b.now_ns, b.sample, TOPIC, 0, b.leader, "1,2,3", "1,2,3")
        b.fold(seen, f.TopologySeen(b.now_ns, b.sample, "probe"))
    assert {one for one, _, _ in b.found()} == {kind}
    b.truncate(40)
    b.answering, b.leader, b.epoch = True, 2, (b.epoch or 0) + 1
    (offset,) = b.append(sequence)
    b.ack(sequence, offset)
    b.settle(20)
    assert len(b.found("lost-write")) == 10
    ended, lost = (next(n for n, one in enumerate(b.order) if one == what) for what in (f"{kind} ended", "lost-write"))
    assert lost < ended


def lone() -> Led:
    """Return a bench of 50 probes whose leader has just become the last in sync."""
    b = Led()
    b.fold(f.TopicConfigured(b.now_ns, TOPIC, -1, -1, "delete", 1))
    b.write(50)
    b.settle(3)
    b.isr = "1"
    return b


def overwritten() -> Led:
    """Return one whose lone leader's 30 probes more are gone, six of their places taken, and whose broker is busy."""
    b = lone()
    b.write(30)
    b.settle(3)
    b.leader, b.isr = 2, "2"
    b.truncate(50)
    b.write(6)  # so the log ends at 56, and what stood at 50 to 55 is gone as well
    b.answering = False  # its log can be listed, and re-reads wait
    return b


def test_an_unclean_election_is_said_with_the_first_that_was_lost_however_late_that_is_found() -> None:
    b = overwritten()
    for _ in range(15):
        b.round()
    assert b.found("unclean-election", "truncation") == [("unclean-election", -1, -1)]
    b.answering = True
    b.settle(20)
    assert [(k, o) for k, o, _ in b.found("truncation", "unclean-election")] == [
        ("truncation", 50),
        ("unclean-election", -1),
        ("unclean-election", 50),
    ]
    assert len(b.found("lost-write")) == 30


def test_an_unclean_election_is_said_although_something_stays_in_doubt() -> None:
    b = overwritten()
    for _ in range(15):
        b.round()
        b.requests = [one for one in b.requests if one.start >= 56]  # the others are never answered
        b.answer()
    for _ in range(135):
        b.round()
    assert ("unclean-election", 56, -1) in b.found("unclean-election")


def test_what_is_lost_of_later_writes_is_not_laid_at_an_earlier_elections_door() -> None:
    b = lone()
    b.settle(3)
    b.leader, b.isr = 2, "2"  # it had rejoined between two samples: nothing is gone
    b.settle(3)
    b.write(10)
    (sequence,) = b.send()
    b.ack(sequence, b.end)  # and stands nowhere
    b.end += 1
    b.write(3)
    b.settle(20)
    assert b.found("lost-write") == [("lost-write", 60, 60)]
    assert b.found("unclean-election") == [("unclean-election", -1, -1)]  # suspected only


def only_on(b: Led, kind: str) -> dict[str, object] | None:
    """Return what the evidence of the one violation of a kind says to stand on the last in sync only."""
    (found,) = (v for v in b.violations.values() if v.kind == kind)
    return found.evidence.get("only_on")


def test_what_was_acknowledged_since_all_were_in_sync_stands_on_the_last_in_sync_only() -> None:
    b = lone()
    b.write(30)
    b.settle(15)
    assert only_on(b, "isr-of-one") == {"brokers": [1], "from_offset": 50, "to_offset": 80}
    b.tracker.state.topics[TOPIC].logs[0].start = 60  # retention took the rest
    b.leader, b.isr = -1, ""
    b.settle(8)
    assert only_on(b, "offline-partition") == {"brokers": [1], "from_offset": 60, "to_offset": 80}


def test_nothing_stands_on_a_few_only_while_all_are_in_sync() -> None:
    b = Led()
    b.write(50)
    b.settle(3)
    b.leader = -1
    b.settle(8)
    assert only_on(b, "offline-partition") is None


def test_an_election_is_not_blamed_for_what_was_lost_by_itself() -> None:
    b = lone()
    b.settle(3)
    b.leader, b.isr, b.epoch = 2, "2", b.epoch + 1
    del b.log[49]  # the last one before it
    b.settle(40)
    assert b.found() == [("isr-of-one", -1, -1), ("lost-write", 49, 49), ("unclean-election", -1, -1)]
