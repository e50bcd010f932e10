"""All that a life consists of: a canary, its machine and store, a cluster, and who writes down what happens."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from canary.anomalies.online.state import State
from canary.runner.cluster.cluster import ClusterRunner
from canary.runner.publishing.judge import Judge
from canary.workloads.catalogue import WORKLOADS
from simulation.cluster.cluster import Cluster
from simulation.machine.disk import LyingDisk
from simulation.machine.schedule import Process, Schedule
from simulation.machine.store import LyingStore
from simulation.machine.system import SimulatedSystem
from simulation.world.chronicle import Chronicle
from simulation.world.outcome import Outcome, Wrong
from simulation.world.plan import Plan
from simulation.world.truth import Truth

AGAIN_S = 5.0
"""After so long a canary that has ended is started again, as any service manager does."""
LOOK_BEATS = 60
"""A loss is to be found within so many intervals without harm; in some lives within more (`World.look_beats`)."""
FOUND_BEATS = 5
"""So many intervals after its turn at the latest the scrubber's chunk is read, and what it lacks is confirmed."""
HUNG_BEATS = 3
"""A transaction that is open for more intervals hangs."""
SETTLE_BEATS = 240
"""For so many intervals a life goes on after the last harm: by then all must be known, and said."""


class World:
    """All that a life consists of. Harms act on it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.settings = plan.settings()
        self.schedule = Schedule(plan.grain)
        dice = random.Random(plan.seed)
        self.system = SimulatedSystem(self.schedule, random.Random(dice.getrandbits(64)))
        self.cluster = Cluster(self.schedule, random.Random(dice.getrandbits(64)))
        self.disk = LyingDisk(self.schedule, random.Random(dice.getrandbits(64)))
        self.store = LyingStore(self.schedule, random.Random(dice.getrandbits(64)))
        self.truth = Truth(lambda: self.schedule.now, cluster_id=self.cluster.cluster_id)
        self.truth.halt = lambda: setattr(self.schedule, "halted", True)
        self.outcome = Outcome(plan)
        self.facts: list[Any] = []
        """What the canary's ledger made durable, in its order."""
        self.process = Process("canary-0")
        self.runner: ClusterRunner | None = None
        self.chronicle = Chronicle(lambda: self.schedule.now)
        self.hung_at: dict[tuple[str, int], float] = {}
        """By (topic, partition), when a transaction was seen last that hangs there."""
        self.clocks = {0}
        """What ``clock_ns`` ever was."""
        self.slept = {0}
        """By how much (ns) the clock of a process ever was behind for that: its machine had slept."""
        self._clock_ns = 0
        self.starts = 0
        self.over = self.settling = False
        self.switched_off: frozenset[str] = frozenset()
        """Modes that are in the plan, and no more (or not now) in the canary's settings."""
        self.closed_at: dict[str, float] = {}
        """By topic that was probed, when a process began last that does not probe it."""
        self.watched_gone: dict[str, float] = {}
        """By topic or pattern that the settings name under ``watch``, when it was gone, or made again."""
        self.lies: dict[str, list[tuple[float, float]]] = {}
        """By harm, from when until when all brokers lied."""
        self.settle_beats = SETTLE_BEATS
        self.log_level = logging.CRITICAL
        """What the canary logs from this level on is printed."""
        self._pending_start = False
        self._silent_since = 0.0
        self.began = self.woke = 0.0

    @property
    def judge(self) -> Judge | None:
        """The part of the canary that judges, None while it has none."""
        return None if self.runner is None else self.runner._judge  # noqa: SLF001  # the runner shows it to nobody

    def remembered(self) -> State | None:
        """Return what the canary's tracker remembers, None while there is none."""
        return None if self.judge is None else self.judge._tracker.state  # noqa: SLF001  # the judge shows it to nobody

    # for harms

    @property
    def clock_ns(self) -> int:
        """What the canary's machine adds to the right time."""
        return self._clock_ns

    @clock_ns.setter
    def clock_ns(self, value: int) -> None:
        self._clock_ns = value
        self.clocks.add(value)

    def topics(self) -> list[str]:
        """Return the probe topics that there are to be."""
        return self.topics_of(self.plan.modes)

    def topics_of(self, modes: Iterable[str]) -> list[str]:
        """Return the probe topics of some modes."""
        return [self.topic_of(mode) for mode in modes]

    def topic_of(self, mode: str) -> str:
        """Return the probe topic of a mode."""
        return self.settings.clusters[0].topic_of(mode)

    def modes_on(self) -> tuple[str, ...]:
        """Return the modes that are in the canary's settings now: without those whose source is switched off."""
        off = self.switched_off
        return tuple(mode for mode in self.plan.modes if mode not in off and WORKLOADS[mode].source not in off)

    def knows_ids(self) -> bool:
        """Return whether the canary has noted the id of each topic: only then it can see that one is made again."""
        named = {topic_id for topic, topic_id, _ in self.cluster.epochs() if topic in self.topics()}
        return self.cluster.ids and self.cluster.other_id is None and named <= self.truth.topic_ids

    def has_topics(self) -> bool:
        """Return whether no topic is away, or unknown to the canary: else it would believe any id that it is told."""
        named = {topic for topic, *_ in self.cluster.epochs()}
        return self.knows_ids() and named >= set(self.topics())

    def any_broker(self) -> int:
        """Return a broker that answers; the first one if none does."""
        brokers = list(self.cluster.brokers())
        return next((one for one in brokers if self.cluster.reaches("elsewhere", one)), brokers[0])

    def grow(self, topic: str) -> None:
        """Add a partition."""
        self.cluster.create_partitions(self.any_broker(), topic, [list(self.cluster.brokers())])

    @property
    def look_beats(self) -> int:
        """Within so many intervals a loss is to be found: twice as many where a transaction hangs.

        There the scrubber reads what lies below it and what lies above it in turns. However much it may read, it turns
        to one log in an interval at most, as it wakes up once in it: where there are many, it comes back later.
        """
        beats = max(LOOK_BEATS, self.plan.logs + FOUND_BEATS)
        return beats * (1 + bool(self.cluster.hung(LOOK_BEATS * self.plan.beat)))

    def silent_for(self) -> float:
        """Return for how many seconds no process of the canary has been able to do anything."""
        if self.process.dead or self.process.frozen:
            return self.schedule.now - self._silent_since
        return 0.0

    def blocked_for(self) -> float:
        """Return for how many seconds the canary has not been able to make a fact durable."""
        if self.judge is None or self.process.dead or self.process.frozen or self.truth.durable_at is None:
            return 0.0
        return self.schedule.now - max(self.truth.durable_at, self.began)

    def later(self, delay: float, act: Callable[[], object]) -> None:
        """Let a harm do something in ``delay`` seconds, and note whether all is well then."""

        def acts() -> None:
            act()
            self.note_health()

        self.schedule.after(delay, acts)

    def freeze(self, process: Process, *, asleep: bool = False) -> None:
        """Stop a process of the canary like SIGSTOP does, or with its machine."""
        self._silent_since = self.schedule.now
        self.schedule.freeze(process, asleep=asleep)

    def resume(self, process: Process) -> None:
        """Let a process of the canary go on that was stopped; for one that slept the time since then has not passed."""
        if process.asleep_at is not None:
            self.woke = self.schedule.now
        self.schedule.resume(process)
        self.slept.add(process.slept_ns)

    def kill_canary(self, after: float, power: random.Random | None = None) -> None:
        """End the canary's process where it stands; with ``power`` its machine loses what was never synced."""
        process = self.process
        if not process.dead:
            self._silent_since = self.schedule.now
        self.schedule.kill(process)
        self.disk.release(process)
        if power is not None:
            self.disk.power_cut(power)
        self._start_later(after)

    def stop_canary(self, after: float) -> None:
        """End the canary's process as SIGTERM does."""
        if self.runner is not None:
            self.runner.ask_stop()
            self._pause_s = after

    # the canary

    _pause_s: float | None = None

    def _start_later(self, after: float) -> None:
        if not self._pending_start and not self.over:
            self._pending_start = True
            self.schedule.after(after, self._start)

    def _start(self) -> None:
        if self.over or not self._pending_start:
            return
        self._pending_start = False
        self.starts += 1
        self.began = self.schedule.now
        self.closed_at |= dict.fromkeys({*self.topics()} - {*self.topics_of(self.modes_on())}, self.began)
        self.process = process = Process(f"canary-{self.starts}")
        process.clock_ns = self.clock_ns
        self.schedule.spawn(process, lambda: self._canary(process), "main")

    def _canary(self, process: Process) -> None:
        settings = replace(self.plan, modes=self.modes_on()).settings() if self.switched_off else self.settings
        runner = self.runner = ClusterRunner(settings, settings.clusters[0], self.store.store, disk=self.disk)
        try:
            runner.run()
        except Exception as error:
            self.note(f"the canary failed: {error!r}")
            self.outcome.wrong.append(Wrong("CRASH", repr(error)))
            raise
        finally:
            if not process.dead:
                runner.end()
        if runner.status is not None:
            self.note(f"the canary ended with status {runner.status}: {runner.message}")
        process.dead = True
        self._silent_since = self.schedule.now
        self.disk.release(process)
        pause, self._pause_s = self._pause_s or AGAIN_S, None
        self._start_later(pause)

    def note(self, words: str) -> None:
        """Add a line to the story."""
        self.outcome.story.append((self.schedule.now, words))

    def note_health(self) -> None:
        """Note whether all is well: in each interval, and after each thing a harm does, which the next may not show."""
        self.chronicle.looks.append((self.schedule.now, self._is_well()))
        self.hung_at |= dict.fromkeys(self.cluster.hung(HUNG_BEATS * self.plan.beat), self.schedule.now)

    def _is_well(self) -> bool:
        ready = self.runner is not None and self.runner.probing.is_set()
        canary = ready and not self.process.dead and not self.process.frozen and not self._pending_start
        return canary and self.cluster.is_well() and self.disk.is_well() and self.store.is_well()
