"""What comes of facts hangs on their order alone: not on when a process ended, nor on how they were gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online import Tracker
from simulation.destruction.lives import Life, judged, lived
from simulation.histories.injections import INJECTIONS
from simulation.histories.lives import configured
from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded
from tests.support.seeds import cases

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from canary import facts as f
    from canary.anomalies.violation import RereadRequest


class Twins:
    """Two trackers that are given the same facts, one of which is dumped and loaded now and then."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.kept, self.loaded = configured(), configured()
        self.gathered: list[f.Fact] = []

    def listen(self, facts: Sequence[f.Fact]) -> Sequence[RereadRequest]:
        self.gathered += facts
        if self.dice.random() < 0.9:
            return ()
        if self.dice.random() < 0.2:
            self.loaded = Tracker.load(self.loaded.dump())
        self.kept.fold(self.gathered)
        self.loaded.fold(self.gathered)
        self.gathered.clear()
        findings = self.kept.drain()
        assert self.loaded.drain() == findings
        return findings.rereads


def test_a_tracker_that_is_loaded_finds_what_the_one_that_was_dumped_finds() -> None:
    for seed in cases("loaded again", 8):
        twins = Twins(seeded(seed))
        simulate(seed, inject=twins.dice.sample(sorted(INJECTIONS), 4), listener=twins.listen)
        assert twins.loaded.dump() == twins.kept.dump(), seed


class Slow(Life):
    """Facts come one by one."""

    def fold(self, *facts: f.Fact) -> None:
        for fact in facts:
            super().fold(fact)


def test_what_was_destroyed_is_said_though_facts_are_judged_one_by_one() -> None:
    asked_again_and_again_for_neighbours = 1727352980
    for seed in cases("one by one", 50, asked_again_and_again_for_neighbours):
        assert judged(lived(seed, of=Slow)) == [], seed
