"""One life of a canary in a simulated world: its plan is lived, and it is judged."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from simulation.harms.catalogue import HARMS
from simulation.kafka.contract import Batch
from simulation.life.coverage import states
from simulation.life.ports import installed
from simulation.verdicts.costs import Costs
from simulation.verdicts.judgement import compared, halted, judged
from simulation.verdicts.watch import Watch
from simulation.world.outcome import Outcome, Wrong
from simulation.world.plan import ORDERS, SHOPS, WATCHED, Plan, Strike
from simulation.world.truth import EXPIRED
from simulation.world.world import LOOK_BEATS, World

PROOF_BEATS = 120
"""So many intervals after the last harm records are lost once more: whatever it went through, the canary finds it."""
PROOF_SHARES = (0.01, 0.5)
"""This share of them."""


class Life(World):
    """A world in which a plan is lived."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.costs = Costs(self)
        self._ends: dict[int, tuple[Strike, Callable[[], object]]] = {}
        """By the number of a strike that is not over, what ends it."""

    def live(self) -> Outcome:
        """Live the plan, settle, and judge."""
        with installed(self):
            self.cluster.on_append.append(self.truth.appended)
            self.cluster.on_lost.append(self._note_lost)
            self.cluster.on_start.append(self.truth.started)
            self.cluster.on_return.append(self.truth.returned)
            if "mirror" in self.plan.modes:
                self.cluster.create_topic(1, ORDERS, [list(self.cluster.brokers())], {"min.insync.replicas": "2"})
            self.chronicle.listen(self.cluster)
            for topic in (WATCHED, *SHOPS) if self.plan.watches else ():
                self._fill(topic)
            self.schedule.at(0.0, self._look)
            self._start_later(0.0)
            self.costs.begin()
            watch = Watch(self) if 0 < self.plan.grain <= 5 else None
            if watch is not None:
                watch.begin()
            for number, strike in enumerate(self.plan.strikes):
                self.schedule.at(strike.at, lambda n=number, s=strike: self._strike(n, s))  # type: ignore[misc]
            end = self.plan.hours * 3600
            self.schedule.run(end)
            self.settling = True
            for number in sorted(self._ends):
                self._end(number)
            self._heal()
            if self.plan.strikes and self.settle_beats >= PROOF_BEATS + LOOK_BEATS:
                self.settle_beats = max(self.settle_beats, PROOF_BEATS + 2 * self.look_beats)
                self.schedule.at(end + PROOF_BEATS * self.plan.beat, self._lose_once_more)
            self.schedule.run(end + self.settle_beats * self.plan.beat)
            if self.schedule.halted:  # no other verdict: what comes after the harms never came
                self.outcome.wrong += halted(self, self.costs)
                self.over = True
            else:
                self.outcome.wrong += judged(self, self.costs)
                if watch is not None:
                    self.outcome.wrong += [Wrong("SAID SAFE", words) for words in watch.wrong]
                self.over = True
                self.outcome.wrong += compared(self)
            self.schedule.halted, self.schedule.most_steps = False, math.inf
            self.schedule.kill(self.process)
            self.schedule.run(self.schedule.now)
        self.outcome.seconds = self.schedule.now
        self.outcome.steps = self.schedule.steps
        return self.outcome

    def _fill(self, topic: str) -> None:
        """Make a topic of others, with records in it."""
        self.cluster.create_topic(1, topic, [list(self.cluster.brokers())], {"min.insync.replicas": "2"})
        batch = Batch([(None, b"another's", self.cluster.wall_ms())] * 20)
        self.cluster.produce("elsewhere", self.cluster.leader(topic, 0), topic, 0, batch, 1, 1.0, lambda _: None)

    def _strike(self, number: int, strike: Strike) -> None:
        self.outcome.pairs.update((strike.harm, state) for state in states(self))
        self.note(f"{strike.harm} for {strike.lasts:.1f} s")
        end = HARMS[strike.harm].begin(self, random.Random(strike.seed))
        self.note_health()
        if end is not None:
            self._ends[number] = (strike, end)
            self.schedule.after(strike.lasts, lambda: self._end(number))

    def _end(self, number: int) -> None:
        found = self._ends.pop(number, None)
        if found is not None:
            strike, end = found
            self.note(f"{strike.harm} is over")
            end()
            self.note_health()

    def _heal(self) -> None:
        """End every harm that is left."""
        self.disk.heal()
        self.store.heal()
        for broker in self.cluster.brokers():
            self.cluster.slow(broker, 0.0)
            self.cluster.lag(broker, 0.0)
            self.cluster.resume(broker)
            self.cluster.start(broker)
        self.cluster.bugs.clear()
        self.cluster.refuses = self.cluster.transactions.forgets = False
        self.cluster.answers_as = None
        self.cluster.end_another()
        self.cluster.heal()
        if self.process.frozen:
            self.schedule.resume(self.process)
        self._pause_s = None
        if self.process.dead:
            self._pending_start = False  # it starts sooner than it was to
            self._start_later(1.0)

    def _lose_once_more(self) -> None:
        """Lose the first record of each log, and a few or half of the others: a canary that went blind misses some."""
        self.costs.look()
        dice = random.Random(self.plan.seed)
        share = dice.choice(PROOF_SHARES)
        for topic in dict.fromkeys(self.topics()):
            for partition in range(self.plan.partitions):
                self.cluster.riddle(topic, partition, share, dice)

    def _look(self) -> None:
        """Look once in an interval whether all is well."""
        self.note_health()
        if not self.over:
            self.schedule.after(self.plan.beat, self._look)

    def _note_lost(self, topic: str, topic_id: str, partition: int, records: Sequence[Any], how: str) -> None:
        if how not in EXPIRED and records:
            self.note(f"{how}: {len(records)} records of {topic}[{partition}] from {records[0].offset} on are gone")
        self.truth.lost(topic, topic_id, partition, records, how)


def live(plan: Plan) -> Outcome:
    """Live one life."""
    return Life(plan).live()
