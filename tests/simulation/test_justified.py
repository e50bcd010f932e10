"""Each verdict on what the canary says can fail, and what a broken cluster really did is justified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.online.losses import ranges
from canary.anomalies.violation import Violation
from canary.facts import EndOfPartition, Listed, OutOfRange, TopologySeen, WatchAsked
from canary.probe.identity import Identity
from canary.probe.record import key
from simulation.harms.catalogue import HARMS
from simulation.harms.harm import Harm
from simulation.kafka.contract import Record
from simulation.life.life import Life
from simulation.machine.system import EPOCH_NS
from simulation.search.shrinking import told
from simulation.verdicts.justified import JUSTIFIED, NEVER, false
from simulation.verdicts.losses import excused, unwatched
from simulation.world.chronicle import Copy, Decision
from simulation.world.outcome import Outcome
from simulation.world.plan import Plan, Strike
from simulation.world.truth import Fate, Truth
from simulation.world.world import World
from tests.simulation.test_lives import ISR_OF_ONE

if TYPE_CHECKING:
    import random

pytestmark = [pytest.mark.simulator, pytest.mark.dear("whole lives of the canary, in which any part may fail")]

CALM = Plan(seed=3, hours=0.03, grain=1.0, partitions=1)
TOPIC = "durability-canary"


@pytest.fixture(scope="module")
def calm() -> World:
    """A life in which nothing happened."""
    world = Life(CALM)
    world.settle_beats = 60
    assert world.live().wrong == []
    return world


def losing() -> Outcome:
    """Live a life with one loss, for as long as it takes to say it."""
    life = Life(ISR_OF_ONE)
    life.settle_beats = 80
    return life.live()


def _said(world: World, kind: str, offset: int = 5, **more: Any) -> Violation:
    """Return a violation that names the probe that stands at offset 5."""
    (topic_id,) = world.chronicle.ids[TOPIC]
    (copy,) = world.chronicle.there(topic_id, 0, 5)
    names = [name for name in world.truth.fates if name == copy.record.key]
    producer, generation, partition, sequence = _identity(names[0])
    evidence = {
        "sequences": [sequence, sequence + 1],
        "offsets": [5, 6],
        "later_producer": producer,
        "later_generation": generation,
        "its_offset": 6,
        "leader_epoch": 7,
        "former_topic_id": "another",
        "topic_id": topic_id,
        "known": world.cluster.cluster_id,
        "found": world.cluster.cluster_id,
    }
    values: dict[str, Any] = {
        "severity": "critical",
        "topic": TOPIC,
        "topic_id": topic_id,
        "partition": 0,
        "offset": offset,
        "identity": Identity(producer, generation, partition, sequence),
        "at_ns": EPOCH_NS + 300 * 10**9,
        "by": "online",
        "summary": "made up",
        "evidence": evidence,
    }
    return Violation(kind=kind, **(values | more))


def _identity(name: bytes) -> Identity:
    numbers = name[:8], name[8:12], name[12:16], name[16:]
    return Identity(*(int.from_bytes(one, "little", signed=True) for one in numbers))


def test_each_kind_of_the_catalogue_that_is_made_up_is_false(calm: World) -> None:
    for kind in CATALOGUE:
        offset = 6 if kind == "lost-write" else 5  # what stands at its place is told apart by its fate
        assert false(calm, _said(calm, kind, offset), 300.0), kind


@pytest.mark.parametrize(
    ("joined", "how", "unknowable"), [(210, "power cut", True), (199, "power cut", False), (210, "hollow", False)]
)
def test_a_leader_that_rejoined_after_the_last_round_looks_uncleanly_elected_if_the_log_was_cut(
    joined: int,
    how: str,
    unknowable: bool,  # noqa: FBT001
) -> None:
    world = Life(CALM)
    place, record = (TOPIC, 0), Record(5, 0, b"key", b"value", 0)
    for at, leader, isr in ((0, 1, (1, 2, 3)), (190, 1, (1, 2)), (joined, 1, (1, 2, 3)), (211, 3, (3,))):
        world.chronicle.decisions[place].append(Decision(at, "id", leader, at, isr, (1, 2, 3), 2, unclean=False))
    world.chronicle.at["id", 0][5] = [Copy(record, 5, 0, 211, how, committed=True)]
    world.facts += [TopologySeen(EPOCH_NS + at * 10**9, at, "probe") for at in (195, 200, 212)]
    values: dict[str, Any] = {"severity": "critical", "topic_id": "id", "partition": 0, "offset": 5, "by": "watch"}
    evidence = {"election": {"at_ns": EPOCH_NS + 212 * 10**9, "leader": 3}}
    made_up = Violation(
        kind="unclean-election", topic=TOPIC, at_ns=EPOCH_NS + 220 * 10**9, summary="", evidence=evidence, **values
    )
    assert (false(world, made_up, 220.0) == "") == unknowable


@pytest.mark.parametrize(
    ("how", "stood", "told_at", "justified"),
    [
        ("power cut", 8, None, True),
        ("power cut", 5, None, False),
        ("power cut", 8, 205, False),
        ("power cut", 8, 150, True),
        ("expired", 8, None, False),
    ],
)
def test_what_is_written_below_a_consumer_that_is_not_told_of_a_cut_is_skipped(
    how: str,
    stood: int,
    told_at: int | None,
    justified: bool,  # noqa: FBT001
) -> None:
    world, who = Life(CALM), Identity(7, 1, 0, 9)
    former, now = Copy(Record(5, 0, b"key", b"", 0), 5, 0, 200, how), Copy(Record(5, 0, key(who), b"", 0), 5, 202)
    world.chronicle.at["id", 0][5] = [former, now]
    world.chronicle.copies["id", 0][key(who)] = [now]
    reader = ("read_committed", "read_committed", TOPIC, 0, stood)
    world.facts.append(EndOfPartition(EPOCH_NS + 199 * 10**9, *reader))
    if told_at is not None:
        world.facts.append(OutOfRange(EPOCH_NS + told_at * 10**9, *reader, "out of range"))
    values: dict[str, Any] = {"severity": "warning", "topic_id": "id", "partition": 0, "by": "online", "summary": ""}
    made_up = Violation(kind="poll-skip", topic=TOPIC, offset=5, identity=who, at_ns=EPOCH_NS + 203 * 10**9, **values)
    assert (false(world, made_up, 210.0) == "") == justified


@pytest.mark.parametrize(
    ("about", "of", "since", "justified"),
    [("", "former", 5, True), ("id", "former", 105, True), ("id", "former", 5, False), ("former", "id", 105, False)],
)
def test_an_offset_is_given_twice_where_a_leader_that_was_cut_off_gives_it_in_a_deleted_topic(
    about: str,
    of: str,
    since: int,
    justified: bool,  # noqa: FBT001
) -> None:
    world = Life(CALM)
    for at, topic_id in ((0, "former"), (100, "id")):
        world.chronicle.ids[TOPIC].append(topic_id)
        decided = world.chronicle.decisions[TOPIC, 0]
        decided.append(Decision(at, topic_id, 1, 0, (1, 2, 3), (1, 2, 3), 2, unclean=False))
    world.chronicle.at[about or "id", 0][5] = [Copy(Record(5, 0, b"one", b"", 0), 5, 101)]
    world.chronicle.at[of, 0][5].append(Copy(Record(5, 0, b"other", b"", 0), 5, since))
    values: dict[str, Any] = {"severity": "warning", "topic_id": about, "partition": 0, "by": "online", "summary": ""}
    made_up = Violation(kind="inconsistent-offsets", topic=TOPIC, offset=5, at_ns=EPOCH_NS + 110 * 10**9, **values)
    assert (false(world, made_up, 110.0) == "") == justified


def test_what_a_harm_does_later_between_two_looks_is_ill(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(world: World, _: random.Random) -> Any:
        world.later(25.0, lambda: world.cluster.cut("canary", 1))
        world.later(75.0, lambda: world.cluster.heal("canary", 1))
        return lambda: world.kill_canary(after=2.0)

    monkeypatch.setitem(HARMS, "later", Harm("later", begin))
    world = Life(Plan(6, 0.4, 120.0, partitions=1, strikes=(Strike(500.0, "later", 200.0, 4),)))
    world.live()
    assert [world.chronicle.ill(at, at + 10) for at in (495, 520, 570, 695)] == [False, True, False, True]


def test_a_kind_is_justified_or_never_said() -> None:
    assert not set(JUSTIFIED) & set(NEVER)
    assert set(JUSTIFIED) | set(NEVER) <= set(CATALOGUE)
    engines = {name for name, entry in CATALOGUE.items() if {"online", "watch"} & set(entry.scopes)}
    assert {name for name in engines - set(JUSTIFIED) - set(NEVER) if not name.startswith("int-")} == {"unseen"}


def test_a_watched_topic_that_is_gone_is_to_be_said() -> None:
    world = World(CALM)
    world.watched_gone["payments"] = 10.0
    assert [one.what for one in unwatched(world)] == ["MISSED"]
    cases: tuple[tuple[float, Any, int], ...] = ((9.0, "critical", 1), (11.0, "warning", 1), (11.0, "critical", 0))
    for told_at, severity, missing in cases:
        one = Violation(
            kind="watched-topic-gone", severity=severity, topic="payments", at_ns=0, by="watch", summary="gone"
        )
        world.truth.violations = [(told_at, one)]
        assert len(list(unwatched(world))) == missing


def test_what_is_written_after_a_topic_was_said_to_be_another_one_is_to_be_found() -> None:
    world = World(CALM)
    world.chronicle.ids[TOPIC] = ["a", "b", "a"]
    again = Violation(
        kind="topic-recreated",
        severity="critical",
        topic=TOPIC,
        topic_id="a",
        at_ns=0,
        by="watch",
        summary="made again",
    )
    world.truth.violations = [(100.0, again)]
    world.truth.promised[b""] = 0.0
    for at, topic_id, unknowable in ((90.0, "a", True), (110.0, "a", False), (110.0, "b", True)):
        fate = Fate(0, (200.0, "hollow"), 5, at, 0, topic_id, TOPIC)
        assert excused(world, b"", fate) is unknowable


def test_a_topic_has_the_id_that_came_back_since_then() -> None:
    world = World(CALM)
    for at, topic_id in ((0.0, "a"), (5.0, "a"), (10.0, "b"), (20.0, "a"), (30.0, "a")):
        world.chronicle.decisions[TOPIC, 0].append(Decision(at, topic_id, 1, 0, (1,), (1,), 1, unclean=False))
    world.chronicle.ids[TOPIC] = ["a", "b", "a"]
    assert world.chronicle.made_at(TOPIC) == 20.0


def test_a_false_duplicate_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_report_fractured", _says_a_duplicate)
    outcome = losing()
    assert {one.what for one in outcome.wrong} == {"FALSE", "DISAGREE"}, told(outcome)
    assert all("duplicate" in one.about for one in outcome.wrong if one.what == "FALSE")


def _says_a_duplicate(scope: Any, topic: Any, log: Any, lost: Violation) -> None:
    scope.emit(scope.of_records("duplicate", topic, log, lost.runs, "made up", mode=lost.mode))


def test_a_loss_that_is_said_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_report_fractured", _says_a_part_again)
    outcome = losing()
    assert {one.what for one in outcome.wrong} == {"AGAIN"}, told(outcome)


def _says_a_part_again(scope: Any, topic: Any, log: Any, lost: Violation) -> None:
    scope.emit(scope.of_records("lost-write", topic, log, [lost.runs[0].part(0, 1)], "made up", mode=lost.mode))


def test_a_loss_at_another_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = ranges.emit

    def elsewhere(scope: Any, topic: Any, log: Any, lost: Violation) -> None:
        emit(scope, topic, log, lost.about([run._replace(offset=(run.offset or 0) + 1) for run in lost.runs]))

    monkeypatch.setattr(ranges, "emit", elsewhere)
    outcome = losing()
    assert any("never stood at offset" in one.about for one in outcome.wrong), told(outcome)


def test_a_loss_that_is_said_long_after_all_is_well_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, kept = Life(ISR_OF_ONE), list[Violation]()
    tell = Truth.told
    monkeypatch.setattr(Truth, "told", lambda _, found: kept.extend(found))
    late = ISR_OF_ONE.hours * 3600 + 150 * ISR_OF_ONE.beat
    world.schedule.at(late, lambda: tell(world.truth, kept))
    outcome = world.live()
    assert {one.what for one in outcome.wrong} == {"LATE"}, told(outcome)


@pytest.mark.parametrize(("sent_s", "excused"), [((39, 41, 58), (True, True, True)), ((41, 58), (False, False))])
def test_what_went_with_all_its_log_is_unknown_up_to_a_step_after_what_may_have_expired(
    sent_s: tuple[int, ...], excused: tuple[bool, ...]
) -> None:
    """Of 2000 s that are kept a step is 20 s, and clocks may differ by 60 s."""
    truth = Truth(lambda: 1900.0)
    for i, sent in enumerate((*sent_s, 59)):
        name = bytes([i])
        truth.fates[name] = Fate(0, (1980.0, "unclean election"), i, sent, 0, "id", TOPIC, was_lost=True)
        truth.sent_ns[name] = sent * 10**9
    for at_s, end in ((1900, 9), (1980, 0)):
        truth.looks[TOPIC, 0].append((at_s, Listed(at_s * 10**9, 1, TOPIC, 0, 0, end, end, 0)))

    def found() -> tuple[bool, ...]:
        return tuple(truth.may_have_expired(name, fate, 1980.0, 2000.0) for name, fate in truth.fates.items())

    assert found() == (*excused, False)
    truth.durable([WatchAsked(90 * 10**9, 1), WatchAsked(60 * 10**9, 2)])
    assert all(found()), "the clock was set back by 30 s"


@pytest.mark.parametrize(("bug", "kind"), [("duplicated", "duplicate"), ("corrupt", "corrupt")])
def test_what_a_broken_broker_did_is_said_and_justified(bug: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(world: World, _: random.Random) -> Any:
        world.cluster.bugs.add(bug)
        return lambda: world.cluster.bugs.discard(bug)

    monkeypatch.setitem(HARMS, bug, Harm(bug, begin, 1.0, breaks=True))
    world = Life(Plan(6, 0.15, 5.0, retention_s=4000.0, strikes=(Strike(150.0, bug, 300.0, 4),)))
    outcome = world.live()
    assert kind in {one.kind for _, one in world.truth.violations}, told(outcome)
    assert not [one for one in outcome.wrong if f" {kind} " in one.about], told(outcome)
