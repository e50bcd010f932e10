"""With acks=1 a leader acknowledges what its followers fetch later: nobody is given it before, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary import facts as f
from simulation.histories.wild import seeded
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench
from tests.support.seeds import cases

if TYPE_CHECKING:
    import random

    Appended = tuple[tuple[int, int, int], int]
    """Whose it is, and the epoch of the leader that appended it."""


class Lagging:
    """A bench whose log ends at the high watermark, and what the leader has acknowledged above that."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.bench = Bench(mode="plain")
        self.appended: list[Appended] = []

    def live(self) -> None:
        events = {self.write: 35, self.fetch: 15, self.elect: 10, self.read: 15, self.bench.restart: 3, self.watch: 20}
        for event in self.dice.choices(list(events), list(events.values()), k=self.dice.randint(10, 80)):
            event()
        self.fetch(everything=True)
        self.bench.settle(6)

    def write(self) -> None:
        for sequence in self.bench.send(self.dice.randint(1, 5)):
            self.bench.ack(sequence, len(self.appended))
            self.appended.append(((PRODUCER, self.bench.generation, sequence), self.bench.epoch))

    def fetch(self, *, everything: bool = False) -> None:
        """Followers fetch a part."""
        end = len(self.appended)
        end = end if everything else self.dice.randint(self.bench.end, end)
        self.bench.log |= {offset: self.appended[offset][0] for offset in range(self.bench.end, end)}
        self.bench.end = end

    def elect(self) -> None:
        """A follower leads that has fetched everything."""
        self.fetch(everything=True)
        self.bench.epoch += 1

    def read(self) -> None:
        bench = self.bench
        for name in (RC, RU):
            start, end = bench.positions[name], self.dice.randint(bench.positions[name], bench.end)
            for offset in range(start, end):
                who, epoch = self.appended[offset]
                bench.fold(f.Polled(bench.now_ns, name, name, TOPIC, 0, offset, *who, leader_epoch=epoch))
            bench.positions[name] = end

    def watch(self) -> None:
        for _ in range(self.dice.choice([1, 1, 5])):
            self.bench.round()


def test_what_followers_have_not_fetched_yet_is_not_lost_whoever_leads() -> None:
    for seed in cases("lagging followers", 100):
        life = Lagging(seeded(seed))
        life.live()
        assert life.bench.found() == [], seed
