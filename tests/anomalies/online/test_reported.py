"""What parts report that judge by themselves: a fact has all of it, and its order decides what holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.violation import Records, Violation, reported, violation_of
from canary.probe.identity import Identity
from storage.ledger.codec import decode_facts, encode_facts

S = 10**9
STUCK = Violation(
    kind="group-stuck",
    severity="warning",
    topic="orders",
    topic_id="group app-1",
    at_ns=7 * S,
    by="watch",
    summary="it is stuck",
    evidence={"since_ns": 3 * S, "partitions": [{"partition": 0, "before": 5, "usual_s": 0.5, "now": None}]},
)
GAP = Violation(
    kind="mirror-gap",
    severity="critical",
    topic="dc1.orders",
    topic_id="from dc1:orders",
    partition=3,
    offset=10,
    identity=Identity(7, 1, 3, 20),
    leader_epoch=4,
    mode="idempotent",
    at_ns=8 * S,
    by="watch",
    summary="ein Loch, größer als eins",
    records=(Records(10, 5, Identity(7, 1, 3, 20)), Records(20, 1, None)),
    happened_after_ns=2 * S,
    happened_before_ns=6 * S,
)


def folded(*facts: f.Fact, stopped: str | None = None) -> tuple[list[Violation], list[Violation]]:
    tracker = Tracker()
    tracker.state.stopped = stopped
    tracker.fold(facts)
    found = tracker.drain()
    return found.violations, found.ended


def test_a_fact_has_all_that_is_reported_also_in_the_ledger() -> None:
    facts = reported("group-watcher", [STUCK, GAP], [STUCK])
    assert [(fact.at_ns, fact.part, fact.over) for fact in facts] == [
        (7 * S, "group-watcher", False),
        (8 * S, "group-watcher", False),
        (7 * S, "group-watcher", True),
    ]
    there = decode_facts(encode_facts(facts))
    assert [violation_of(fact) for fact in there if isinstance(fact, f.Reported)] == [STUCK, GAP, STUCK]


def test_a_report_of_a_later_version_is_read_without_the_fields_that_this_one_does_not_know() -> None:
    (fact,) = reported("group-watcher", [STUCK])
    assert violation_of(f.Reported(7, "x", fact.violation[:-1] + ',"of_a_later_version":{"a":1}}')) == STUCK


@pytest.mark.parametrize("stopped", [None, "another cluster answers"])
def test_reports_are_found_as_they_are_also_while_another_cluster_answers(stopped: str | None) -> None:
    facts: list[f.Fact] = [*reported("p", [STUCK]), f.Tick(9 * S), *reported("p", [GAP], [STUCK])]
    assert folded(*facts, stopped=stopped) == ([STUCK, GAP], [STUCK])


def test_what_was_found_in_another_cluster_is_that_alone() -> None:
    known = f.ClusterMet(S, "admin", "here")
    here, there = (
        [replace(one, cluster_id=met) for one in reported("group-watcher", [STUCK], [GAP])] for met in ("here", "there")
    )
    assert folded(known, *here) == ([STUCK], [GAP])
    assert folded(*there) == ([STUCK], [GAP]), "no cluster is known yet"
    said, ended = folded(known, *there)
    assert [(one.kind, one.evidence) for one in said] == [
        ("another-cluster", {"known": "here", "found": "there", "client": "group-watcher"})
    ]
    assert ended == []
    said, ended = folded(known, f.ClusterMet(2 * S, "group-watcher", "there"), *there, *here)
    assert ([one.kind for one in said], ended) == (["another-cluster", "group-stuck"], [GAP])


def test_of_facts_that_are_judged_together_the_order_decides_whether_a_condition_holds() -> None:
    """The ledger could not be written for a while, say. Receivers take violations first, then ends."""
    begins, ends = reported("p", [STUCK]), reported("p", [], [STUCK])
    assert folded(*begins, *ends)[1] == [STUCK]
    assert folded(*ends, *reported("p", [], [GAP]), *begins)[1] == [GAP]
    assert folded(*ends, *begins, *ends)[1] == [STUCK]
