"""The tracker against simulated lives whose truth is known: producers, transactions, restarts, leader changes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.probe.identity import Identity
from tests.generators.injections import INJECTIONS
from tests.generators.simulator import simulate
from tests.generators.wild import seeded
from tests.support.soaking import soak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.anomalies.violation import RereadRequest, Violation
    from canary.facts import Fact
    from tests.generators.clockwork import Injected, World

FACT_KINDS = sorted(set(INJECTIONS) - {"G0", "G1c", "int-poll-skip", "int-nonmonotonic-poll", "int-nonmonotonic-send"})
"""Cycles come from the ledger in windows; a stream of deliveries has no operations to be within."""
ECHOES: dict[str, frozenset[str]] = {
    "lost-write": frozenset({"fractured-transaction", "truncation"}),  # the last one before a change of leader: a cut
    "fractured-transaction": frozenset({"lost-write", "truncation"}),
    "truncation": frozenset({"lost-write", "inconsistent-offsets", "poll-skip", "fractured-transaction"}),
    "inconsistent-offsets": frozenset({"lost-write", "fractured-transaction", "truncation"}),
    "nonmonotonic-send": frozenset({"reorder"}),
    "G1a": frozenset({"precommitted-read"}),
    "nonmonotonic-poll": frozenset({"poll-skip"}),
}
"""What else is said of the same thing, from other sides."""
UNTOLD = {"fractured-transaction": "fractured-transaction", "G1a-transaction": "precommitted-read"}
"""What may be said though it is no truth: nobody was told how the transaction ended."""


def judged(seed: int, *kinds: str) -> tuple[World, dict[str, Violation], Tracker]:
    """Live with ``kinds`` injected before the tracker's eyes; return the world, what was found, and the tracker."""
    trackers = [Tracker()]
    found: dict[str, Violation] = {}
    dice = seeded(seed)

    def listen(facts: Sequence[Fact]) -> Sequence[RereadRequest]:
        if dice.random() < 0.01:  # a replay from its own dump must be the same fold
            trackers[0] = Tracker.load(trackers[0].dump())
        trackers[0].fold(facts)
        findings = trackers[0].drain()
        for violation in findings.violations:
            found.setdefault(violation.key("test"), violation)
        return findings.rereads

    world = simulate(seed, inject=kinds, listener=listen)
    return world, found, trackers[0]


def shows(violation: Violation, truth: Injected, *, alone: bool) -> bool:
    """Whether a violation is what was injected: kind, partition, offset and identity."""
    kind = truth.kind
    kinds = {kind, "reorder"} if kind == "nonmonotonic-send" else {kind}
    if violation.kind not in kinds or violation.partition != truth.partition:
        return False
    if kind in ("nonmonotonic-send", "nonmonotonic-poll", "early-expiry"):
        return True
    if violation.identity is not None and truth.identity is not None and violation.identity != truth.identity:
        return False
    if kind == "truncation" and not alone:  # another loss below it may have been found with it
        return violation.offset is not None and truth.offset is not None and violation.offset <= truth.offset
    return truth.offset is None or violation.offset == truth.offset


def promises(facts: Sequence[Fact]) -> set[Identity]:
    """Return who was acknowledged and, if of a transaction, is known to have been committed."""
    committed = {(x.producer_id, x.generation, x.transaction_id) for x in facts if isinstance(x, f.Committed)}
    acked = {identity_of(x) for x in facts if isinstance(x, f.Acked)}
    sent = (x for x in facts if isinstance(x, f.Sent))
    return acked & {
        identity_of(x)
        for x in sent
        if x.transaction_id is None or (x.producer_id, x.generation, x.transaction_id) in committed
    }


def identity_of(fact: f.Sent | f.Acked) -> Identity:
    return Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)


def breaks(seed: int, *kinds: str) -> Counter[str]:
    """Every truth must be found, and nothing else but its echoes. Return the truths."""
    world, found, _ = judged(seed, *kinds)
    truths = [truth for truth in world.injected if truth.facts]
    starts = {truth.key: truth.offset or 0 for truth in truths if truth.kind == "early-expiry"}
    skipped = {(truth.key, truth.offset) for truth in truths if truth.kind == "poll-skip"}
    promised = promises(world.facts())
    for truth in truths:
        if truth.kind != "early-expiry" and truth.offset is not None and truth.offset < starts.get(truth.key, 0):
            continue  # gone with all others before it was looked at again: that they are is said
        if truth.kind == "poll-skip" and truth.identity not in promised:
            continue  # nobody knew that it had to be delivered, unless somebody else happened to read it
        if truth.kind != "poll-skip" and (truth.key, truth.offset) in skipped:
            continue  # broken twice: who was to be given it was not
        assert any(shows(v, truth, alone=len(kinds) == 1) for v in found.values()), (
            seed,
            truth,
            [(v.kind, v.offset) for v in found.values()],
        )
    explained = {truth.kind for truth in truths} | {"topic-recreated"}
    explained |= {UNTOLD[kind] for kind in kinds if kind in UNTOLD}
    explained |= {echo for kind in explained for echo in ECHOES.get(kind, frozenset())}
    strange = {v.kind for v in found.values()} - explained
    assert not strange, (seed, kinds, [(v.kind, v.partition, v.offset, v.identity, v.summary) for v in found.values()])
    return Counter(truth.kind for truth in truths)


def silent(seed: int) -> None:
    world, found, tracker = judged(seed)
    alarms = [(v.kind, v.partition, v.offset, v.summary) for v in found.values() if v.kind != "topic-recreated"]
    assert alarms == [], seed
    assert len(found) == bool(world.void), "one topic-recreated if it was, none if not"
    assert not any(log.held or log.missing for topic in tracker.state.topics.values() for log in topic.logs.values())


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_said_of_a_correct_life(seed: int) -> None:
    silent(seed)


@pytest.mark.parametrize("kind", FACT_KINDS)
def test_what_was_broken_is_said(kind: str) -> None:
    assert sum((breaks(seed, kind) for seed in range(10)), Counter[str]()).total() >= 8


@pytest.mark.parametrize("seed", range(20))
def test_what_was_broken_in_several_ways_is_said(seed: int) -> None:
    breaks(seed, *seeded(seed).sample(FACT_KINDS, 3))


def is_silent(seed: int) -> int:
    silent(seed)
    return 1


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_nothing_is_said_of_ten_thousand_correct_lives() -> None:
    soak("online correct", 10_000, is_silent)


@pytest.mark.slow
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("kind", FACT_KINDS)
def test_what_was_broken_a_thousand_times_is_said_each_time(kind: str) -> None:
    soak(f"online {kind}", 1000, lambda seed: breaks(seed, kind).total())


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_what_was_broken_in_several_ways_a_thousand_times_is_said_each_time() -> None:
    soak("online several", 1000, lambda seed: breaks(seed, *seeded(seed).sample(FACT_KINDS, 3)).total())
