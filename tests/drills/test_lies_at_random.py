"""Brokers that lie at random, with losses beside the lies: only what a plain client does not find is said to be lost.

Each case is a drill that dice have put together, on brokers that all cases share. When the lies are over, a plain
client reads what is there. There is none in the short form: each takes a minute.
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from canary.drills.drill import OUTAGE, Drill, Said
from canary.drills.rig import performance
from canary.drills.rig.installation import Installation
from canary.drills.rig.performance import Stagehand
from canary.drills.rig.verdict import judge
from canary.drills.stage import KNOWABLE, PROBES, TRANSACTIONS, Stage, Topic
from canary.drills.steps.brokers import Kill, LosePageCache, Start
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.waiting import Pass, UntilAcked, UntilReadable
from canary.lab import Lie
from canary.lab.proxy.lies import LIES
from tests.support import forks, labs, seeds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from canary.drills.rig.performance import Played
    from canary.drills.steps.step import Step
    from canary.lab import Lab
    from canary.lab.proxy.faults import Party

PATIENT: Final = {"broker.session.timeout.ms": 9000}
"""As Kafka's own: no case is about brokers that a busy machine keeps from being heard."""
STAGE: Final = Stage(
    lab={"proxied": True, **labs.PROFILES["quick"]}, properties=replace(labs.SHARED, controller=PATIENT)
)
BROKERS: Final = (1, 2, 3)
MODES: Final[dict[str, dict[str, Any]]] = {
    "transactional": {"interval": "500ms"},
    "relay": {"interval": "500ms"},
    "group": {},
    "fencing": {"interval": "10s"},
    "plain": {"interval": "200ms"},
}
LOST: Final = "lost-write"
SAID_S: Final = 60.0
"""Within so many seconds after the lies what is lost is said."""
EMPTY: Final = "nothing fetched"
"""Nothing tells it from a loss where all who have a partition say so."""
TRUE: Final = {"other cluster id": "another-cluster", "fetched twice": "G1a"}
"""What is said of a lie, and is so: behind an aborted transaction's marker, librdkafka gives its records on."""
DAMAGE: Final = frozenset({"truncation", "inconsistent-offsets", "unclean-election", "fractured-transaction"})
"""What is true beside lost writes where a log was cut."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw the cases: two, times --explore."""
    if "dice" in metafunc.fixturenames:
        metafunc.parametrize("dice", list(seeds.cases("lies", 2)))


@pytest.fixture(scope="module")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Brokers behind a proxy."""
    labs.discard()
    hand = Stagehand(tmp_path_factory.mktemp("lying"), threading.Event(), print)
    with performance.lab(STAGE, hand) as brokers:
        yield brokers


def drawn(seed: int) -> Drill:
    """Return the drill of a case."""
    dice = random.Random(seed)  # noqa: S311  # tests want to be repeated, not to be secret
    modes = {name: MODES[name] for name in dice.sample(sorted(MODES), dice.randint(0, 2))}
    factor = dice.choice((1, 3))
    replicas = tuple(tuple(dice.sample(BROKERS, factor)) for _ in range(dice.randint(1, 2)))
    topics = [PROBES, *(f"{PROBES}-{mode}" for mode in modes if mode != "group")]
    lies = tuple(_lie(dice, topics, alone=factor == 1) for _ in range(dice.randint(1, 2)))
    passing = Pass(5 * 8 ** dice.random())
    loss = _loss(dice, topics, replicas)
    lost = dice.random() < 0.5
    partitions = range(len(replicas))
    return Drill(
        title=f"Lies of seed {seed}",
        source="canary.lab.proxy.lies",
        stage=replace(
            STAGE,
            topics={PROBES: Topic(replicas)},
            modes={"idempotent": {"interval": "200ms"}, **modes},
            cluster={"watch": {"topics": []}, "topic": {"name": PROBES, "partitions": 1}},
        ),
        steps=(
            *(UntilAcked(20, partition) for partition in partitions),
            *_meeting(dice, Faults(lies), passing, loss if lost else ()),
            UntilReadable(tuple(partitions)),
            *(UntilAcked(10, partition) for partition in partitions),
        ),
        says=(Said(LOST, within_s=SAID_S),) if lost else (),
        echoes=(OUTAGE | DAMAGE if lost else frozenset()) | {TRUE[one.lie] for one in lies if one.lie in TRUE},
    )


def _lie(dice: random.Random, topics: Sequence[str], *, alone: bool) -> Lie:
    """Draw a lie, and who tells it; ``alone``: one broker may be all that has a partition."""
    lie = dice.choice([one for one in LIES if one != EMPTY or not alone])
    who: Party = dice.choice(BROKERS)
    return Lie("client", "any" if lie != EMPTY and dice.random() < 0.5 else who, dice.choice(topics), lie)


def _loss(dice: random.Random, topics: Sequence[str], replicas: Sequence[Sequence[int]]) -> tuple[Step, ...]:
    """Draw which partition loses its last records, on all brokers that have it."""
    topic = TRANSACTIONS if TRANSACTIONS in topics and dice.random() < 0.3 else PROBES
    partition = dice.randrange(len(replicas)) if topic == PROBES else 0
    nodes = tuple(replicas[partition]) if topic == PROBES else BROKERS
    return Kill(nodes), LosePageCache(nodes, dice.randint(2, 20), topic, (partition,)), Start(nodes)


def _meeting(dice: random.Random, lies: Faults, passing: Pass, loss: Sequence[Step]) -> tuple[Step, ...]:
    """Draw when brokers that lost something come back: when the lies begin, in their middle, or when they end."""
    *harm, start = loss or (Pass(0),)
    half = Pass(passing.seconds / 2)
    return dice.choice(
        (
            (*harm, lies, start, passing, Heal()),
            (lies, half, *harm, start, half, Heal()),
            (lies, passing, *harm, Heal(), start),
        )
    )


def misplaced(played: Played) -> Iterator[str]:
    """Yield what is said to be lost and is there, and what is gone and is not said, or late."""
    found = [one for one in played.findings if one.kind == LOST]
    said = {place: who for one in found for place, who in one.records.items()}
    yield from (f"false: {place} has {who}" for place, who in said.items() if played.reading.there.get(place) == who)
    yield from (f"missed: {place} had {who}" for place, who in played.gone.items() if said.get(place) != who)
    yield from (f"late: {one.summary}" for one in found if one.at > played.marks[KNOWABLE] + SAID_S)


def test_an_empty_answer_is_told_by_no_broker_that_has_a_partition_alone_nor_by_all() -> None:
    drills = [drawn(seed) for seed in seeds.cases("drawn lies", 300)]
    told = [(drill, lie) for drill in drills for step in drill.steps if isinstance(step, Faults) for lie in step.faults]
    assert {lie.lie for _, lie in told if isinstance(lie, Lie)} == set(LIES)
    for drill, lie in told:
        if isinstance(lie, Lie) and lie.lie == EMPTY:
            assert lie.target != "any"
            assert {len(one) for one in drill.stage.topics[PROBES].replicas} == {3}
    assert {bool(drill.says) for drill in drills} == {True, False}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.quick
@pytest.mark.long
def test_only_what_is_gone_is_said_to_be_lost(
    dice: int, lying: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installation, "begun", forks.canary)
    drill = drawn(dice)
    performance.clear(lying)
    try:
        hand = Stagehand(tmp_path, threading.Event(), print)
        played = performance.play(lying, drill.stage, drill.steps, drill.says, hand)
    finally:
        lying.heal()
    grave = tuple(one for one in played.findings if one.severity == "critical" or one.kind == LOST)
    complaints = [*judge(drill, replace(played, findings=grave)).complaints, *misplaced(played)]
    assert not complaints, "\n".join(complaints)
