"""What a pass over one partition believes, and what it says is unknown."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from canary.watching.replicas import comparing
from canary.wire.errors import WireError
from tests.anomalies.replicas.model import FakeBatch, batch, record
from tests.watching.replicas.world import World, compared

ROWS = [batch(record(2 * i), record(2 * i + 1)) for i in range(10)]
SHORT = [*ROWS[:3], *ROWS[4:]]


def three(second: list[FakeBatch], third: list[FakeBatch] = ROWS) -> World:
    return World({1: list(ROWS), 2: list(second), 3: list(third)})


def reasons(comparison: comparing.Comparison) -> set[tuple[str, int | None]]:
    return {(reason, broker) for reason, broker in comparison.outcome.unknown}


def test_equal_replicas_are_read_once_and_nothing_is_unknown() -> None:
    world = three(ROWS)
    comparison, said, _ = compared(world)
    assert (said, comparison.outcome.unknown, comparison.outcome.compared_to) == ([], {}, 20)
    assert world.reads == 6, "a window, and the end"


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_a_gap_is_found_whatever_a_broker_gives_at_once(at_once: int) -> None:
    world = three(SHORT)
    world.batches_at_once = at_once
    comparison, said, _ = compared(world)
    assert [(one.brokers, one.how, one.first, one.last) for one in said] == [((2,), "missing", 6, 7)]
    assert comparison.outcome.divergences == said
    assert (comparison.outcome.unknown, comparison.outcome.compared_to) == ({}, 20)


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_long_divergence_is_one_over_all_windows(at_once: int) -> None:
    world = three([replace(one, intact=False) if 2 <= i < 8 else one for i, one in enumerate(ROWS)])
    world.batches_at_once = at_once
    _, said, _ = compared(world)
    assert [(one.brokers, one.how, one.first) for one in said] == [((2,), "bad-crc", 4)]
    assert said[0].last >= 14


def test_only_what_all_replicas_give_is_compared() -> None:
    world = three(SHORT)
    world.high_watermarks[3] = 6
    comparison, said, _ = compared(world)
    assert (said, comparison.outcome.compared_to) == ([], 6)
    assert comparison.outcome.unknown == {
        ("not-in-sync", 3): "broker 3 gives records up to offset 6, and the leader has told 20"
    }
    assert compared(world, end=6)[0].outcome.unknown == {}
    assert compared(three(SHORT), start=8)[1] == []
    assert compared(three(SHORT), end=6)[1] == []


def test_a_follower_that_learns_of_the_high_watermark_late_is_waited_for() -> None:
    world = three(ROWS, SHORT)
    world.high_watermarks[3] = 6

    def learned(broker: int, offset: int) -> None:
        if broker == 3 and offset == 6:
            world.high_watermarks.pop(3, None)

    world.before_read = learned
    comparison, said, _ = compared(world)
    assert [(one.brokers, one.first) for one in said] == [((3,), 6)]
    assert (comparison.outcome.unknown, comparison.outcome.compared_to) == ({}, 20)


@pytest.mark.parametrize(("policy", "stop_at"), [(False, 8), (True, 3)])
def test_a_pass_that_is_interrupted_goes_on_with_all_that_it_had_found(policy: bool, stop_at: int) -> None:  # noqa: FBT001  # a case
    """Whatever was not said yet is found anew: a divergence that went on, a record whose explanation was looked for."""
    world = World({1: list(KEYS), 2: KEYS[:1], 3: list(KEYS)} if policy else {1: ROWS, 2: SHORT, 3: ROWS})
    world.policy, world.batches_at_once = policy, 1
    world.change(isr=(1, 2, 3), replicas=(1, 2, 3, 4))
    source: Any = world
    first = comparing.Comparison(source, "orders", 0)
    steps = []
    for step in first.run():
        steps.append(step)
        if first.at >= stop_at:
            break
    world.change(replicas=(1, 2, 3))
    second = comparing.Comparison(source, "orders", 0, start=first.resume_at, before=first.outcome)
    steps += second.run()
    said = [one for step in steps for one in step.found]
    whole = compared(world)[1]
    assert {one.first for one in whole} <= {one.first for one in said}
    assert {one.first for one in whole} <= {one.first for one in second.outcome.divergences}
    assert reasons(second) == {("not-in-sync", 4)}
    assert second.outcome.start == 0


def test_a_difference_that_is_gone_when_looked_at_again_is_none() -> None:
    world = three(SHORT)
    reads = iter(range(100))

    def healed(broker: int, _offset: int) -> None:
        if next(reads) > 2 and broker == 2:
            world.logs[2] = list(ROWS)

    world.before_read = healed
    comparison, said, _ = compared(world)
    assert (said, comparison.outcome.unknown) == ([], {})


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.change(isr=(1, 3)),
        lambda world: world.change(replicas=(1, 2, 3, 4)),
        lambda world: world.change(topic_id="another"),
        lambda world: setattr(world, "policy", True),
    ],
)
def test_what_changes_while_a_difference_is_looked_at_makes_it_unknown(change: object) -> None:
    world = three(SHORT)
    reads = iter(range(100))

    def changed(_broker: int, _offset: int) -> None:
        if next(reads) == 4:
            change(world)  # type: ignore[operator]

    world.before_read = changed
    comparison, said, _ = compared(world)
    assert said == []
    assert ("moved", None) in reasons(comparison)


def test_a_new_leader_is_learned_and_the_window_read_anew() -> None:
    world = three(SHORT)
    world.before_read = lambda broker, _offset: world.change(leader=2, leader_epoch=6) if broker == 2 else None
    comparison, said, _ = compared(world)
    assert [(one.brokers, one.leader, one.leader_epoch) for one in said] == [((2,), 2, 6)]
    assert comparison.outcome.unknown == {}


def test_a_replica_that_leaves_the_isr_with_an_election_is_not_compared() -> None:
    world = three(SHORT)
    world.before_read = lambda broker, _: world.change(leader=1, leader_epoch=6, isr=(1, 3)) if broker == 2 else None
    comparison, said, _ = compared(world)
    assert said == []
    assert reasons(comparison) == {("not-in-sync", 2)}


def test_leaders_that_change_all_the_time_are_unknown() -> None:
    world = three(ROWS)
    world.before_read = lambda *_: world.change(leader_epoch=world.state.leader_epoch + 1)
    comparison, _, steps = compared(world)
    assert reasons(comparison) == {("moved", None)}
    assert sum(step.pause_s > 0 for step in steps) == 5


def test_a_replica_out_of_sync_is_left_out_and_counted() -> None:
    world = three(SHORT)
    world.change(isr=(1, 3))
    comparison, said, _ = compared(world)
    assert said == []
    assert reasons(comparison) == {("not-in-sync", 2)}
    assert comparison.outcome.compared_to == 20


def test_retention_meanwhile_is_no_difference() -> None:
    world = three(SHORT)

    def expired(broker: int, offset: int) -> None:
        if broker == 2 and offset == 0:
            world.log_starts[2] = (8, 8)

    world.before_read = expired
    comparison, said, _ = compared(world)
    assert (said, comparison.outcome.unknown, comparison.outcome.compared_to) == ([], {}, 20)


def test_what_is_in_a_remote_tier_only_is_not_compared_and_counted() -> None:
    world = three(SHORT)
    world.log_starts = {1: (0, 8), 2: (0, 4), 3: (0, 0)}
    comparison, said, _ = compared(world)
    assert (said, comparison.outcome.start) == ([], 8)
    assert reasons(comparison) == {("tiered", 1), ("tiered", 2)}


@pytest.mark.parametrize("tier", [[], ROWS[:2], ROWS], ids=["slow", "a part", "all"])
@pytest.mark.parametrize("goes_at", [0, 8])
def test_what_goes_to_the_tier_while_it_is_read_is_no_difference(tier: list[FakeBatch], goes_at: int) -> None:
    """The broker whose log is cut answers from the tier, or with nothing, for what the others have on their disks."""
    world = three(ROWS)
    world.batches_at_once = 2
    world.tier = list(tier)

    def tiered(broker: int, offset: int) -> None:
        if broker == 2 and offset == goes_at:
            world.log_starts[2] = (0, 12)

    world.before_read = tiered
    comparison, said, _ = compared(world)
    outcome = comparison.outcome
    assert (said, reasons(comparison)) == ([], {("tiered", 2)})
    assert (outcome.start, outcome.compared_to, outcome.offsets) == (0, 20, goes_at + 8)


def test_a_difference_that_goes_to_the_tier_before_it_is_read_again_is_not_said() -> None:
    world = three(SHORT)
    world.logs[2] = world.logs[2][1:]
    world.tier = []

    def tiered(_broker: int, _offset: int) -> None:
        if world.reads > 3:
            world.log_starts[2] = (0, 4)

    world.before_read = tiered
    comparison, said, _ = compared(world)
    assert (said, reasons(comparison)) == ([], {("moved", None)})


def test_a_harmed_batch_on_a_brokers_disk_is_found_where_older_ones_are_in_the_tier() -> None:
    world = three(ROWS)
    world.logs[2] = [one for one in world.logs[2] if one.base_offset != 12]
    world.tier, world.log_starts = list(ROWS), dict.fromkeys((1, 2, 3), (0, 8))
    comparison, said, _ = compared(world)
    assert [(one.first, one.last, one.brokers) for one in said] == [(12, 13, (2,))]
    assert (comparison.outcome.start, comparison.outcome.offsets) == (8, 12)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (WireError("no", refused=True, code="TOPIC_AUTHORIZATION_FAILED"), "refused"),
        (WireError("no answer"), "unanswered"),
        (WireError("tier", code="OFFSET_MOVED_TO_TIERED_STORAGE"), "unanswered"),
        (WireError("behind its end", code="OFFSET_OUT_OF_RANGE"), "unanswered"),
    ],
)
def test_a_replica_that_gives_nothing_is_unknown_and_the_others_are_compared(error: WireError, reason: str) -> None:
    world = World({1: list(ROWS), 2: list(ROWS), 3: list(SHORT)})

    def failing(broker: int, _offset: int) -> None:
        if broker == 2:
            raise error

    world.before_read = failing
    comparison, said, _ = compared(world)
    assert [(one.brokers, one.known) for one in said] == [((1, 3), False)]
    assert reasons(comparison) == {(reason, 2)}


def test_without_a_second_replica_nothing_is_said_to_be_the_same() -> None:
    world = three(ROWS)
    world.change(replicas=(1,), isr=(1,))
    assert compared(world)[0].outcome.alone
    world.change(replicas=(1, 2), isr=(1,))
    comparison, _, _ = compared(world)
    assert (comparison.outcome.alone, reasons(comparison)) == (False, {("not-in-sync", 2)})
    world.change(leader=None)
    assert reasons(compared(world)[0]) == {("no-leader", None)}


KEYS = [
    batch(record(0, b"a")),
    batch(record(1, b"b")),
    batch(record(2, b"c")),
    batch(record(3, b"a")),
    batch(record(4, b"d")),
]


def test_a_later_window_explains_what_compaction_removed() -> None:
    world = World({1: list(KEYS), 2: KEYS[1:], 3: list(KEYS)}, policy=True, batches_at_once=1)
    comparison, said, _ = compared(world)
    assert (said, comparison.outcome.unknown) == ([], {})
    world = World({1: list(KEYS), 2: KEYS[1:], 3: list(KEYS)}, policy=True, batches_at_once=1)
    comparison, said, _ = compared(world, end=2)
    assert (said, comparison.outcome.unknown, comparison.outcome.compared_to) == ([], {}, 2)


def test_what_no_later_record_explains_is_a_divergence() -> None:
    short = [*KEYS[:1], *KEYS[2:]]
    for bounds in ({}, {"end": 2}):
        world = World({1: list(KEYS), 2: short, 3: list(KEYS)}, policy=True, batches_at_once=2)
        comparison, said, _ = compared(world, **bounds)
        assert [(one.brokers, one.how, one.first, one.last) for one in said] == [((2,), "missing", 1, 1)]
        assert comparison.outcome.unknown == {}


def test_where_the_search_for_later_records_breaks_off_it_is_unknown() -> None:
    world = World({1: list(KEYS), 2: KEYS[1:]}, policy=True, batches_at_once=1)
    world.change(replicas=(1, 2), isr=(1, 2))

    def lost(broker: int, offset: int) -> None:
        if broker == 1 and offset == 2:
            raise WireError("no answer")

    world.before_read = lost
    comparison, said, _ = compared(world)
    assert said == []
    assert reasons(comparison) == {("unanswered", 1), ("unexplained", None)}


def test_without_the_policy_what_compaction_would_explain_is_unknown() -> None:
    comparison, said, _ = compared(World({1: list(KEYS), 2: KEYS[1:], 3: list(KEYS)}, policy=None))
    assert (said, reasons(comparison)) == ([], {("unexplained", None)})
    short = [*KEYS[:1], *KEYS[2:]]
    comparison, said, _ = compared(World({1: list(KEYS), 2: short, 3: list(KEYS)}, policy=None))
    assert ([one.first for one in said], reasons(comparison)) == ([1], set())


def test_more_divergences_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_FOUND", 2)
    comparison, said, _ = compared(three([one for i, one in enumerate(ROWS) if i % 2]))
    assert len(said) == 2
    assert comparison.outcome.left_out == 3


@pytest.mark.parametrize(
    ("retention_ms", "age_ms", "found"),
    [(-1, 10**10, True), (3_600_000, 60_000, True), (3_600_000, 3_500_000, False), (None, 0, False)],
    ids=["kept for ever", "younger", "about to expire", "not known"],
)
def test_a_replica_that_begins_later_than_retention_explains_lacks_its_beginning(
    retention_ms: int | None,
    age_ms: int,
    found: bool,  # noqa: FBT001  # a case
) -> None:
    written_ms = time.time_ns() // 10**6 - age_ms
    log = [replace(one, written_ms=written_ms) for one in ROWS]
    world = World({1: log, 2: log[3:], 3: log}, retention_ms=retention_ms, log_starts={2: (6, 6)})
    comparison, said, _ = compared(world)
    assert [(one.brokers, one.how, one.first, one.last) for one in said] == [((2,), "missing", 0, 5)] * found
    assert comparison.outcome.unknown == {}
    assert compared(world, start=6)[1] == [], "what is before is not asked for"


def test_a_beginning_that_the_leader_removes_a_moment_later_is_not_missing() -> None:
    log = [replace(one, written_ms=time.time_ns() // 10**6) for one in ROWS]
    world = World({1: log, 2: log[3:], 3: log}, retention_ms=-1, log_starts={2: (6, 6)})

    def delete(_broker: int, offset: int) -> None:
        if offset == 5:  # the look at what is before the follower's beginning
            world.log_starts |= {1: (6, 6), 3: (6, 6)}

    world.before_read = delete
    assert compared(world)[1] == []
